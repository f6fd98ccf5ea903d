"""Counters of limits are compared with rows of usage, and set right where they differ."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from dragoman.accounts.store import StoreError
from dragoman.limits.bound_limits import BoundLimit
from dragoman.limits.counters import WHEN
from dragoman.limits.rows import Counters, Row
from dragoman.serving.usage_history import UsageHistory

_log = logging.getLogger("dragoman.limits")

_LOOK_S: Final = 0.5
"""Seconds between two looks for whether there is something to compare."""

_EVERY_S: Final = 300.0
"""Seconds between two comparisons."""

_SOON_S: Final = 1.0
"""Seconds to the next one where the last could not compare all, or a worker is gone."""

_ALARMING: Final = 0.01
"""The share of a limit by which its counter may be wrong before that is an error."""


class _Stand(NamedTuple):
    """How a counter stands: its cell `WHEN`, what it has that is in rows of usage, and whether
    there is more."""

    when: int
    used: int
    unwritten: bool


class LimitAudit:
    """Compares counters with what `history` tells of their limits."""

    def __init__(self, history: UsageHistory) -> None:
        self._history = history
        # Of limits that are in force, or that a request under way has reserved for. Of others rows
        # of usage tell what their counters do not.
        self._audited: WeakValueDictionary[Row, BoundLimit] = WeakValueDictionary()
        self._resumed: WeakValueDictionary[Row, BoundLimit] = WeakValueDictionary()
        self._doubted: WeakKeyDictionary[BoundLimit, int] = WeakKeyDictionary()
        self.drift = 0.0
        """By how much the last comparison found a counter wrong, at most, as a share of its
        limit."""

    def watch(self, limit: BoundLimit) -> None:
        """Compare the counter of a limit, as long as that is in use."""
        if limit.window is not None:
            if limit.row.is_restored and limit.row not in self._audited:
                self._resumed[limit.row] = limit
            self._audited[limit.row] = limit

    async def run(self, counters: Counters) -> None:
        """Compare them now and then, and soon where a worker is gone or a limit is there again."""
        due, losses = time.monotonic() + _EVERY_S, 0
        while True:
            await asyncio.sleep(_LOOK_S)
            known, losses = losses, counters.losses
            if losses != known:
                # What one that is gone had just written may have been taken back as if it had not:
                # by another worker, too, or the one in its place.
                due = min(due, time.monotonic() + _SOON_S)
            try:
                if self._resumed:
                    await self._catch_up(counters)
                if time.monotonic() >= due:
                    due = time.monotonic() + _EVERY_S
                    if not await self.compare(counters):
                        due = time.monotonic() + _SOON_S
            except StoreError:
                pass
            except Exception:
                _log.exception("limits could not be compared with rows of usage")
                due = time.monotonic() + _SOON_S

    async def compare(self, counters: Counters) -> bool:
        """Compare all, and set right those that differ. Returns whether all were compared: what is
        written to rows meanwhile is left out.

        Raises:
            StoreError: the store cannot be used.
        """
        drift, done = 0.0, True
        async for limit, wrong in self._set_right(counters, self._audited):
            if wrong is None:
                done = False
                continue
            share = abs(wrong) / max(limit.amount, 1)
            drift = max(drift, share)
            _log.log(
                logging.ERROR if share > _ALARMING else logging.WARNING,
                "%s of %s was counted as %+d of what rows of usage tell, and is set right",
                limit.name,
                limit.owner,
                wrong,
            )
        self.drift = drift
        return done

    async def _catch_up(self, counters: Counters) -> None:
        """Set counters right that were there before the process came to know of their limits: those
        may have been removed, and what was used until they were there again is in rows alone.

        Raises:
            StoreError: the store cannot be used.
        """
        resumed, self._resumed = self._resumed, WeakValueDictionary()
        async for limit, wrong in self._set_right(counters, resumed):
            if wrong is None:
                self._resumed[limit.row] = limit

    async def _set_right(
        self, counters: Counters, limits: Mapping[Row, BoundLimit]
    ) -> AsyncIterator[tuple[BoundLimit, int | None]]:
        """Compare counters with rows of usage, and set right those that differ. Yields those, and
        by how much they did; None if that cannot be told yet.

        Raises:
            StoreError: the store cannot be used.
        """
        now = time.time()
        for limit in list(limits.values()):
            before = _look(counters, limit, now)
            least, most = await self._history.bounds(limit, now)
            doubted = self._doubted.pop(limit, None)
            counters.lock()
            try:
                stand = _stand(counters, limit, now)
                wrong = stand.used - min(max(stand.used, least), most)
                if stand == before and (not wrong or (wrong > 0 and _is_old(limit))):
                    continue
                told: int | None = wrong
                if stand != before or (stand.unwritten and doubted != wrong):
                    # Rows may have it already of which the counter does not know that yet.
                    told = None
                elif wrong > 0:
                    limit.counter.take_back_latest(wrong)
                else:
                    limit.counter.add(now, -wrong)
            finally:
                counters.unlock()
            if told is None:
                self._doubted[limit] = wrong
            yield limit, told


def _look(counters: Counters, limit: BoundLimit, now: float) -> _Stand:
    counters.lock()
    try:
        return _stand(counters, limit, now)
    finally:
        counters.unlock()


def _stand(counters: Counters, limit: BoundLimit, now: float) -> _Stand:
    """How a counter stands, with the lock held."""
    unwritten = counters.unwritten(limit.row)
    used = limit.counter.used(now) - unwritten
    return _Stand(limit.row.cells[WHEN], used, unwritten != 0)


def _is_old(limit: BoundLimit) -> bool:
    """Whether rows may tell less than what was used of a limit: when it was reset they were sums of
    hours, which are added up by the day, and then for all time."""
    return limit.limit.window == "total" and limit.limit.since is not None
