"""The audit log: who changed what, when, from where, and the values before and after. Never a
secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

Origin = Literal["command", "admin", "gateway"]
"""Where a change came from: the command line, `/admin`, or the gateway itself."""

Kind = Literal[
    "account",
    "admin",
    "key",
    "team",
    "person",
    "prices",
    "configuration",
    "request",
    "doctor",
]

Fields = Mapping[str, Any]
"""JSON values by name."""


class Actor(Struct, frozen=True):
    """Who makes a change: `user@host` on a command line, the name of a key over `/admin`; and the
    address, empty for this machine."""

    who: str
    origin: Origin
    address: str = ""


class Change(Struct, frozen=True, kw_only=True):
    """One change of one entry. `before` and `after` have the values that differ: None if the entry
    did not exist before, or does not exist after."""

    action: str
    kind: Kind
    name: str = ""
    before: Fields | None = None
    after: Fields | None = None


class Line(Struct, frozen=True, kw_only=True):
    """A recorded change, at a time in Unix seconds. Later ones have higher ids."""

    id: int
    at: float
    who: str
    origin: str
    address: str
    action: str
    kind: str
    name: str
    before: Fields | None = None
    after: Fields | None = None


class AuditLog(Protocol):
    """The log of changes. Every method raises `StoreError` if it cannot be used, and has then
    changed nothing."""

    def record(self, actor: Actor, changes: Iterable[Change]) -> None:
        """Record changes, in the open transaction if there is one."""

    def audit(
        self,
        limit: int,
        *,
        before: int | None = None,
        since: float = 0.0,
        only: Mapping[str, str] = {},
    ) -> Sequence[Line]:
        """The latest changes, the last first: those with ids below `before`, made since a time in
        Unix seconds, with `who`, `kind`, `name` and `action` as in `only`."""


def difference(before: Fields, after: Fields) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values that differ, of each."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return (
        {name: before[name] for name in names if name in before},
        {name: after[name] for name in names if name in after},
    )


def changed(action: str, kind: Kind, name: str, before: Fields, after: Fields) -> Change:
    """The change from one state to another."""
    was, now = difference(before, after)
    return Change(action=action, kind=kind, name=name, before=was, after=now)
