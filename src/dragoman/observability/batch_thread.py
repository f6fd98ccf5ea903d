"""A queue that a thread of its own empties, for work outside the request path."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_LAST_S = 2.0
"""Seconds in which the thread empties the queue when the gateway stops."""


class BatchThread(Generic[T]):
    """Processes items in batches, in a thread. It is started with `start`, in the process that
    serves. Adding costs an append to a queue."""

    def __init__(
        self,
        name: str,
        take: Callable[[list[T]], None],
        end: Callable[[], None],
        *,
        most: int,
        at_once: int,
        every_s: float,
    ) -> None:
        """
        Args:
            name: of the thread.
            take: called in the thread with at most `at_once` items: as soon as so many wait, else
                every `every_s` seconds, also with none. It must not raise.
            end: called in the thread after the last batch.
            most: how many items may wait.
            at_once: the largest batch.
            every_s: seconds between two calls while few items wait.
        """
        self._take = take
        self._end = end
        self._most = most
        self._at_once = at_once
        self._every_s = every_s
        self._waiting: deque[T] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def size(self) -> int:
        """How many items wait."""
        return len(self._waiting)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def add(self, one: T) -> bool:
        """Queue an item; False if too many wait."""
        if len(self._waiting) >= self._most:
            return False
        self._waiting.append(one)
        if len(self._waiting) == self._at_once:
            self._wake.set()
        return True

    def close(self) -> None:
        """Process what waits, within two seconds, and end the thread."""
        if self._thread.is_alive():
            self._closing = True
            self._wake.set()
            self._thread.join(_LAST_S)

    def _run(self) -> None:
        while True:
            if len(self._waiting) < self._at_once and not self._closing:
                self._wake.wait(self._every_s)
            self._wake.clear()
            is_last = self._closing
            count = min(len(self._waiting), self._at_once)
            self._take([self._waiting.popleft() for _ in range(count)])
            if is_last and not self._waiting:
                self._end()
                return
