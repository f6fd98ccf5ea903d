"""A reader of streams whose texts may begin with reasoning in tags."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.canonical.events import Event
from dragoman.canonical.tagged import TaggedReasoning
from dragoman.protocols.base import StreamReader
from dragoman.sse import Frame


class TaggedReader:
    """A `reader`, and the stage behind it that finds the reasoning."""

    __slots__ = ("_reader", "_stage")

    def __init__(self, reader: StreamReader, stage: TaggedReasoning) -> None:
        self._reader = reader
        self._stage = stage

    def read(self, frame: Frame) -> Iterable[Event]:
        """The events of one frame, in order."""
        return self._staged(self._reader.read(frame))

    def finish(self) -> Iterable[Event]:
        """The events at the end of the bytes."""
        return self._staged(self._reader.finish())

    def _staged(self, events: Iterable[Event]) -> Iterable[Event]:
        if self._stage.over:
            return events
        return [staged for event in events for staged in self._stage.push(event)]
