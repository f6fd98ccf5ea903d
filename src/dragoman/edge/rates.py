"""Counting what each of many does in a minute, or another window."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_MINUTE_S = 60.0


class PerMinute:
    """Counts by name, over a minute from the first, or as long as `window_s` says."""

    __slots__ = ("_clock", "_counts", "_most_names", "_window_s")

    def __init__(
        self,
        most_names: int,
        clock: Callable[[], float] = time.monotonic,
        window_s: float = _MINUTE_S,
    ) -> None:
        """
        Args:
            most_names: names that are remembered; the one counted longest ago makes room.
            clock: seconds.
        """
        self._most_names = most_names
        self._clock = clock
        self._window_s = window_s
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """By name: when the first was, and how many there are."""

    def count(self, name: str, most: int) -> float:
        """Count one more. Returns the seconds that are left of a window with more than `most`, 0
        where there are not more."""
        now = self._clock()
        began, count = self._counts.pop(name, (now, 0))
        if not 0 <= now - began < self._window_s:
            began, count = now, 0
        self._counts[name] = began, count + 1
        if len(self._counts) > self._most_names:
            self._counts.popitem(last=False)
        return began + self._window_s - now if count >= most else 0.0

    def is_over(self, name: str, most: int) -> bool:
        """Whether there were `most` in a window that has not ended."""
        began, count = self._counts.get(name, (0.0, 0))
        return count >= most and 0 <= self._clock() - began < self._window_s
