"""A whole answer written from its folded events."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.canonical.events import Event
from dragoman.canonical.fold import fold
from dragoman.canonical.responses import Response
from dragoman.protocols.base import Reply
from dragoman.protocols.fields import JsonObject


class FoldedAnswer:
    """Collects the events of a whole answer."""

    __slots__ = ("_events", "_reply", "_write")

    def __init__(self, reply: Reply, write: Callable[[Response, Reply], JsonObject]) -> None:
        self._reply = reply
        self._write = write
        self._events: list[Event] = []

    def write(self, event: Event) -> bytes:
        """Take one event."""
        self._events.append(event)
        return b""

    def keepalive(self) -> bytes:
        """Nothing: the answer is whole."""
        return b""

    def answer(self) -> JsonObject:
        """The whole answer."""
        return self._write(fold(self._events), self._reply)
