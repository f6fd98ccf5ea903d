"""`/metrics`: the counts of all workers, put together by whichever of them is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

import dragoman
from dragoman.accounts.sync import AccountSync
from dragoman.link.messages import LinkError, Peer
from dragoman.observability.current import Current
from dragoman.observability.metrics.board import (
    COLLECT,
    PUBLISH,
    Collect,
    Publish,
    read_counts,
    write_counts,
)
from dragoman.observability.metrics.counts import Counts
from dragoman.observability.metrics.exposition import render
from dragoman.observability.metrics.families import QUEUE, BudgetSample, QuotaSample, Snapshot
from dragoman.observability.metrics.metrics import Metrics, Signal
from dragoman.observability.metrics.process_use import ProcessUse
from dragoman.operations.account_views import STATES, Status, status_of
from dragoman.processes.table import WorkerTable

PUBLISHED_EVERY_S = 1.0
"""Seconds between two times that a worker publishes its counts for the others."""

_AT_ONCE = 500

_MOST_QUOTAS = 2000
"""Most windows of quotas in a scrape."""


class WorkerSlot(Struct, frozen=True):
    """One worker among others: worker `number` of `total`. `table` says how all of them are;
    `gateway` is a name that all of them have, and no other gateway; `before` is what the worker had
    counted whose place it takes; `folder` is where they share files if they have no store, None for
    nowhere."""

    number: int
    total: int
    table: WorkerTable
    gateway: str = ""
    before: Counts | None = None
    folder: str | None = None


class UpstreamAccounts(Struct, frozen=True):
    """The accounts of an upstream: how many by state; how many of these are on trial; and
    of those that are not, when the first is back (Unix seconds). `resting` is why the upstream
    rests until `until`, empty if it does not: its active accounts count as cooling."""

    states: dict[str, int]
    trials: dict[str, int]
    back_at: dict[str, float]
    resting: str = ""
    until: float = 0.0

    def add(self, status: Status) -> None:
        """One more account, with this status."""
        state, back_at = status.state, status.back_at
        if self.resting and state == "active":
            state, back_at = "cooling", self.until
        self.states[state] += 1
        if status.trial:
            self.trials[state] = self.trials.get(state, 0) + 1
        elif back_at is not None:
            self.back_at[state] = min(back_at, self.back_at.get(state, back_at))


class Sources(Struct, frozen=True, kw_only=True):
    """What a worker's gauges are read from.

    `in_flight` returns how many requests it serves; `limit_reserved` the US dollars that these have
    reserved; `budgets` what is left of limits of cost; `queues` how much of each kind waits to be
    written; `credentials` when those of accounts end, by upstream and account. `limits_away`
    returns since when the database in which machines share limits is away (Unix seconds), 0 if it
    is not; it is None if this machine has limits for itself.
    """

    in_flight: Callable[[], int]
    account_sync: AccountSync | None
    limits_away: Callable[[], float] | None
    limit_reserved: Callable[[], float]
    budgets: Callable[[], Awaitable[Sequence[BudgetSample]]]
    queues: Mapping[Signal, Callable[[], int]]
    credentials: Callable[[], Mapping[tuple[str, str], float]] = dict


class Scrape:
    """The state of one gateway, its other workers included, for `/metrics` and the admin API.

    `slot` is this worker's, None if there is no other; `link` is that to the owner.
    """

    def __init__(
        self,
        current: Current,
        metrics: Metrics,
        sources: Sources,
        slot: WorkerSlot | None,
        link: Peer,
    ) -> None:
        self._link = link
        self._current = current
        self._sources = sources
        self._slot = slot
        self._metrics = metrics
        self.limits_away = sources.limits_away
        self._failed_before = metrics.counts.store_failures
        self._use = ProcessUse()
        self._cpu_before = metrics.counts.cpu
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Publish the counts for the other workers from now on, in the running loop."""
        if self._slot is not None:
            self._task = asyncio.create_task(self._keep_publishing())

    async def close(self) -> None:
        """Publish the counts for the last time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._publish()

    async def text(self, *, openmetrics: bool = False) -> bytes:
        """The counts of all workers in Prometheus's text format, or in OpenMetrics."""
        accounts, quotas = await self.accounts(), self.quotas()
        budgets = await self._sources.budgets()
        credentials = self._sources.credentials()
        snapshot = Snapshot(
            await self.counts(), accounts, dragoman.__version__, quotas, budgets, credentials
        )
        return render(snapshot, openmetrics=openmetrics)

    def quotas(self) -> list[QuotaSample]:
        """The windows of accounts' quotas whose use is known: the fullest ones, if there are more
        than a scrape has."""
        now = time.time()
        pool = self._current.generation.pool
        pool.settle_quotas()
        known = pool.quotas.windows
        found = [
            QuotaSample(
                account.upstream,
                account.name,
                window.name,
                window.model,
                used,
                window.resets_at,
            )
            for account in pool.accounts()
            for window in known.get(account.name, ())
            if (used := window.known(now)) is not None
        ]
        if len(found) > _MOST_QUOTAS:
            found.sort(key=lambda sample: -sample.used)
        return found[:_MOST_QUOTAS]

    async def counts(self) -> Counts:
        """The counts of all workers: this one's as they are, the others' as last published."""
        total = Counts()
        total.add(self.own())
        if self._slot is not None:
            # As the gateway ends, only this worker's are known.
            with suppress(LinkError):
                for other in (await self._link.ask(COLLECT, Collect())).counts:
                    total.add(read_counts(other))
            total.gauges["workers"] = self._slot.table.count_serving()
            total.worker_restarts = self._slot.table.restarts()
        return total

    def workers(self) -> dict[str, int]:
        """How many workers serve, of how many, and how often one was replaced; nothing if there
        are no others."""
        if self._slot is None:
            return {}
        table = self._slot.table
        return {
            "workers": table.workers,
            "serving": table.count_serving(),
            "restarts": table.restarts(),
        }

    def configurations(self) -> list[int]:
        """The number of the configuration that each worker serves, counted from 1; 0 of one that
        does not serve yet."""
        if self._slot is None:
            return [self._current.generation.number]
        return self._slot.table.configurations()

    async def accounts(self) -> dict[tuple[str, str], int]:
        """How many accounts there are by upstream and state."""
        return {
            (name, state): count
            for name, found in (await self.by_upstream()).items()
            for state, count in found.states.items()
        }

    async def by_upstream(self) -> dict[str, UpstreamAccounts]:
        """The accounts of each upstream, counted."""
        now = time.time()
        pool = self._current.generation.pool
        found: dict[str, UpstreamAccounts] = {}
        for name in pool.upstreams():
            rest = pool.resting(name)
            why, until = ("", 0.0) if rest is None else (rest.why, rest.until)
            found[name] = UpstreamAccounts(dict.fromkeys(STATES, 0), {}, {}, why, until)
        for number, account in enumerate(pool.accounts(), 1):
            try:
                status = status_of(pool.state(account.name), now)
            except KeyError:
                continue
            found[account.upstream].add(status)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    def own(self) -> Counts:
        """The counts of this worker."""
        counts, sources = self._metrics.counts, self._sources
        sync = sources.account_sync
        if sync is not None:
            counts.store_failures = self._failed_before + sync.failures
        pool = self._current.generation.pool
        waiting = sum(pool.waiting(name) for name in pool.upstreams())
        counts.gauges = {
            "workers": 1,
            "in_flight": sources.in_flight(),
            "queue_length": waiting,
            "limits_away": 0 if self.limits_away is None else int(self.limits_away() > 0),
            "store_working": 0 if sync is None else int(sync.working),
            **self._use.gauges(),
            "limit_reserved_usd": sources.limit_reserved(),
            **{QUEUE + signal: waiting() for signal, waiting in sources.queues.items()},
        }
        counts.cpu = self._cpu_before + self._use.cpu_seconds()
        counts.started = self._use.started
        return counts

    async def _keep_publishing(self) -> None:
        while True:
            self._publish()
            await asyncio.sleep(PUBLISHED_EVERY_S)

    def _publish(self) -> None:
        self._link.report(PUBLISH, Publish(write_counts(self.own())))
