"""What the supervisor and the workers of a gateway know of one another."""

from __future__ import annotations

import time
from mmap import mmap

BEAT_S = 0.25
"""Seconds between two signs of life of a worker."""

SILENT_S = 2.0
"""Seconds without a sign of life after which the others take a worker's connections."""

_CELL = 8
_BEAT, _SERVING, _RESTARTS, _CONFIGURATION = range(4)
_CELLS = 4


class WorkerTable:
    """Shared memory of the processes that are forked after it was made, with a row per worker.

    A row is numbers of 8 bytes, each of which has one writer at a time and is read whole: when the
    worker was last heard of (monotonic seconds, 0 if there is none), whether it serves, how often
    it was started again, and the number of the configuration that it serves.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._cells = memoryview(mmap(-1, _CELLS * workers * _CELL)).cast("d")

    def started(self, number: int) -> None:
        """A process has been started for worker `number`."""
        self._cells[_CELLS * number + _SERVING] = 0.0
        self._cells[_CELLS * number + _CONFIGURATION] = 0.0
        self._cells[_CELLS * number + _BEAT] = time.monotonic()

    def ended(self, number: int) -> None:
        """The process of worker `number` is gone, and another will follow."""
        self._cells[_CELLS * number + _SERVING] = 0.0
        self._cells[_CELLS * number + _BEAT] = 0.0
        self._cells[_CELLS * number + _RESTARTS] += 1

    def serving(self, number: int) -> None:
        """Worker `number` takes connections."""
        self._cells[_CELLS * number + _SERVING] = 1.0
        self.beat(number)

    def beat(self, number: int) -> None:
        """A sign of life of worker `number`."""
        self._cells[_CELLS * number + _BEAT] = time.monotonic()

    def last_beat(self, number: int) -> float:
        """When worker `number` was last heard of, in monotonic seconds; 0 if it is gone."""
        return self._cells[_CELLS * number + _BEAT]

    def is_serving(self, number: int) -> bool:
        """Whether worker `number` takes connections and was heard of of late."""
        late = self._cells[_CELLS * number + _BEAT] + SILENT_S < time.monotonic()
        return self._cells[_CELLS * number + _SERVING] == 1.0 and not late

    def count_serving(self) -> int:
        """How many workers take connections."""
        return sum(self.is_serving(number) for number in range(self.workers))

    def configured(self, number: int, configuration: int) -> None:
        """Worker `number` serves the configuration of that number."""
        self._cells[_CELLS * number + _CONFIGURATION] = float(configuration)

    def configurations(self) -> list[int]:
        """The number of the configuration that each worker serves, 0 while it serves none."""
        return [
            int(self._cells[_CELLS * number + _CONFIGURATION]) for number in range(self.workers)
        ]

    def restarts(self) -> int:
        """How often workers were started again."""
        return sum(int(self._cells[_CELLS * number + _RESTARTS]) for number in range(self.workers))

    def orphans(self, number: int) -> set[int]:
        """The silent workers whose connections worker `number` is to take: those before it, back
        to the next that serves, in a ring. Those that are being started are left alone."""
        found: set[int] = set()
        for step in range(1, self.workers):
            other = (number - step) % self.workers
            if self.is_serving(other):
                break
            if self.last_beat(other) + SILENT_S < time.monotonic():
                found.add(other)
        return found
