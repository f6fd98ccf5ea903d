"""The operation that sends open pages what changes, as server-sent events."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.accounts.store import StoreError
from dragoman.admin.call import Call
from dragoman.admin.events import TICK_S, Events
from dragoman.admin.replies import EventStream, Write
from dragoman.admin.requests import RequestFilters, filters_of, list_rows
from dragoman.operations import openapi
from dragoman.operations.operation import Http, operation, operations_in
from dragoman.storage.series import SLOT_S

Topic = Literal["now", "point", "accounts", "requests", "attention"]
"""`attention` is accepted, and nothing sent for it."""

_KEEPALIVE_S = 10.0
_POINT_LATE_S = 1.5
"""Seconds after a slot's end when it is sure to be written."""
_RETRY = b"retry: 2000\n\n"


class AskEvents(RequestFilters, frozen=True, kw_only=True):
    """What to send: topics, and which requests."""

    topics: tuple[Topic, ...] = ("now",)


class Requests(Struct, frozen=True):
    """Requests that ended: those shown, of all that were seen."""

    rows: list[Any]
    seen: int
    shown: int


@operation("events.watch", "viewer", Http("GET", "events"), output=openapi.Events)
async def _serve(call: Call, asked: AskEvents) -> EventStream:
    """Send what changes while a page is open."""
    events = call.gateway.observed.events
    events.begin()
    return EventStream(lambda write: _Page(call, asked, write).run(), events.end)


class _Page:
    """The events of one open page."""

    def __init__(self, call: Call, asked: AskEvents, write: Write) -> None:
        self._call = call
        self._topics = frozenset(asked.topics)
        self._filters = filters_of(asked)
        self._events: Events = call.gateway.observed.events
        self._write_bytes = write
        self._place = call.incoming.headers.get(b"last-event-id", b"").decode("latin-1")[:40]
        self._look = 0
        self._sent_at = time.monotonic()

    async def run(self) -> None:
        """Send events until the page leaves, its session or key ends, or the gateway does."""
        await self._write(_RETRY)
        second = point = 0
        while True:
            now = time.time()
            if self._events.is_draining():
                await self._send("bye", {"why": "stopping"})
                return
            if int(now) != second:
                second = int(now)
                if not self._events.is_served(self._call.gateway.config):
                    # Who may read is said by another configuration.
                    await self._send("bye", {"why": "reloaded"})
                    return
                if not await self._may_stay():
                    await self._send("bye", {"why": "signed out"})
                    return
                if "now" in self._topics:
                    await self._send("now", await self._events.now())
            slot = int(now - _POINT_LATE_S) // SLOT_S * SLOT_S
            if "point" in self._topics and slot != point:
                if point:
                    upstream = self._filters.upstream
                    await self._send("point", await self._events.point(slot - SLOT_S, upstream))
                point = slot
            if "requests" in self._topics:
                await self._send_requests()
            if "accounts" in self._topics:
                await self._send_accounts()
            if time.monotonic() - self._sent_at >= _KEEPALIVE_S:
                await self._write(b": keepalive\n\n")
            await asyncio.sleep(TICK_S)

    async def _may_stay(self) -> bool:
        try:
            return await self._call.gateway.operators.is_signed_in(self._call.operator)
        except StoreError:
            return True  # it is asked again in a second

    async def _send_requests(self) -> None:
        try:
            rows, seen, place = await self._events.tail(self._filters, self._place)
        except ValueError:
            self._place = ""
            return
        if seen:
            await self._send("requests", Requests(list_rows(rows), seen, len(rows)), place)
        self._place = place

    async def _send_accounts(self) -> None:
        self._look, names = await self._events.changed(self._look)
        if names is None:
            await self._send("accounts", {"version": self._look, "refetch": True})
        elif names:
            await self._send("accounts", {"version": self._look, "changed": sorted(names)})

    async def _send(self, name: str, value: Any, place: str = "") -> None:
        head = f"id: {place}\nevent: {name}\n" if place else f"event: {name}\n"
        await self._write(head.encode() + b"data: %b\n\n" % msgspec.json.encode(value))

    async def _write(self, data: bytes) -> None:
        await self._write_bytes(data)
        self._sent_at = time.monotonic()


OPERATIONS = operations_in(globals())
