"""Timeouts that nearly always end before their time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct


class Timeout(Struct, eq=False):
    """One timeout that is running, until it rings or is cancelled.

    It rings at `due`, by the loop's clock, unless it is gone from `waiting` by then.
    """

    waiting: dict[Timeout, None]
    callback: Callable[[], None]
    due: float

    def cancel(self) -> None:
        """Stop it. Harmless when it rang or was cancelled before."""
        self.waiting.pop(self, None)


class Clock:
    """The timeouts of one event loop.

    A timer of the loop costs more than most of what it guards. Timeouts of one length ring in the
    order in which they were started, so one timer, set to the oldest, serves them all; there should
    be few lengths.
    """

    __slots__ = ("_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: dict[float, dict[Timeout, None]] = {}
        """By length, while the timer of that length runs: it is not stopped with its timeout, but
        serves those that were started meanwhile."""

    def after(self, seconds: float, callback: Callable[[], None]) -> Timeout:
        """Call `callback` after `seconds`, unless what is returned is cancelled before."""
        waiting = self._waiting.get(seconds)
        if waiting is None:
            waiting = self._waiting[seconds] = {}
            self.loop.call_later(seconds, self._ring, seconds)
        timeout = Timeout(waiting, callback, self.loop.time() + seconds)
        waiting[timeout] = None
        return timeout

    def _ring(self, seconds: float) -> None:
        waiting, now = self._waiting[seconds], self.loop.time()
        due: list[Timeout] = []
        for timeout in waiting:
            if timeout.due > now:
                self.loop.call_at(timeout.due, self._ring, seconds)
                break
            due.append(timeout)
        else:
            del self._waiting[seconds]
        for timeout in due:
            # One that rings may have cancelled another.
            if timeout in waiting:
                timeout.cancel()
                timeout.callback()
