"""Counting what each of many does in a minute."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_MINUTE_S = 60.0


class PerMinute:
    """Counts by name, over a minute from the first."""

    __slots__ = ("_clock", "_counts", "_most_names")

    def __init__(self, most_names: int, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            most_names: names that are remembered; the one counted longest ago makes room.
            clock: seconds.
        """
        self._most_names = most_names
        self._clock = clock
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """By name: when the first was, and how many there are."""

    def count(self, name: str, most: int) -> float:
        """Count one more. Returns the seconds that are left of a minute with more than `most`, 0
        where there are not more."""
        now = self._clock()
        began, count = self._counts.pop(name, (now, 0))
        if not 0 <= now - began < _MINUTE_S:
            began, count = now, 0
        self._counts[name] = began, count + 1
        if len(self._counts) > self._most_names:
            self._counts.popitem(last=False)
        return began + _MINUTE_S - now if count >= most else 0.0
