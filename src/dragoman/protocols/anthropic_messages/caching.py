"""Cache marks of a request: recorded while blocks are written, resolved when all are in place."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dragoman.canonical.blocks import CacheMark
from dragoman.canonical.losses import LossKind
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject

_FIELD = "cache_control"
_LIFETIMES = {"5m": "5m", "1h": "1h", "12h": "1h"}


class _Pending(Struct, frozen=True):
    """A recorded mark: the client's value, and its path."""

    mark: CacheMark
    path: str


class Marks(Struct, eq=False):
    """The marks of one request. `expected`: there may be some in what was written."""

    expected: bool = False

    def put(self, entry: JsonObject, cache: CacheMark | None, path: str) -> None:
        """Record that the client marked the block written as `entry`."""
        if cache is not None:
            entry[_FIELD] = _Pending(cache, f"{path}.{cache.member}")
            self.expected = True

    def settle(
        self, body: JsonObject, automatic: CacheMark | None, path: str, outbound: Outbound
    ) -> None:
        """Turn the recorded marks of a finished body into the service's own.

        The service takes four marks, and in the order tools, system, messages none that lives
        longer than one before it; of too many, only the last ones stay, since they cover the most.
        `automatic` asks for the top-level mark, which counts like the others; `path` is where the
        client asked for it.
        """
        entries: list[JsonObject] = []
        if self.expected:
            for name in ("tools", "system", "messages"):
                _collect_marked(body.get(name), entries)
        if not entries and automatic is None:
            return
        # Marks inside unchanged blocks count too, but only recorded ones can be left out.
        marked = [entry for entry in entries if isinstance(entry[_FIELD], _Pending)]
        surplus = max(0, len(entries) + (automatic is not None) - wire.MAX_CACHE_MARKS)
        for entry in marked[:surplus]:
            outbound.ledger.add(entry.pop(_FIELD).path, LossKind.KNOB, "too many cache marks")
        short = False
        for entry in entries:
            control = entry.get(_FIELD)
            if isinstance(control, _Pending):
                control = entry[_FIELD] = _control(control, outbound, short)
            if isinstance(control, dict):
                short = short or control.get("ttl", "5m") == "5m"
        if automatic is not None:
            body[_FIELD] = _control(_Pending(automatic, path), outbound, short)


def _control(pending: _Pending, outbound: Outbound, short: bool) -> JsonObject:
    asked = pending.mark.ttl
    half_hour = outbound.capabilities.of(MessagesCapabilities).cache_ttl_30m_as
    if asked is None:
        given = "1h" if half_hour == "1h" else None
    else:
        given = half_hour if asked == "30m" else _LIFETIMES.get(asked)
    if short and given == "1h":
        given = "5m"
    if asked is not None and given != asked:
        detail = f"cache lifetime {asked} became {given or 'the default'}"
        outbound.ledger.add(pending.path, LossKind.KNOB, detail)
    return {"type": "ephemeral"} if given is None else {"type": "ephemeral", "ttl": given}


def _collect_marked(value: Any, found: list[JsonObject]) -> None:
    """Collect the marked entries of a list, and of the content inside them; a tool result's own
    mark comes after those of its content."""
    if type(value) is not list:
        return
    for entry in value:
        if type(entry) is dict:
            content = entry.get("content")
            if type(content) is list:
                _collect_marked(content, found)
            if _FIELD in entry:
                found.append(entry)
