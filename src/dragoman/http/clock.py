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


class Countdown:
    """Timeouts of one length. They ring in the order in which they were started, so one timer of
    the loop, set to the oldest, serves them all.
    """

    __slots__ = ("_loop", "_seconds", "_timer", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._waiting: dict[Timeout, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, callback: Callable[[], None]) -> Timeout:
        """Call `callback` after the countdown's seconds, unless it is cancelled before."""
        waiting = self._waiting
        timeout = Timeout(waiting, callback, self._loop.time() + self._seconds)
        waiting[timeout] = None
        if self._timer is None:
            # It is not stopped with its timeout, but serves those that were started meanwhile.
            self._timer = self._loop.call_later(self._seconds, self._ring)
        return timeout

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        due: list[Timeout] = []
        for timeout in self._waiting:
            if timeout.due > now:
                self._timer = self._loop.call_at(timeout.due, self._ring)
                break
            due.append(timeout)
        for timeout in due:
            # One that rings may have cancelled another.
            if timeout in self._waiting:
                timeout.cancel()
                timeout.callback()


class Clock:
    """The timeouts of one event loop.

    A timer of the loop costs more than most of what it guards. Timeouts of the same length share
    one, so there should be few lengths.
    """

    __slots__ = ("_countdowns", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._countdowns: dict[float, Countdown] = {}

    def after(self, seconds: float, callback: Callable[[], None]) -> Timeout:
        """Call `callback` after `seconds`, unless what is returned is cancelled before."""
        countdown = self._countdowns.get(seconds)
        if countdown is None:
            countdown = self._countdowns[seconds] = Countdown(self.loop, seconds)
        return countdown.start(callback)
