"""Regular probes of accounts that are out, in the background of a worker."""

from __future__ import annotations

import asyncio
import logging
import random
import time
import zlib
from collections.abc import Collection, Sequence

from dragoman.accounts.sync import AccountSync
from dragoman.observability.current import Current
from dragoman.observability.metrics.metrics import Metrics
from dragoman.serving.calls import Calls
from dragoman.serving.probe import probe

_log = logging.getLogger("dragoman.gateway")

_MOST_AT_ONCE = 8
_EVERY_S = 1.0


class Prober:
    """Probes accounts that are exhausted, or rest for long, of upstreams with `probe`.

    Each of several workers probes accounts of its own: this is number `worker` of `workers`. Of
    instances that share a store one probes an account: it claims that by `account_sync`, which is
    None without a store. An account that is in use, by a probe or a client's request of any worker,
    is not probed.
    """

    def __init__(
        self,
        current: Current,
        calls: Calls,
        metrics: Metrics,
        account_sync: AccountSync | None,
        *,
        worker: int = 0,
        workers: int = 1,
    ) -> None:
        self._current = current
        self._calls = calls
        self._metrics = metrics
        self._account_sync = account_sync
        self._worker = worker
        self._workers = workers
        self._loop: asyncio.Task[None] | None = None
        self._probes: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin, in the running loop, if any upstream wants probes. Called again with each
        configuration."""
        upstreams = self._current.generation.config.upstreams
        if self._loop is None and any(upstream.probe is not None for upstream in upstreams):
            self._loop = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop, and cancel what is under way."""
        tasks = [*self._probes, *([] if self._loop is None else [self._loop])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        waiting: dict[str, None] = {}
        while True:
            await asyncio.sleep(_EVERY_S * (0.75 + 0.5 * random.random()))
            await self._begin(waiting)

    async def _begin(self, waiting: dict[str, None]) -> None:
        """Begin the probes that are due, and those that wait, as far as there may be more."""
        pool = self._current.generation.pool
        due = pool.due_for_probe(time.time())
        mine = [one for one in due if zlib.crc32(one.encode()) % self._workers == self._worker]
        if mine:
            waiting |= dict.fromkeys(await self._claimed(mine))
        while waiting and len(self._probes) < _MOST_AT_ONCE:
            name = next(iter(waiting))
            del waiting[name]
            if not pool.in_flight(name):
                task = asyncio.create_task(self._probe(name))
                self._probes.add(task)
                task.add_done_callback(self._probes.discard)

    async def _claimed(self, names: Sequence[str]) -> Collection[str]:
        """Those of the accounts that no other instance has probed just now."""
        if self._account_sync is None:
            return names
        generation, now = self._current.generation, time.time()
        claims = {}
        for name in names:
            upstream = generation.config.upstream(generation.pool.account(name).upstream)
            every_s = 0.0 if upstream.probe is None else upstream.probe.every_s
            # The soonest that one instance itself would probe it again.
            claims[f"probe {name}"] = now + every_s / 2
        claimed = await self._account_sync.claim(claims, now)
        return [name for name in names if f"probe {name}" in claimed]

    async def _probe(self, name: str) -> None:
        now = self._current.generation
        try:
            account, state = now.pool.account(name), now.pool.state(name)
        except KeyError:
            # It was removed since it was due.
            return
        if state.disabled:
            return
        try:
            with now.pool.probing(name):
                finding, transition = await probe(
                    self._calls, now.config, account, state, who="probe"
                )
        except Exception as error:
            _log.error("the probe of account %s failed: %s", name, type(error).__name__)
            return
        self._metrics.probed(account.upstream, came_back=finding.passed)
        if transition is not None:
            now.pool.observe(transition)
        _log.info("probe of account %s: status %d; %s", name, finding.status, finding.account_is)
