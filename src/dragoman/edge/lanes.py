"""What a connection remembers: the last response of each of its lanes that nobody stores.

It is in memory only, and goes with the connection (WebSocket mode guide, "store").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from dragoman.http import Budget


class Turn(Protocol):
    """A call over a connection of the upstream."""

    def add(self, send: Callable[[bytes], bool], addition: Any) -> bool:
        """Send more input for its response by `send`. Whether that was sent."""


class Remembered(Struct, frozen=True):
    """A response and the conversation that led to it: items as JSON, without the brackets of their
    arrays, in as many pieces as it took. Pieces are shared with what the conversation was before.
    `was_answered`: by an upstream, and not only prepared.
    """

    id: str
    lane: str
    pieces: tuple[bytes, ...]
    was_answered: bool = True

    @property
    def size(self) -> int:
        """Bytes of all pieces."""
        return sum(map(len, self.pieces))


class ConnectionMemory:
    """The last response of each lane of one connection, `most` bytes at most, out of `budget`."""

    __slots__ = ("_budget", "_held", "_last", "_most")

    def __init__(self, budget: Budget, most: int) -> None:
        self._budget = budget
        self._most = most
        self._held = 0
        self._last: dict[str, Remembered] = {}
        """By lane, the oldest first."""

    @property
    def held(self) -> int:
        """Bytes that are remembered."""
        return self._held

    def find(self, name: str) -> Remembered | None:
        """The response of that id."""
        return next((one for one in self._last.values() if one.id == name), None)

    def keep(self, remembered: Remembered) -> None:
        """Remember it as the last of its lane. The oldest of others make room; one for which there
        is no room is not remembered."""
        self.drop(self._last.get(remembered.lane))
        size = remembered.size
        while self._last and self._held + size > self._most:
            self.drop(next(iter(self._last.values())))
        if size <= self._most and self._budget.take(size):
            self._held += size
            self._last[remembered.lane] = remembered

    def drop(self, remembered: Remembered | None) -> None:
        """Forget it, if it is remembered."""
        if remembered is not None and self._last.get(remembered.lane) is remembered:
            del self._last[remembered.lane]
            size = remembered.size
            self._held -= size
            self._budget.give(size)

    def clear(self) -> None:
        """Forget everything."""
        self._last.clear()
        self._budget.give(self._held)
        self._held = 0


class Continuation:
    """One request of a connection: what it goes on from, and what it leaves behind.

    `parent` is the remembered response that it names, None if there is none; it is held from when
    the request is accepted, so that it is there when the request's turn comes. `prepares` says that
    no answer is wanted, only an id to go on from. `pieces` are the items of the whole conversation
    up to the answer, once they are known; None if the answer is not to be remembered. They are
    `unstored` if a service is sent them that would look up what it stored. `add` sends the upstream
    more input for the response under way, and says whether it did; None where that cannot be.
    `admit` says why a limit of the client's does not let that in, empty if none does.
    """

    __slots__ = ("add", "admit", "lane", "memory", "parent", "pieces", "prepares", "unstored")

    def __init__(
        self, memory: ConnectionMemory, lane: str, previous: str | None, prepares: bool
    ) -> None:
        self.memory = memory
        self.lane = lane
        self.prepares = prepares
        self.parent = None if previous is None else memory.find(previous)
        self.pieces: tuple[bytes, ...] | None = None
        self.unstored = False
        self.add: Callable[[Any], bool] | None = None
        self.admit: Callable[[], str] = str

    def can_add(
        self, told: Callable[[Any], object], turn: Turn, send: Callable[[bytes], bool]
    ) -> None:
        """The upstream takes more input for its `turn`, by messages that `send` sends; `told` is
        called with what was sent."""

        def add(addition: Any) -> bool:
            sent = turn.add(send, addition)
            if sent:
                told(addition)
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
        """The conversation goes on with these items, as JSON without brackets, before the answer
        is whole."""
        if self.pieces is not None and items:
            self.pieces = (*self.pieces, items)

    def answered(self, name: str, output: bytes) -> None:
        """The answer is whole: `output` are its items, as JSON without brackets."""
        if self.pieces is not None and name:
            pieces = (*self.pieces, output) if output else self.pieces
            self.memory.keep(Remembered(name, self.lane, pieces, not self.prepares))

    def failed(self) -> None:
        """There is no answer. The lane's client has lost count of where it is, so that it must send
        the conversation anew; another lane's response stays."""
        if self.parent is not None and self.parent.lane == self.lane:
            self.memory.drop(self.parent)
