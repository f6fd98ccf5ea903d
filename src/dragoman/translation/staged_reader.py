"""A reader of streams with a stage behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from dragoman.canonical.events import Event
from dragoman.canonical.tagged import TaggedReasoning
from dragoman.canonical.tagged_calls import TaggedCalls
from dragoman.protocols.base import StreamReader
from dragoman.sse import Frame
from dragoman.translation.searching import Searching

Stage: TypeAlias = TaggedReasoning | TaggedCalls | Searching


class StagedReader:
    """A `reader`, and a stage behind it: what it finds in tags, or the searches of the model."""

    __slots__ = ("_reader", "_stage")

    def __init__(self, reader: StreamReader, stage: Stage) -> None:
        self._reader = reader
        self._stage = stage

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        return self._staged(self._reader.read(frame))

    def finish(self) -> Iterable[Event]:
        """The events at the end of the bytes."""
        return self._staged(self._reader.finish())

    @property
    def paused(self) -> bool:
        """Whether the answer goes on when the searches that the model wants are made."""
        return type(self._stage) is Searching and bool(self._stage.pending)

    def _staged(self, events: Iterable[Event]) -> Iterable[Event]:
        return events if self._stage.over else staged(self._stage, events)


def staged(stage: Stage, events: Iterable[Event]) -> list[Event]:
    """What events become behind a stage: the rest of them, once it is over, stays as it is."""
    passed: list[Event] = []
    left = iter(events)
    for event in left:
        passed += stage.push(event)
        if stage.over:
            passed += left
    return passed
