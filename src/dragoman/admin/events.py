"""What open pages are sent, of one worker.

Requests are read from the end of their log, so that serving them costs the workers nothing. Figures
are computed once a second, however many pages are open.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from dragoman.accounts.decide.states import AccountState
from dragoman.admin.replies import Refusal
from dragoman.config import Config
from dragoman.observability.current import Current
from dragoman.observability.metrics.counts import Outcomes
from dragoman.observability.metrics.outcomes import FAILED, LIMITED
from dragoman.observability.metrics.scrape import Scrape
from dragoman.observability.metrics.series import series
from dragoman.storage.request_log import Filters, RequestLogFiles
from dragoman.storage.series import SLOT_S, SeriesFile

MOST_CONNECTIONS = 32
"""Of the gateway; each worker has an equal part of them."""

TICK_S = 0.25
"""Seconds between two looks at what has changed."""
_ROWS_AT_ONCE = 5
"""Rows in a tick: twenty in a second."""
_MOST_ACCOUNTS = 500
_TURN = 1000
"""Accounts that are compared before others have their turn."""


class Watched(Struct):
    """What all open pages of one worker share. `accounts` are the states at the last look,
    `changes` the names of those that had changed, by the number of the look."""

    now: dict[str, object] | None = None
    now_at: float = 0.0
    totals: tuple[float, Outcomes] | None = None
    accounts: dict[str, AccountState] = {}
    changes: list[tuple[int, set[str]]] = []
    look: int = 0
    looked_at: float = 0.0
    is_looking: bool = False


class Events:
    """Figures, changes and requests for the open pages of one worker."""

    def __init__(
        self,
        current: Current,
        scrape: Scrape,
        file: SeriesFile,
        requests: RequestLogFiles | None,
        workers: int,
        is_draining: Callable[[], bool],
    ) -> None:
        self._current = current
        self._scrape = scrape
        self._file = file
        self._requests = requests
        self._most = max(1, MOST_CONNECTIONS // workers)
        self.is_draining = is_draining
        self._watched = Watched()
        self.connections = 0

    def is_served(self, config: Config) -> bool:
        """Whether this configuration is in service: no other was loaded since."""
        return self._current.generation.config is config

    def begin(self) -> None:
        """Count a page that is opened.

        Raises:
            Refusal: too many are open.
        """
        if self.connections >= self._most:
            raise Refusal(503, "overloaded", "Too many pages are open.")
        self.connections += 1

    def end(self) -> None:
        """Count a page that is closed."""
        self.connections -= 1
        if not self.connections:
            self._watched = Watched()

    async def now(self) -> dict[str, object]:
        """The figures of this second."""
        watched, now = self._watched, time.time()
        if watched.now is not None and now - watched.now_at < 1 - TICK_S / 2:
            return watched.now
        counts = await self._scrape.counts()
        total = Outcomes()
        for outcomes in counts.outcomes.values():
            total.add(outcomes)
        figures: dict[str, object] = {
            "at": round(now, 3),
            "in_flight": int(counts.gauges["in_flight"]),
            "queue": int(counts.gauges["queue_length"]),
            "workers": int(counts.gauges["workers"]),
        }
        before, watched.totals = watched.totals, (now, total)
        if before is not None and now > before[0]:
            seconds = now - before[0]

            def rate(now: int, was: int) -> float:
                return round(max(0, now - was) / seconds, 2)

            was = before[1]
            figures |= {
                "requests_s": rate(sum(total.requests), sum(was.requests)),
                "failed_s": rate(total.requests[FAILED], was.requests[FAILED]),
                "limited_s": rate(total.requests[LIMITED], was.requests[LIMITED]),
                "input_s": rate(total.tokens[0], was.tokens[0]),
                "cached_s": rate(total.tokens[1], was.tokens[1]),
                "output_s": rate(total.tokens[3], was.tokens[3]),
            }
        watched.now, watched.now_at = figures, now
        return figures

    async def changed(self, after: int) -> tuple[int, set[str] | None]:
        """The number of the last look, and the accounts whose states changed after look `after`;
        None for too many to list."""
        await self._look()
        watched = self._watched
        if not after:
            return watched.look, set()
        if watched.changes and watched.changes[0][0] > after + 1:
            return watched.look, None
        names = {name for look, found in watched.changes if look > after for name in found}
        return watched.look, names if len(names) <= _MOST_ACCOUNTS else None

    async def _look(self) -> None:
        watched, now = self._watched, time.monotonic()
        if watched.is_looking or now - watched.looked_at < 2 * TICK_S:
            return
        watched.is_looking = True
        try:
            pool = self._current.generation.pool
            states: dict[str, AccountState] = {}
            found: set[str] = set()
            for number, account in enumerate(pool.accounts(), 1):
                try:
                    state = pool.state(account.name)
                except KeyError:
                    continue
                states[account.name] = state
                # A state is replaced by another whenever it changes.
                if watched.accounts.get(account.name) is not state:
                    found.add(account.name)
                if number % _TURN == 0:
                    await asyncio.sleep(0)
            found |= watched.accounts.keys() - states.keys()
            is_first = not watched.look
            watched.accounts, watched.look = states, watched.look + 1
            watched.changes.append((watched.look, set() if is_first else found))
            del watched.changes[:-20]
            watched.looked_at = time.monotonic()
        finally:
            watched.is_looking = False

    async def tail(self, filters: Filters, after: str) -> tuple[list[bytes], int, str]:
        """See `RequestLogFiles.tail`."""
        if self._requests is None:
            return [], 0, ""
        try:
            return await asyncio.to_thread(self._requests.tail, filters, after, _ROWS_AT_ONCE)
        except sqlite3.Error:
            return [], 0, after

    async def point(self, at: int, upstream: str) -> Mapping[str, object]:
        """The last slot of the time series."""
        now = time.time()
        return await asyncio.to_thread(
            series, self._file, at, at + SLOT_S - 1, SLOT_S, upstream, now
        )
