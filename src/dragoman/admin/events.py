"""`/admin/events`: what a page shows while it is open, as server-sent events.

Who watches the requests reads the end of their log: what the workers do for it is nothing. Figures
are made once a second, however many watch.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.accounts.decide.states import AccountState
from dragoman.accounts.store import StoreError
from dragoman.admin.calls import (
    STREAMED,
    AdminRoute,
    Call,
    Operator,
    Refusal,
    Reply,
    bad,
)
from dragoman.admin.requests import FILTER_PARAMETERS, filters_of, list_rows
from dragoman.edge.incoming import IncomingRequest, while_connected
from dragoman.http import ClientGone
from dragoman.observability.current import Current
from dragoman.observability.metrics.counts import Outcomes
from dragoman.observability.metrics.outcomes import FAILED, LIMITED
from dragoman.observability.metrics.scrape import Scrape
from dragoman.observability.metrics.series import series
from dragoman.storage.request_log import Filters, RequestLogFiles
from dragoman.storage.series import SLOT_S, SeriesFile

_log = logging.getLogger("dragoman.gateway")

TOPICS = ("now", "point", "accounts", "requests", "attention")

MOST_CONNECTIONS = 32
"""Of the gateway; each worker has an equal part of them."""

_TICK_S = 0.25
_ROWS_AT_ONCE = 5
"""Rows in a tick: twenty in a second."""
_KEEPALIVE_S = 10.0
_ATTENTION_S = 5.0
_MOST_ACCOUNTS = 500
_TURN = 1000
"""Accounts that are compared before others have their turn."""
_POINT_LATE_S = 1.5
"""Seconds after a slot's end when it is sure to be written."""

_SLOW = b"retry: 2000\n\n"

Attention = Callable[[], Awaitable[object]]
"""What needs somebody, as `/admin/attention` tells it."""


class Watched(Struct):
    """What all who watch one worker have in common. `accounts` are the states that were last looked
    at, `changes` the names of those that were others since, by the number of the look."""

    now: dict[str, object] | None = None
    now_at: float = 0.0
    totals: tuple[float, Outcomes] | None = None
    accounts: dict[str, AccountState] = {}
    changes: list[tuple[int, set[str]]] = []
    look: int = 0
    looked_at: float = 0.0
    is_looking: bool = False


