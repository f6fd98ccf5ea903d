"""A queue that a thread of its own empties, for work that no request is to wait for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_LAST_S = 2.0
"""Seconds that the thread is given for the rest when the gateway stops."""


class BatchThread(Generic[T]):
    """Hands on what is added, in a thread. It is started with `start`, in the process that serves.
    A request pays for an object in a queue."""

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
            take: is called in the thread with what was added, at most `at_once` of it: as soon as
                so many wait, else every `every_s` seconds, also with nothing. It must not raise.
            end: is called in the thread after all else.
            most: how many may wait.
            at_once: how many are handed on together.
            every_s: seconds between two calls while there is little.
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
        """How many wait."""
        return len(self._waiting)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def add(self, one: T) -> bool:
        """Hand `one` on, later; False if too many wait."""
        if len(self._waiting) >= self._most:
            return False
        self._waiting.append(one)
        if len(self._waiting) == self._at_once:
            self._wake.set()
        return True

    def close(self) -> None:
        """Hand on what waits, if it is taken within two seconds, and end the thread."""
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
