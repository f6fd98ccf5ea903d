"""What was used of a limit within its window. Pure: its cells and the time are given.

The cells are whole numbers that several processes may share: whoever calls holds their lock. What
is used is exact: at no moment is more within the window than was allowed to be taken.
"""

from __future__ import annotations

from math import inf
from typing import Final, Protocol

from dragoman.config.windows import Fixed, Rolling, Window, span_of

Cells = memoryview
"""Signed whole numbers of 64 bits (format `q`)."""

WHEN, USED, RESERVED, RESTORED = range(4)
"""The first cells of every counter: the last part of a rolling window that something was counted
in, or when the present window of the calendar began; what was used; what is reserved; whether what
was used before the counter was made has been added."""
_HEAD: Final = 4

PARTS: Final = 256
"""Parts of a rolling window that are counted apart. What was taken is free again when the whole
part it lies in is past: of a limit that is always used up, one part in 256 goes unused."""

_RING: Final = PARTS + 1
"""One more than the window has, for the part that began before the window and is not over yet."""

_LATELY: Final = PARTS // 8
"""Parts of a rolling window by which is told how much is used lately."""

_ROUNDING_S: Final = 1e-6
"""Seconds before its end from which on a part is looked for anew: times are not exact."""

_NOTHING: Final = memoryview(bytes(8 * _RING)).cast("q")

_IS_USED: Final = bytes([0] + [1] * 255)
"""Turns the bytes of what was used into 1, and leaves those of nothing."""

_MOST: Final = 1 << 62
"""Where a counter stays: more does not fit a cell."""

FIXED_CELLS: Final = _HEAD
ROLLING_CELLS: Final = _HEAD + _RING


class Counter(Protocol):
    """What was used of one limit. Before `fresh_until` the cell `USED` tells what `used` does."""

    fresh_until: float

    def used(self, now: float) -> int:
        """How much was used within the window that `now` is in."""

    def add(self, now: float, amount: int) -> int:
        """Count `amount` as used at `now`. Returns how much was used within the window then."""

    def counts_from(self, now: float) -> float:
        """As of when something counts that is used at `now`, for `add_late`: later than that where
        the clock was put back. What `used` tells must be fresh."""

    def add_late(self, at: float, amount: int) -> int:
        """Count `amount` as used at `at`, which may be past: others may have counted later uses,
        and what is within the window no more does not count. Returns how much is used."""

    def take_back(self, at: float, amount: int) -> None:
        """What was counted at `at` was not used after all."""

    def take_back_latest(self, amount: int) -> None:
        """The latest `amount` that was counted was not used after all."""

    def frees_at(self, now: float, amount: int) -> float:
        """When `amount` of what was used is within the window no more: infinity for never."""

    def resets_at(self, now: float) -> float:
        """When nothing of what was used is within the window any more."""

    def counts_until(self, now: float) -> float:
        """Until when something counts that is used at `now`, to within a part of the window:
        infinity for ever."""

    def runs_out_at(self, now: float, left: int, since: float = 0.0) -> float:
        """When `left` will have been used as well, if use goes on as it did lately, in a window of
        the calendar as it did since that began, or since a time: infinity if it begins anew before,
        or nothing is known."""


def counter_of(window: Window | None, cells: Cells) -> Counter:
    """The counter of a window; None is for what is only reserved, and never used."""
    if isinstance(window, Rolling):
        return RollingCounter(cells, window.seconds)
    return FixedCounter(cells, Fixed(None) if window is None else window)


def cells_of(window: Window | None) -> int:
    """How many cells the counter of a window has."""
    return ROLLING_CELLS if isinstance(window, Rolling) else FIXED_CELLS


