"""What the requests of one worker reserve and use of limits, until it is in rows of usage."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from dragoman.limits.admission import Refusal, Reservation, admit, settle
from dragoman.limits.allowances import RENEW_S, Allowances, settle_taken, take
from dragoman.limits.bound_limits import Amounts, BoundLimit
from dragoman.limits.crossings import Crossing
from dragoman.limits.rows import Counters, Row, written

_AT_ONCE = 100
"""Limits that are renewed before others have their turn at the counters."""


class LimitReservations:
    """What is reserved and used of the limits in `counters`, which are to be set before anything
    is. `is_kept`: there are rows of usage. `on_crossing` is called with the shares of limits that
    are reached while no request is admitted or settled at them."""

    def __init__(self, counters: Counters, *, is_kept: bool) -> None:
        self.counters = counters
        self.on_crossing: Callable[[Crossing], object] = lambda crossing: None
        self._is_kept = is_kept
        self._unwritten: list[Row] = []
        self._allowances = Allowances(self._unwritten)
        self._renewal: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """What was used is in the counters."""
        if self._renewal is not None:
            self._renewal.cancel()
        self.publish(list(self._allowances.limits.values()))
        if not self._is_kept:
            # It stays used, though no row of usage will tell of it.
            self.note_written(self._taken())

    def admit(
        self, limits: Sequence[BoundLimit], amounts: Amounts, now: float
    ) -> Reservation | Refusal:
        """Reserve for a request at all limits, or at none of them."""
        missing = take(limits, amounts, now)
        if not missing:
            return Reservation(limits, amounts, now)
        self.counters.lock()
        try:
            found = admit(limits, amounts, now, self._allowances, missing)
        finally:
            self.counters.unlock()
        self._look_after()
        return found

    def settle(self, reservation: Reservation, spent: Amounts, now: float) -> Sequence[Crossing]:
        """A request is over and came to `spent`: to be called exactly once for each reservation.
        Returns the shares of limits that were reached by it."""
        crossings: Sequence[Crossing] = ()
        limits, amounts = reservation.limits, reservation.amounts
        missing = settle_taken(limits, amounts, spent, now, self._unwritten)
        if missing:
            self.counters.lock()
            try:
                rows, crossings = settle(reservation, spent, now, self._allowances, missing)
            finally:
                self.counters.unlock()
            self._unwritten += rows
        if not (self._is_kept or self._allowances.limits):
            self.note_written(self._taken())
        return crossings

    def publish(self, limits: Sequence[BoundLimit]) -> None:
        """Have in the counters what was used of these limits; nothing is ahead of them then."""
        if limits:
            self.counters.lock()
            try:
                for limit in limits:
                    self._allowances.publish(limit)
            finally:
                self.counters.unlock()
            self._look_after()

    def take_unwritten(self) -> Mapping[Row, int]:
        """What was settled since the last call, and goes into rows of usage: it is in the counters
        before it is there."""
        self._renew([one for row, one in self._allowances.limits.items() if row.used])
        return self._taken()

    def note_written(self, taken: Mapping[Row, int]) -> None:
        """What was taken is in rows of usage."""
        for row, amount in taken.items():
            written(row, amount)

    def restore_unwritten(self, taken: Mapping[Row, int]) -> None:
        """What was taken could not be written."""
        for row, amount in taken.items():
            row.settled += amount
        self._unwritten += taken

    def _taken(self) -> Mapping[Row, int]:
        taken: dict[Row, int] = {}
        for row in self._unwritten:
            if row.settled:
                taken[row] = row.settled
                row.settled = 0
        self._unwritten.clear()
        return taken

    def _look_after(self) -> None:
        """What is ahead of limits is renewed in a while; what was reached of them is told."""
        allowances = self._allowances
        if allowances.limits and self._renewal is None:
            self._renewal = asyncio.get_running_loop().call_later(RENEW_S, self._renew_all)
        if allowances.crossings:
            crossings, allowances.crossings = allowances.crossings, []
            for crossing in crossings:
                self.on_crossing(crossing)

    def _renew_all(self) -> None:
        self._renewal = None
        self._renew(list(self._allowances.limits.values()))
        if not self._is_kept:
            self.note_written(self._taken())
        self._look_after()

    def _renew(self, limits: Sequence[BoundLimit]) -> None:
        now = time.time()
        for start in range(0, len(limits), _AT_ONCE):
            self.counters.lock()
            try:
                self._allowances.renew(limits[start : start + _AT_ONCE], now)
            finally:
                self.counters.unlock()
