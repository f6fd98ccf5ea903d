"""What people change: who, when, from where, what it was before and is after. Never a secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

Origin = Literal["command", "admin", "gateway"]
"""How a change came: from a command line, over `/admin`, or of the gateway itself."""

Kind = Literal["account", "admin", "key", "team", "prices", "configuration", "request", "doctor"]

Fields = Mapping[str, Any]
"""Values that JSON has, by name."""


class Actor(Struct, frozen=True):
    """Who changes something: `user@host` on a command line, the name of a key over `/admin`; and
    the address it came from, empty on the machine itself."""

    who: str
    origin: Origin
    address: str = ""


class Change(Struct, frozen=True, kw_only=True):
    """One change of one thing. `before` and `after` have what differs: None where it was not there
    before, or is not after."""

    action: str
    kind: Kind
    name: str = ""
    before: Fields | None = None
    after: Fields | None = None


class Line(Struct, frozen=True, kw_only=True):
    """A change as it was written down, at a time in Unix seconds. Later ones have higher ids."""

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
    """Where changes are written down. Every method raises `StoreError` when that cannot be, and has
    then changed nothing."""

    def note(self, actor: Actor, changes: Iterable[Change]) -> None:
        """Write changes down, in the transaction that is open, if one is."""

    def audit(
        self,
        limit: int,
        *,
        before: int | None = None,
        since: float = 0.0,
        only: Mapping[str, str] = {},
    ) -> Sequence[Line]:
        """The latest changes, the last first: those with lower ids than `before`, made since a time
        in Unix seconds, whose `who`, `kind`, `name` and `action` are as in `only`."""


def difference(before: Fields, after: Fields) -> tuple[dict[str, Any], dict[str, Any]]:
    """What differs, as it is in each of them."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return (
        {name: before[name] for name in names if name in before},
        {name: after[name] for name in names if name in after},
    )


def changed(action: str, kind: Kind, name: str, before: Fields, after: Fields) -> Change:
    """The change from one state to another."""
    was, now = difference(before, after)
    return Change(action=action, kind=kind, name=name, before=was, after=now)
