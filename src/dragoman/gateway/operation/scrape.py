"""`/metrics`: the counts of all workers, put together by whichever of them is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from msgspec import Struct

import dragoman
from dragoman.accounts.pool import AccountPool
from dragoman.accounts.sync import AccountSync
from dragoman.administration.views import STATES, status_of
from dragoman.config import Config
from dragoman.gateway.operation.metrics import Board, Counts, Metrics, render
from dragoman.gateway.processes.table import WorkerTable

SHOWN_EVERY_S = 1.0
"""Seconds between two times that a worker shows the others what it counted."""

_AT_ONCE = 500


class Place(Struct, frozen=True):
    """Where a worker shows what it counts: number `number` of the `total` places of a board.
    `table` tells how the workers are."""

    board: Board
    number: int
    total: int
    table: WorkerTable


class Scrape:
    """What there is to tell of one gateway, its other workers included.

    `in_flight` tells how many requests this worker serves; `place` is this worker's, None if there
    is no other.
    """

    def __init__(
        self,
        config: Config,
        pool: AccountPool,
        account_sync: AccountSync | None,
        in_flight: Callable[[], int],
        place: Place | None,
    ) -> None:
        self._config = config
        self._pool = pool
        self._account_sync = account_sync
        self._place = place
        before = None if place is None else place.board.read(place.number)
        self.metrics = Metrics(before)
        self._in_flight = in_flight
        self._failed_before = self.metrics.counts.store_failures
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Show the other workers what is counted from now on, in the running loop."""
        if self._place is not None:
            self._task = asyncio.create_task(self._show())

    async def close(self) -> None:
        """Show it for the last time."""
        if self._task is not None and self._place is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._place.board.show(self._place.number, self._own())

    async def text(self) -> bytes:
        """The counts of all workers in Prometheus's text format."""
        return render(self.counts(), await self.accounts(), dragoman.__version__)

    def counts(self) -> Counts:
        """The counts of all workers: this one's as they are, the others' as they last showed
        them."""
        total = Counts()
        total.add(self._own())
        if self._place is not None:
            for other in self._place.board.others(self._place.number):
                total.add(other)
            total.gauges["workers"] = self._place.table.count_serving()
            total.worker_restarts = self._place.table.restarts()
        return total

    def workers(self) -> dict[str, int]:
        """How many workers serve, of how many, and how often one was replaced; nothing if there
        are no others."""
        if self._place is None:
            return {}
        table = self._place.table
        return {
            "workers": table.workers,
            "serving": table.count_serving(),
            "restarts": table.restarts(),
        }

    async def accounts(self) -> dict[tuple[str, str], int]:
        """How many accounts there are by upstream and state."""
        now = time.time()
        found: dict[tuple[str, str], int] = {
            (one.name, state): 0 for one in self._config.upstreams for state in STATES
        }
        for number, account in enumerate(self._pool.accounts(), 1):
            try:
                state = status_of(self._pool.state(account.name), now).state
            except KeyError:
                continue
            found[account.upstream, state] += 1
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    def _own(self) -> Counts:
        counts = self.metrics.counts
        if self._account_sync is not None:
            counts.store_failures = self._failed_before + self._account_sync.failures
        waiting = sum(self._pool.waiting(one.name) for one in self._config.upstreams)
        counts.gauges = {
            "workers": 1,
            "in_flight": self._in_flight(),
            "queue_length": waiting,
            "store_working": 0 if self._account_sync is None else int(self._account_sync.working),
        }
        return counts

    async def _show(self) -> None:
        assert self._place is not None
        while True:
            self._place.board.show(self._place.number, self._own())
            await asyncio.sleep(SHOWN_EVERY_S)
