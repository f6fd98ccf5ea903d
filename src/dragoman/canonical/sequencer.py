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

_OF_BLOCK = (Delta, Closed, PartBreak, Annotated, Sealed)


class Sequencer:
    """Re-orders events so that a block opens only after the one before it closed.

    The events of the block that opened first pass at once; those of blocks that opened
    meanwhile are buffered, in the order the blocks opened. Events of no block pass at once.

    `current` is the index of the block whose events pass, None if no block is open.
    """

    __slots__ = ("_waiting", "current")

    def __init__(self) -> None:
        self.current: int | None = None
        self._waiting: dict[int, list[Event]] = {}

    def push(self, event: Event) -> list[Event]:
        """Take one event; return the events that may go on now, in order."""
        if isinstance(event, _OF_BLOCK):
            if self._waiting and event.index != self.current:
                buffered = self._waiting.get(event.index)
                if buffered is not None:
                    buffered.append(event)
                    return []
            if type(event) is Closed:
                self.current = None
                if self._waiting:
                    return [event, *self._release()]
        elif type(event) is Opened:
            if self.current is not None:
                self._waiting[event.index] = [event]
                return []
            self.current = event.index
        elif self._waiting:
            if type(event) is Failed:
                self._waiting.clear()
            elif type(event) is Finished or type(event) is Ended:
                return [*self._release(), event]
        return [event]

    def _release(self) -> list[Event]:
        released: list[Event] = []
        while self._waiting and self.current is None:
            index = next(iter(self._waiting))
            released += self._waiting.pop(index)
            if not isinstance(released[-1], Closed):
                self.current = index
        return released
