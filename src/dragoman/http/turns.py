"""Fair reading from connections that send much."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Turns:
    """A queue of connections that have more to read than one read returns: one of them reads on in
    each turn of the loop, so that the others wait for one such read, however many send without end.
    """

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()

    def wait(self, read_on: Callable[[], None]) -> None:
        """Call `read_on` when it is its turn. There may be nothing to read by then."""
        self._waiting.append(read_on)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        read_on = self._waiting.popleft()
        if self._waiting:
            self._loop.call_soon(self._next)
        read_on()