class Events:
    """What one worker tells to who watches. `attention` is asked every few seconds while somebody
    does, None if nothing tells it."""

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
        self.attention: Attention | None = None
        self._watched = Watched()
        self.connections = 0

    def begin(self) -> None:
        """Someone watches.

        Raises:
            Refusal: as many do as may.
        """
        if self.connections >= self._most:
            raise Refusal(503, "overloaded", "As many pages are live as may be.")
        self.connections += 1

    def end(self) -> None:
        """Someone watches no more."""
        self.connections -= 1
        if not self.connections:
            self._watched = Watched()

    def now(self) -> dict[str, object]:
        """The figures of this second."""
        watched, now = self._watched, time.time()
        if watched.now is not None and now - watched.now_at < 1 - _TICK_S / 2:
            return watched.now
        counts = self._scrape.counts()
        total = Outcomes()
        for outcomes in counts.outcomes.values():
            total.add(outcomes)
        told: dict[str, object] = {
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
            told |= {
                "requests_s": rate(sum(total.requests), sum(was.requests)),
                "failed_s": rate(total.requests[FAILED], was.requests[FAILED]),
                "limited_s": rate(total.requests[LIMITED], was.requests[LIMITED]),
                "input_s": rate(total.tokens[0], was.tokens[0]),
                "cached_s": rate(total.tokens[1], was.tokens[1]),
                "output_s": rate(total.tokens[3], was.tokens[3]),
            }
        watched.now, watched.now_at = told, now
        return told

    async def changed(self, after: int) -> tuple[int, set[str] | None]:
        """The accounts whose states are others than at look `after`, None for too many to tell; and
        the number of the last look."""
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
        if watched.is_looking or now - watched.looked_at < 2 * _TICK_S:
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


class EventRoutes:
    """What serves `/admin/events`. `holds` tells whether who asked may still have it."""

    def __init__(self, events: Events, holds: Callable[[Operator], Awaitable[bool]]) -> None:
        self._events = events
        self._holds = holds

    def routes(self) -> list[AdminRoute]:
        """The routes."""
        return [AdminRoute("events", {"GET": self._serve})]

    async def _serve(self, call: Call) -> Reply:
        query = call.query
        topics = [name for name in query.get("topics", "now").split(",") if name]
        for name in topics:
            if name not in TOPICS:
                bad(f"Expected some of {', '.join(TOPICS)}.", "topics")
        for name in query:
            if name not in ("topics", *FILTER_PARAMETERS):
                bad("There is no such parameter.", name[:60])
        stream = _Stream(call, self._events, set(topics), filters_of(query), self._holds)
        self._events.begin()
        try:
            call.incoming.start(200, STREAMED)
            await while_connected(call.incoming, stream.run())
        except ClientGone:
            pass  # as pages do
        finally:
            self._events.end()
        return None


class _Stream:
    """One page's events."""

    def __init__(
        self,
        call: Call,
        events: Events,
        topics: set[str],
        filters: Filters,
        holds: Callable[[Operator], Awaitable[bool]],
    ) -> None:
        self._incoming: IncomingRequest = call.incoming
        self._operator = call.operator
        self._upstream = filters.upstream
        self._events = events
        self._topics = topics
        self._filters = filters
        self._holds = holds
        self._place = call.incoming.headers.get(b"last-event-id", b"").decode("latin-1")[:40]
        self._look = 0
        self._sent_at = time.monotonic()
        self._attention: bytes = b""

    async def run(self) -> None:
        """Send events until the page leaves, the session ends or the gateway does."""
        await self._incoming.write(_SLOW)
        second = point = attention = 0
        while True:
            now = time.time()
            if self._events.is_draining():
                await self._bye("stopping")
                return
            if int(now) != second:
                second = int(now)
                if not await self._may_stay():
                    await self._bye("signed out")
                    return
                if "now" in self._topics:
                    await self._send("now", self._events.now())
            slot = int(now - _POINT_LATE_S) // SLOT_S * SLOT_S
            if "point" in self._topics and slot != point:
                if point:
                    told = await self._events.point(slot - SLOT_S, self._upstream)
                    await self._send("point", told)
                point = slot
            if "requests" in self._topics:
                await self._send_requests()
            if "accounts" in self._topics:
                await self._send_accounts()
            if "attention" in self._topics and second - attention >= _ATTENTION_S:
                attention = second
                await self._send_attention()
            if time.monotonic() - self._sent_at >= _KEEPALIVE_S:
                await self._write(b": keepalive\n\n")
            await asyncio.sleep(_TICK_S)

    async def _may_stay(self) -> bool:
        try:
            return await self._holds(self._operator)
        except StoreError:
            return True  # it is asked again in a second

    async def _send_requests(self) -> None:
        try:
            rows, seen, place = await self._events.tail(self._filters, self._place)
        except ValueError:
            self._place = ""
            return
        if seen:
            told = {"rows": list_rows(rows), "seen": seen, "shown": len(rows)}
            await self._send("requests", told, place)
        self._place = place

    async def _send_accounts(self) -> None:
        self._look, names = await self._events.changed(self._look)
        if names is None:
            await self._send("accounts", {"version": self._look, "refetch": True})
        elif names:
            await self._send("accounts", {"version": self._look, "changed": sorted(names)})

    async def _send_attention(self) -> None:
        if self._events.attention is None:
            return
        told = msgspec.json.encode(await self._events.attention())
        if told != self._attention:
            self._attention = told
            await self._write(b"event: attention\ndata: %b\n\n" % told)

    async def _bye(self, why: str) -> None:
        self._incoming.end(_event("bye", {"why": why}))

    async def _send(self, name: str, value: Any, place: str = "") -> None:
        await self._write(_event(name, value, place))

    async def _write(self, data: bytes) -> None:
        await self._incoming.write(data)
        self._sent_at = time.monotonic()


def _event(name: str, value: Any, place: str = "") -> bytes:
    head = f"id: {place}\nevent: {name}\n" if place else f"event: {name}\n"
    return head.encode() + b"data: %b\n\n" % msgspec.json.encode(value)