class RollingCounter:
    """Counts in a window of the last `seconds`."""

    __slots__ = ("_cells", "_found", "_looked", "_parts_per_s", "_seconds", "fresh_until")

    def __init__(self, cells: Cells, seconds: float) -> None:
        self._cells = cells
        self._seconds = seconds
        self._looked = self._found = 0, 0
        self._parts_per_s = PARTS / seconds
        self.fresh_until = 0.0

    def used(self, now: float) -> int:
        """See `Counter.used`."""
        cells = self._cells
        if now >= self.fresh_until:
            part = int(now * self._parts_per_s)
            if part > cells[WHEN]:
                self._move_to(part)
            self.fresh_until = (part + 1) / self._parts_per_s - _ROUNDING_S
        return cells[USED]

    def add(self, now: float, amount: int) -> int:
        """See `Counter.add`."""
        cells = self._cells
        if now >= self.fresh_until:
            self.used(now)
        total = cells[USED] + amount
        if total > _MOST:
            return total
        # Never before the last: the time of one process may be a little behind that of another.
        cells[_HEAD + cells[WHEN] % _RING] += amount
        cells[USED] = total
        return total

    def counts_from(self, now: float) -> float:
        """See `Counter.counts_from`."""
        latest = self._cells[WHEN]
        # In the middle of the part, since times are not exact.
        return now if now * self._parts_per_s >= latest else (latest + 0.5) / self._parts_per_s

    def add_late(self, at: float, amount: int) -> int:
        """See `Counter.add_late`."""
        cells = self._cells
        part, latest, total = int(at * self._parts_per_s), cells[WHEN], cells[USED] + amount
        if part < latest - PARTS or total > _MOST:
            return cells[USED]
        cells[_HEAD + min(part, latest) % _RING] += amount
        cells[USED] = total
        self._looked = 0, 0
        return total

    def take_back(self, at: float, amount: int) -> None:
        """See `Counter.take_back`."""
        cells = self._cells
        part = int(at * self._parts_per_s)
        if not cells[WHEN] - PARTS <= part <= cells[WHEN]:
            return
        # It was counted in a later part, if the time was behind.
        for number in range(part, cells[WHEN] + 1):
            place = _HEAD + number % _RING
            if cells[place] >= amount:
                cells[place] -= amount
                cells[USED] -= amount
                self._looked = 0, 0
                return

    def take_back_latest(self, amount: int) -> None:
        """See `Counter.take_back_latest`."""
        cells = self._cells
        for number in range(cells[WHEN], cells[WHEN] - _RING, -1):
            place = _HEAD + number % _RING
            taken = min(amount, cells[place])
            cells[place] -= taken
            amount -= taken
            if not amount:
                break
        cells[USED] = sum(cells[_HEAD:])
        self._looked = 0, 0

    def frees_at(self, now: float, amount: int) -> float:
        """See `Counter.frees_at`."""
        if amount > self.used(now):
            return inf
        cells = self._cells
        oldest = cells[WHEN] - PARTS
        first, _ = self._used_parts()
        if cells[_HEAD + first % _RING] >= amount:
            return max(now, (first + _RING) / self._parts_per_s)
        for part, used in enumerate(memoryview(self._parts()).cast("q"), oldest):
            amount -= used
            if amount <= 0:
                return max(now, (part + _RING) / self._parts_per_s)
        return inf

    def resets_at(self, now: float) -> float:
        """See `Counter.resets_at`."""
        cells = self._cells
        if not (cells[USED] if now < self.fresh_until else self.used(now)):
            return now
        latest = cells[WHEN]
        if not cells[_HEAD + latest % _RING]:
            _, latest = self._used_parts()
        return (latest + _RING) / self._parts_per_s

    def counts_until(self, now: float) -> float:
        """See `Counter.counts_until`."""
        return now + self._seconds

    def runs_out_at(self, now: float, left: int, since: float = 0.0) -> float:
        """See `Counter.runs_out_at`."""
        if not self.used(now):
            return inf
        cells = self._cells
        latest = cells[WHEN]
        lately = sum(cells[_HEAD + (latest - back) % _RING] for back in range(_LATELY))
        for ahead in range(1, PARTS + 1):
            # What was used in a part that is past is free again.
            left += cells[_HEAD + (latest + ahead) % _RING]
            if ahead * lately > left * _LATELY:
                return now + (ahead - 1) / self._parts_per_s
        return inf

    def _parts(self) -> bytes:
        """What was used in each part, from the oldest on, as in cells."""
        cells = self._cells
        place = _HEAD + (cells[WHEN] + 1) % _RING
        return cells[place:].tobytes() + cells[_HEAD:place].tobytes()

    def _used_parts(self) -> tuple[int, int]:
        """The first and the last part that has something. It is looked for once while nothing is
        counted: who is refused asks for it again and again."""
        cells = self._cells
        when, used = cells[WHEN], cells[USED]
        if self._looked != (when, used):
            marks, oldest = self._parts().translate(_IS_USED), when - PARTS
            self._found = oldest + marks.find(1) // 8, oldest + marks.rfind(1) // 8
            self._looked = when, used
        return self._found

    def _move_to(self, part: int) -> None:
        """Empty the parts that are past."""
        cells = self._cells
        passed = part - cells[WHEN]
        cells[WHEN] = part
        if passed >= _RING:
            cells[_HEAD:] = _NOTHING
            cells[USED] = 0
            return
        end = _HEAD + part % _RING + 1
        begin = end - passed
        if begin < _HEAD:
            self._empty(begin + _RING, _HEAD + _RING)
            begin = _HEAD
        self._empty(begin, end)

    def _empty(self, begin: int, end: int) -> None:
        cells = self._cells
        if end - begin == 1:
            cells[USED] -= cells[begin]
            cells[begin] = 0
            return
        cells[USED] -= sum(cells[begin:end])
        cells[begin:end] = _NOTHING[: end - begin]


