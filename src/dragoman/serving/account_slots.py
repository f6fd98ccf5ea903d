"""`max_concurrent` over all instances that share a database.

The number of requests that an account may have in flight is a limit like others: a machine borrows
slots of it, and lends them to the requests of its workers. So it is never exceeded, whatever others
do, as long as the database is there; without it each machine holds to the number by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from dragoman.config.limits import Limit
from dragoman.limits.counters import RESERVED, cells_of
from dragoman.limits.rows import OWN_RESERVED, Counters
from dragoman.limits.slices import AWAY, LentLimit
from dragoman.serving.limit_slices import LimitSlices

_RECLAIM_S: Final = 0.5
"""Seconds between two looks for workers that are gone."""


class AccountSlots:
    """Implements `dragoman.accounts.store.LentCounts` for one worker. `counters` are those of this
    machine, and nobody else's; `slices` borrow them."""

    def __init__(self, counters: Counters, slices: LimitSlices) -> None:
        self._counters = counters
        self._slices = slices
        self._limits: dict[str, LentLimit] = {}
        self._alone: dict[str, int] = {}
        """Requests in flight here of accounts for which the counters have no room: each worker
        holds to these by itself."""
        self._task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Harmless: see `aclose`."""

    async def aclose(self) -> None:
        """Give everything back."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._slices.close()
        self._counters.close()

    def take(self, name: str, most: int) -> bool:
        """See `Counts.take`."""
        limit = self._limits.get(name) or self._bound(name, most)
        if limit is None:
            alone = self._alone[name]
            if alone < most:
                self._alone[name] = alone + 1
            return alone < most
        if limit.amount != most:
            limit.amount = limit.slice.amount = most
        counters = self._counters
        counters.lock()
        try:
            if self._left(limit) < 1:
                return False
            limit.own[OWN_RESERVED] += 1
            limit.cells[RESERVED] += 1
        finally:
            counters.unlock()
        return True

    def give_back(self, name: str) -> None:
        """See `Counts.give_back`."""
        limit = self._limits.get(name)
        if limit is None:
            self._alone[name] -= 1
            return
        counters = self._counters
        counters.lock()
        try:
            limit.cells[RESERVED] -= 1
            limit.own[OWN_RESERVED] -= 1
        finally:
            counters.unlock()

    def elsewhere(self, name: str) -> int:
        """See `Counts.elsewhere`: those of this machine. What others have the store tells."""
        limit = self._limits.get(name)
        return 0 if limit is None else limit.cells[RESERVED] - limit.own[OWN_RESERVED]

    def returns(self) -> _Unknown:
        """See `Counts.returns`."""
        return _unknown

    def lacks(self, name: str) -> bool:
        """See `LentCounts.lacks`."""
        limit = self._limits.get(name)
        return limit is not None and self._slices.may_be_lent(limit)

    def want(self, names: Collection[str]) -> None:
        """See `LentCounts.want`."""
        for name in names:
            if self.lacks(name):
                self._slices.want(self._limits[name])

    async def borrow(self, name: str) -> None:
        """See `LentCounts.borrow`."""
        self._slices.want(self._limits[name])
        await self._slices.answer()

    def _left(self, limit: LentLimit) -> int:
        """Slots of an account that this machine may still use."""
        if limit.slice.cells[AWAY] or self._slices.away_since is not None:
            return limit.amount - limit.cells[RESERVED]
        return limit.left_here()

    def _bound(self, name: str, most: int) -> LentLimit | None:
        """The limit of an account; None if there is no room for it."""
        if name in self._alone:
            return None
        counters, title = self._counters, f"account\n{name}"
        if self._task is None:
            self._task = asyncio.create_task(self._look_after())
        row = counters.row(title, cells_of(None))
        if not counters.counts_all(self._slices.row_of_slice(counters, title)):
            self._alone[name] = 0
            return None
        limit = Limit(kind="concurrent", amount=most)
        found = self._limits[name] = self._slices.bound(counters, limit, name, row, title)
        return found

    async def _look_after(self) -> None:
        """Give back what workers had that are gone."""
        while True:
            await asyncio.sleep(_RECLAIM_S)
            self._counters.reclaim_lost()


class _Unknown:
    """Nobody notes what other workers have ended."""

    def __call__(self) -> None:
        return None


_unknown = _Unknown()
