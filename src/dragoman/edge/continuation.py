"""The memory of a WebSocket connection: the last response of each `stream_id` that is not stored.

It ends with the connection (WebSocket mode guide, "store").
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from dragoman.http import Budget


class Turn(Protocol):
    """A call over a connection of the upstream."""

    def add(self, send: Callable[[bytes], bool], addition: Any) -> bool:
        """Send more input for its response by `send`, and return whether that was sent."""


class Remembered(Struct, frozen=True):
    """A response and the conversation that led to it: items as JSON, without the brackets of their
    arrays, in as many pieces as it took. Pieces are shared with what the conversation was before.
    """

    id: str
    stream_id: str
    pieces: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """Bytes of all pieces."""
        return sum(map(len, self.pieces))


class ConnectionMemory:
    """The last response of each `stream_id` of one connection: `most` bytes at most, reserved in
    `budget`."""

    __slots__ = ("_budget", "_last", "_most", "_size")

    def __init__(self, budget: Budget, most: int) -> None:
        self._budget = budget
        self._most = most
        self._size = 0
        self._last: dict[str, Remembered] = {}
        """By `stream_id`, the oldest first."""

    def find(self, name: str) -> Remembered | None:
        """The response of that id."""
        return next((one for one in self._last.values() if one.id == name), None)

    def store(self, remembered: Remembered) -> None:
        """Store it as the last of its `stream_id`. The oldest ones are dropped for it; it is not
        stored where there is no room."""
        self.drop(self._last.get(remembered.stream_id))
        size = remembered.size
        while self._last and self._size + size > self._most:
            self.drop(next(iter(self._last.values())))
        if size <= self._most and self._budget.reserve(size):
            self._size += size
            self._last[remembered.stream_id] = remembered

    def drop(self, remembered: Remembered | None) -> None:
        """Drop it, if it is stored."""
        if remembered is not None and self._last.get(remembered.stream_id) is remembered:
            del self._last[remembered.stream_id]
            size = remembered.size
            self._size -= size
            self._budget.release(size)

    def clear(self) -> None:
        """Drop everything."""
        self._last.clear()
        self._budget.release(self._size)
        self._size = 0


class Continuation:
    """What one request of a connection continues, and what follows it may continue.

    `parent` is the remembered response that it names, None if there is none; it is found when the
    request is accepted, so that it is there when the request is served. `prepares` says that no
    answer is wanted, only an id to continue. `pieces` are the items of the whole conversation up to
    the answer; None if the answer is not to be remembered. They are `unstored` if a service is sent
    them that would look up what it stored. `add` sends the upstream more input for the running
    response, and returns whether it did; None where that is not supported. `admit` returns why a
    limit of the client's key refuses that, empty if none does.
    """

    __slots__ = ("add", "admit", "memory", "parent", "pieces", "prepares", "stream_id", "unstored")

    def __init__(
        self, memory: ConnectionMemory, stream_id: str, previous: str | None, prepares: bool
    ) -> None:
        self.memory = memory
        self.stream_id = stream_id
        self.prepares = prepares
        self.parent = None if previous is None else memory.find(previous)
        self.pieces: tuple[bytes, ...] | None = None
        self.unstored = False
        self.add: Callable[[Any], bool] | None = None
        self.admit: Callable[[], Awaitable[str]] = _admit_all

    def can_add(
        self, on_added: Callable[[Any], object], turn: Turn, send: Callable[[bytes], bool]
    ) -> None:
        """The upstream takes more input for its `turn`, by messages that `send` sends; `on_added`
        is called with what was sent."""

        def add(addition: Any) -> bool:
            sent = turn.add(send, addition)
            if sent:
                on_added(addition)
            return sent

        self.add = add

    def find(self, previous: str | None) -> Sequence[bytes] | None:
        """The conversation up to the response of that id, None if it is not remembered."""
        if previous is None:
            return None
        if self.parent is None:
            self.parent = self.memory.find(previous)
        return self.parent.pieces if self.parent is not None else None

    def go_on(self, items: bytes) -> None:
        """Add these items, as JSON without brackets, to the conversation before the answer is
        complete."""
        if self.pieces is not None and items:
            self.pieces = (*self.pieces, items)

    def answered(self, name: str, output: bytes) -> None:
        """The answer is complete: `output` are its items, as JSON without brackets."""
        if self.pieces is not None and name:
            pieces = (*self.pieces, output) if output else self.pieces
            self.memory.store(Remembered(name, self.stream_id, pieces))

    def failed(self) -> None:
        """The request failed. Its `stream_id` is then in an unknown state for the client, which
        must send the conversation again; the response of another `stream_id` stays."""
        if self.parent is not None and self.parent.stream_id == self.stream_id:
            self.memory.drop(self.parent)


async def _admit_all() -> str:
    """There are no limits."""
    return ""
