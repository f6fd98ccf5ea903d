"""The counts of all workers, for whichever of them is asked."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from dragoman.link.messages import Handlers, Notice, Peer, Question
from dragoman.observability.metrics.counts import Counts


class Publish(Struct, frozen=True):
    """What a worker has counted since it began: `Counts`, which the owner does not read."""

    counts: bytes


class Collect(Struct, frozen=True):
    """Asks for what the other workers have published."""


class Collected(Struct, frozen=True):
    """What the other workers have published."""

    counts: tuple[bytes, ...]


PUBLISH = Notice("metrics.publish", Publish)
COLLECT = Question("metrics.collect", Collect, Collected)


class Board:
    """What each worker has published, at the owner. It is there for the worker that takes the place
    of one that has ended: a worker that is forked finds it in its memory."""

    def __init__(self, handlers: Handlers) -> None:
        self._published: dict[int, bytes] = {}
        handlers.receive(PUBLISH, self._publish)
        handlers.answer(COLLECT, self._collect)

    def of(self, number: int) -> Counts | None:
        """What the worker of that number has published last, None if it has not."""
        data = self._published.get(number)
        return None if data is None else read_counts(data)

    def _publish(self, worker: Peer, message: Publish) -> None:
        self._published[worker.number] = message.counts

    def _collect(self, worker: Peer, message: Collect) -> Collected:
        others = (data for number, data in self._published.items() if number != worker.number)
        return Collected(tuple(others))


read_counts = msgspec.msgpack.Decoder(Counts).decode
write_counts = msgspec.msgpack.Encoder().encode
