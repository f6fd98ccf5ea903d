"""One open block at a time: buffers blocks that an upstream interleaves."""

from __future__ import annotations

from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Failed,
    Finished,
    Opened,
    PartBreak,
    Sealed,
)

_OF_A_BLOCK = (Delta, PartBreak, Annotated, Sealed, Closed)


class Sequencer:
    """Re-orders events so that a block opens only after the one before it closed.

    The events of the block that opened first pass at once; those of blocks that opened
    meanwhile wait, in the order the blocks opened. Events of no block pass at once.
    """

    __slots__ = ("_current", "_waiting")

    def __init__(self) -> None:
        self._current: int | None = None
        self._waiting: dict[int, list[Event]] = {}

    def push(self, event: Event) -> list[Event]:
        """Take one event; return the events that may go on now, in order."""
        if isinstance(event, Opened):
            if self._current is None:
                self._current = event.index
                return [event]
            self._waiting[event.index] = [event]
            return []
        if isinstance(event, _OF_A_BLOCK):
            if event.index != self._current:
                buffered = self._waiting.get(event.index)
                if buffered is not None:
                    buffered.append(event)
                    return []
            if isinstance(event, Closed):
                self._current = None
                return [event, *self._release()]
            return [event]
        if isinstance(event, Failed):
            self._waiting.clear()
        elif isinstance(event, Finished | Ended) and self._waiting:
            return [*self._release(), event]
        return [event]

    def _release(self) -> list[Event]:
        released: list[Event] = []
        while self._waiting and self._current is None:
            index = next(iter(self._waiting))
            released += self._waiting.pop(index)
            if not isinstance(released[-1], Closed):
                self._current = index
        return released