class FixedCounter:
    """Counts in a window of the calendar, or for ever."""

    __slots__ = ("_cells", "_window", "fresh_until")

    def __init__(self, cells: Cells, window: Fixed) -> None:
        self._cells = cells
        self._window = window
        self.fresh_until = 0.0

    def used(self, now: float) -> int:
        """See `Counter.used`."""
        cells = self._cells
        if now >= self.fresh_until:
            # Whoever comes later in the window finds that it has begun.
            begin, self.fresh_until = span_of(self._window, now)
            if cells[WHEN] < int(begin):
                cells[WHEN] = int(begin)
                cells[USED] = 0
        return cells[USED]

    def add(self, now: float, amount: int) -> int:
        """See `Counter.add`."""
        cells = self._cells
        if now >= self.fresh_until:
            self.used(now)
        total = cells[USED] + amount
        cells[USED] = total if total < _MOST else _MOST
        return total

    def counts_from(self, now: float) -> float:
        """See `Counter.counts_from`."""
        return max(now, float(self._cells[WHEN]))

    def add_late(self, at: float, amount: int) -> int:
        """See `Counter.add_late`."""
        cells = self._cells
        if at >= cells[WHEN]:
            cells[USED] = min(cells[USED] + amount, _MOST)
        return cells[USED]

    def take_back(self, at: float, amount: int) -> None:
        """See `Counter.take_back`."""
        if at >= self._cells[WHEN]:
            self.take_back_latest(amount)

    def take_back_latest(self, amount: int) -> None:
        """See `Counter.take_back_latest`."""
        self._cells[USED] = max(0, self._cells[USED] - amount)

    def frees_at(self, now: float, amount: int) -> float:
        """See `Counter.frees_at`."""
        return inf if amount > self.used(now) else self.fresh_until

    def resets_at(self, now: float) -> float:
        """See `Counter.resets_at`."""
        self.used(now)
        return self.fresh_until

    def counts_until(self, now: float) -> float:
        """See `Counter.counts_until`."""
        if now >= self.fresh_until:
            self.used(now)
        return self.fresh_until

    def runs_out_at(self, now: float, left: int, since: float = 0.0) -> float:
        """See `Counter.runs_out_at`."""
        used = self.used(now)
        begin = max(float(self._cells[WHEN]), since)
        if not used or not begin or now <= begin:
            return inf
        at = now + left * (now - begin) / used
        return at if at < self.fresh_until else inf
