"""Limits that are a share of what an upstream's accounts have: how much that is, learned by one
process of a machine for all of them (`limits/shares.py`)."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from dragoman.accounts.pool import AccountPool
from dragoman.accounts.store import StoreError
from dragoman.config.windows import Rolling, parse_window
from dragoman.limits.counters import Cells
from dragoman.limits.rows import Counters
from dragoman.limits.shares import (
    LEARNER,
    LOOKED,
    POOL,
    POOL_CELLS,
    UNTIL,
    PoolLearner,
    Spent,
    ToldWindow,
    known_pool,
)
from dragoman.prices.rates import dollars

_log = logging.getLogger("dragoman.limits")

_LOOK_S = 30.0
"""Seconds between two looks at what accounts have."""

_LOST_LOOKS = 2.5
"""After so many looks that did not come another process learns."""

SpentSince = Callable[[str, float], Awaitable[Spent]]
"""What was spent with the accounts of an upstream since a time (Unix seconds).

Raises:
    StoreError: the store cannot be used.
"""


class _Pool(NamedTuple):
    upstream: str
    window: str
    cells: Cells
    counters: Counters
    learner: PoolLearner


class Pools:
    """What the accounts of upstreams have in their windows. `accounts` are those that are served
    now; without it, or without `spent_since`, nothing is learned here."""

    def __init__(
        self,
        accounts: Callable[[], AccountPool] | None = None,
        spent_since: SpentSince | None = None,
    ) -> None:
        self._accounts = accounts
        self._spent_since = spent_since
        self._pools: dict[tuple[str, str], _Pool] = {}
        self._me = secrets.randbits(62) | 1
        self._task: asyncio.Task[None] | None = None

    def bound(self, counters: Counters, upstream: str, window: str) -> Cells:
        """The cells of what is known of the accounts of an upstream (`limits/shares.py`). From now
        on, more is learned."""
        found = self._pools.get((upstream, window))
        if found is None:
            length = parse_window(window, "UTC")
            assert isinstance(length, Rolling), "no other has a share"
            cells = counters.row(f"pool\n{upstream}\n{window}", POOL_CELLS).cells
            found = _Pool(upstream, window, cells, counters, PoolLearner(length.seconds))
            self._pools[upstream, window] = found
            if self._task is None and self._accounts is not None:
                self._task = asyncio.create_task(self._learn_all())
        return found.cells

    async def close(self) -> None:
        """Learn nothing more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _learn_all(self) -> None:
        while True:
            for one in list(self._pools.values()):
                try:
                    if self._is_ours(one):
                        await self._learn(one)
                except StoreError as error:
                    _log.error("what accounts of %s have is not known: %s", one.upstream, error)
                except Exception:
                    _log.exception("what accounts of %s have could not be learned", one.upstream)
            await asyncio.sleep(_LOOK_S)

    def _is_ours(self, one: _Pool) -> bool:
        """Whether this process is the one that learns of a pool: the first, as long as it lives."""
        cells, now = one.cells, int(time.time() * 1000)
        one.counters.lock()
        try:
            if cells[LEARNER] != self._me:
                if abs(now - cells[LOOKED]) < _LOST_LOOKS * _LOOK_S * 1000:
                    return False
                cells[LEARNER] = self._me
            cells[LOOKED] = now
            return True
        finally:
            one.counters.unlock()

    async def _learn(self, one: _Pool) -> None:
        assert self._accounts is not None
        if self._spent_since is None:
            return
        pool, now = self._accounts(), time.time()
        pool.settle_quotas()
        names = [
            account.name
            for account in pool.accounts()
            if account.upstream == one.upstream and not pool.state(account.name).disabled
        ]
        windows = {
            name: ToldWindow(window.used, window.resets_at, window.told_at)
            for name in names
            for window in pool.quotas.windows.get(name, ())
            if (window.name, window.model) == (one.window, "") and window.known(now) is not None
        }
        spent = await self._spent_since(one.upstream, one.learner.since(now))
        before = known_pool(one.cells, now)
        found = one.learner.learn(names, windows, spent, now, is_known=before is not None)
        if found is None:
            return
        amount, until = found
        one.counters.lock()
        try:
            one.cells[POOL], one.cells[UNTIL] = amount, int(until * 1000)
        finally:
            one.counters.unlock()
        if before is None:
            told = "the accounts of %s have about %s US dollars in their %s"
            _log.info(told, one.upstream, dollars(amount), one.window)


def grouped(sums: Mapping[tuple[str, ...], int]) -> Spent:
    """Costs by account and hour, as they are learned from."""
    spent: dict[str, dict[int, int]] = {}
    for (account, hour), cost in sums.items():
        spent.setdefault(account, {})[int(hour)] = cost
    return spent
