"""What becomes of each request, added to the metrics and to the usage of whoever made it."""

from __future__ import annotations

import time
from collections.abc import Container

from dragoman.accounts.usage import Meter
from dragoman.gateway.edge.record import Record
from dragoman.gateway.edge.visit import Visit
from dragoman.gateway.operation.metrics import Metrics

CLIENT_GONE = "client_gone"
"""The error of a request whose client left: no failure of anybody here."""

_BACKGROUND = "(background)"
_OTHER = "(other)"
_FAMILIES = ("/v1/models/", "/v1/responses/", "/v1/chat/completions/", "/admin/")
_UNMETERED = frozenset({"/v1/messages/count_tokens", "/v1/responses/input_tokens"})
"""Paths whose answers tell tokens that nobody pays for."""


class Tally:
    """Counts requests. `routes` are the fixed paths; others are counted by what they begin with.
    Without a `meter` nothing is counted as usage."""

    __slots__ = ("_meter", "_metrics", "_routes")

    def __init__(self, metrics: Metrics, meter: Meter | None, routes: Container[str]) -> None:
        self._metrics = metrics
        self._meter = meter
        self._routes = routes

    def request(self, visit: Visit, record: Record) -> None:
        """A request was answered, or will not be."""
        seconds = time.perf_counter() - record.started
        first_byte = visit.answered - record.started if visit.answered else None
        path = visit.path
        name = path if path in self._routes else family(path)
        metered = path not in _UNMETERED
        usage = record.usage if metered else None
        self._metrics.finished(name, visit.status, record, usage, seconds, first_byte)
        # Below a response: what names no model makes nothing.
        if (
            visit.method == "POST"
            and not record.deferred
            and record.caller
            and (name is path or record.model)
        ):
            self._charge(name, record, seconds, metered=metered)

    def background(self, visit: Visit, record: Record) -> None:
        """A response was made in the background, or will not be."""
        seconds = time.perf_counter() - record.started
        status = visit.status or 500
        self._metrics.finished(_BACKGROUND, status, record, record.usage, seconds, None)
        self._charge(visit.path, record, seconds, metered=True)

    def _charge(self, name: str, record: Record, seconds: float, *, metered: bool) -> None:
        if self._meter is None:
            return
        self._meter.count(
            time.time(),
            record.account,
            record.caller,
            record.model,
            name,
            record.usage,
            seconds * 1000,
            failed=bool(record.error) and record.error != CLIENT_GONE,
            metered=metered,
        )


def family(path: str) -> str:
    """The name under which requests for a path of no fixed route are counted."""
    for beginning in _FAMILIES:
        if path.startswith(beginning):
            return beginning[:-1]
    return _OTHER
