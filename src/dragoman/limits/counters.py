"""What was used of a limit within its window, in whole numbers.

A window is divided into parts: a rolling one into 256, one of the calendar is a part by itself. A
counter holds what was used in each part that still counts. What was used in a part of a rolling
window is free again once the whole part is past, so that at no moment more is within the window
than was allowed to be used; of a limit that is always used up, one part in 256 goes unused.

Where the clock is put back a little, use is counted in the latest part there was. Where that begins
later than `CLOCK_SLACK_S` from now, the clock was wrong: all use counts as of now.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final

from msgspec import Struct

from dragoman.config.windows import Fixed, Rolling, Window, span_of

PARTS: Final = 256
"""Parts of a rolling window."""

_RECENT_PARTS: Final = PARTS // 8
"""Parts of a rolling window from which a forecast is made."""

CLOCK_SLACK_S: Final = 300.0
"""Seconds by which clocks may be set back: what is later is of a clock that was wrong."""

_ROUNDING_S: Final = 1e-6
"""Seconds before the end of a part at which it counts as over: times are not exact."""

_MOST: Final = 1 << 62
"""The largest count: sums have to fit 64 bits."""


class CounterState(Struct, array_like=True):
    """A counter as it is stored: the latest part, and what was used in each, in their order."""

    part: int = -1
    parts: dict[int, int] = {}


class Counter:
    """Counts use in one window."""

    __slots__ = ("_since", "_until", "part", "parts", "used", "window")

    def __init__(self, window: Window, state: CounterState | None = None) -> None:
        self.window = window
        self.part = -1
        self.parts: dict[int, int] = {}
        self.used = 0
        self._since = self._until = 0.0
        if state is not None:
            self.take(state)

    def state(self) -> CounterState:
        """The state of the counter, which is a copy."""
        return CounterState(self.part, dict(self.parts))

    def take(self, state: CounterState) -> None:
        """Go on from a state."""
        self.part, self.parts, self._until = state.part, dict(state.parts), 0.0
        self.used = sum(self.parts.values())

    def restore(self, used: Iterable[tuple[float, int]], now: float) -> None:
        """Begin anew with what was used before, each with its time."""
        self.parts, self.used = {}, 0
        self.advance(now)
        for at, amount in sorted(used):
            part = min(self._part_at(min(at, now)), self.part)
            if part >= self._oldest():
                self.parts[part] = self.parts.get(part, 0) + amount
                self.used += amount

    def merge(self, state: CounterState, now: float) -> None:
        """Count what another counter of the same window has counted, too."""
        self.advance(now)
        for part, amount in state.parts.items():
            if part >= self._oldest():
                place = min(part, self.part)
                self.parts[place] = self.parts.get(place, 0) + amount
                self.used += amount
        self.parts = dict(sorted(self.parts.items()))

    def advance(self, now: float) -> int:
        """Drop what is no longer in the window. Returns what was used within it."""
        if not self._since <= now < self._until:
            part = self._part_at(now)
            self._since, self._until = now - CLOCK_SLACK_S, self._end_of(part, now)
            if part < self.part and self._begin_of(self.part) > now + CLOCK_SLACK_S:
                self.part = part
                self.parts = {part: self.used} if self.used else {}
            if part > self.part:
                self.part = part
                oldest = self._oldest()
                while self.parts and (first := next(iter(self.parts))) < oldest:
                    self.used -= self.parts.pop(first)
        return self.used

    def add(self, now: float, amount: int) -> int:
        """Count `amount` as used at `now`. Returns what was used within the window before."""
        used = self.advance(now)
        if used + amount <= _MOST:
            self.parts[self.part] = self.parts.get(self.part, 0) + amount
            self.used = used + amount
        return used

    def take_back(self, at: float, amount: int) -> None:
        """What was counted at `at` was not used after all."""
        part = self._part_at(at)
        if part < self._oldest():
            return
        # A later part has it if the clock was put back then.
        for place, used in self.parts.items():
            if place >= part and used >= amount:
                self.parts[place] = used - amount
                self.used -= amount
                return

    def take_back_oldest(self, at: float, amount: int) -> None:
        """So much of what was counted at `at` or later was not used after all: what is left counts
        for no shorter than it was used. What no longer counts is not taken from the use of
        others."""
        if self._part_at(at) < self._oldest():
            return
        for place, used in self.parts.items():
            taken = min(amount, used)
            self.parts[place] -= taken
            self.used -= taken
            amount -= taken
            if not amount:
                return

    def free_at(self, now: float, amount: int) -> float:
        """When `amount` of what was used is no longer in the window; infinity for never."""
        if amount > self.advance(now):
            return inf
        if isinstance(self.window, Fixed):
            return span_of(self.window, now)[1]
        for place, used in self.parts.items():
            amount -= used
            if amount <= 0:
                return max(now, (place + PARTS + 1) * self.window.seconds / PARTS)
        return inf

    def resets_at(self, now: float) -> float:
        """When nothing of what was used counts any more."""
        if isinstance(self.window, Fixed):
            return span_of(self.window, now)[1]
        latest = max((place for place, used in self.parts.items() if used), default=None)
        if not self.advance(now) or latest is None:
            return now
        return (latest + PARTS + 1) * self.window.seconds / PARTS

    def runs_out_at(self, now: float, left: int, since: float) -> float:
        """When `left` is used as well, if use goes on as in the last eighth of a rolling window, or
        as in one of the calendar since that began, or since `since`. Infinity if the window begins
        anew before that, or nothing is known."""
        used = self.advance(now)
        if not used:
            return inf
        if isinstance(self.window, Fixed):
            begin, end = span_of(self.window, now)
            begin = max(begin, since)
            if not begin or now <= begin:
                return inf
            at = now + left * (now - begin) / used
            return at if at < end else inf
        recent = sum(self.parts.get(self.part - back, 0) for back in range(_RECENT_PARTS))
        for ahead in range(1, PARTS + 1):
            # What was used in a part that is past is free again.
            left += self.parts.get(self.part + ahead - PARTS - 1, 0)
            if ahead * recent > left * _RECENT_PARTS:
                return now + (ahead - 1) * self.window.seconds / PARTS
        return inf

    def _oldest(self) -> int:
        """The first part that counts."""
        return self.part - (PARTS if isinstance(self.window, Rolling) else 0)

    def _part_at(self, now: float) -> int:
        if isinstance(self.window, Rolling):
            return int(now * PARTS / self.window.seconds)
        return int(span_of(self.window, now)[0])

    def _begin_of(self, part: int) -> float:
        return part * self.window.seconds / PARTS if isinstance(self.window, Rolling) else part

    def _end_of(self, part: int, now: float) -> float:
        if isinstance(self.window, Rolling):
            return (part + 1) * self.window.seconds / PARTS - _ROUNDING_S
        return span_of(self.window, now)[1]


def counts_until(window: Window, now: float) -> float:
    """Until when something counts that is used at `now`, to within a part of the window."""
    return now + window.seconds if isinstance(window, Rolling) else span_of(window, now)[1]
