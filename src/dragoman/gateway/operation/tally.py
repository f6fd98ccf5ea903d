"""Adds each request to the metrics, and to the usage of its client."""

from __future__ import annotations

import time
from collections.abc import Callable, Container

from dragoman.accounts.store import LastError
from dragoman.accounts.usage import Meter
from dragoman.gateway.edge.incoming import IncomingRequest
from dragoman.gateway.edge.record import CLIENT_GONE, Record
from dragoman.gateway.operation.metrics import Metrics
from dragoman.gateway.telemetry.traces import Traces
from dragoman.protocols import CODECS

_BACKGROUND = "(background)"
_OTHER = "(other)"


class Tally:
    """Counts requests, and hands them to `traces`, if there are any. Without a `meter` nothing is
    counted as usage. `settle` is told of each that reserved something of its caller's limits, at
    the same moment: what is settled is what is counted as usage. `fixed_paths` are the paths
    counted by their own name, set once the routes are made; others are counted by what they begin
    with."""

    __slots__ = (
        "_families",
        "_meter",
        "_metrics",
        "_settle",
        "_traces",
        "_uncharged",
        "fixed_paths",
    )

    def __init__(
        self,
        metrics: Metrics,
        meter: Meter | None,
        settle: Callable[[Record, float], None],
        traces: Traces | None = None,
    ) -> None:
        self._traces = traces
        self._metrics = metrics
        self._meter = meter
        self._settle = settle
        self.fixed_paths: Container[str] = ()
        endpoints = [codec.endpoint for codec in CODECS.values()]
        self._families = tuple(
            {
                f"{endpoint.version}{path}/"
                for endpoint in endpoints
                for path in (endpoint.models.path, endpoint.path)
                if path == endpoint.models.path or endpoint.unserved or endpoint.stores_responses
            }
            | {"/admin/"}
        )
        self._uncharged = frozenset(
            endpoint.version + endpoint.counting.path
            for endpoint in endpoints
            if endpoint.counting is not None
        )
        """Paths whose answers name tokens that are not charged."""

    def request(self, incoming: IncomingRequest, record: Record) -> None:
        """A request was answered, or will not be."""
        now = time.time()
        if record.admitted is not None:
            self._settle(record, now)
        seconds = time.perf_counter() - record.started
        first_byte = incoming.answered - record.started if incoming.answered else None
        path, operation = incoming.path, incoming.operation
        if operation is not None:
            name, metered = operation.name, not operation.counts
        else:
            name = path if path in self.fixed_paths else self._family(path)
            metered = path not in self._uncharged
        usage = record.usage if metered else None
        self._metrics.finished(name, incoming.status, record, usage, seconds, first_byte)
        if self._traces is not None and not record.deferred:
            self._traces.end(incoming, record, name, seconds, first_byte)
        # Below a response: a request that names no model generates nothing.
        if (
            self._meter is not None
            and incoming.method == "POST"
            and not record.deferred
            and not record.replayed
            and record.caller
            and (name is path or record.model)
        ):
            self._charge(now, name, record, seconds, metered=metered)

    def background(self, incoming: IncomingRequest, record: Record) -> None:
        """A response was made in the background, or will not be."""
        now = time.time()
        if record.admitted is not None:
            self._settle(record, now)
        seconds = time.perf_counter() - record.started
        status = incoming.status or 500
        self._metrics.finished(_BACKGROUND, status, record, record.usage, seconds, None)
        if self._traces is not None:
            self._traces.end(incoming, record, incoming.path, seconds, None)
        self._charge(now, incoming.path, record, seconds, metered=True)

    def _charge(
        self, now: float, name: str, record: Record, seconds: float, *, metered: bool
    ) -> None:
        if self._meter is None:
            return
        if record.failed:
            self._charge_failed(self._meter, now, name, record)
        for one in record.in_vain:
            if one.usage is None:
                continue
            key = (now, one.account, record.caller, record.model, name, one.usage)
            team, user, tags = record.team, record.user, record.tags
            self._meter.count_in_vain(*key, upstream=one.upstream, team=team, user=user, tags=tags)
            if one.charge is not None:
                self._meter.charge(*key, one.charge, team=team, user=user, tags=tags)
        self._meter.count(
            now,
            # Limits do not count what reached nobody, and rows without an account tell them so.
            record.account if record.is_reached else "",
            record.caller,
            record.model,
            name,
            record.usage,
            seconds * 1000,
            failed=bool(record.error) and record.error != CLIENT_GONE,
            metered=metered,
            estimated=record.estimated,
            attempts=record.attempts - len(record.failed),
            upstream=record.upstream,
            team=record.team,
            user=record.user,
            tags=record.tags,
        )
        if metered and record.charge is not None and record.usage is not None:
            self._meter.charge(
                now,
                record.account,
                record.caller,
                record.model,
                name,
                record.usage,
                record.charge,
                team=record.team,
                user=record.user,
                tags=record.tags,
            )

    def _charge_failed(self, meter: Meter, now: float, name: str, record: Record) -> None:
        for number, one in enumerate(record.failed, 1):
            meter.count_failed(
                now,
                one.account,
                record.caller,
                record.model,
                name,
                LastError(one.at, one.kind, one.status, one.model),
                retried=number < record.attempts,
                upstream=one.upstream,
                team=record.team,
                user=record.user,
                tags=record.tags,
            )

    def _family(self, path: str) -> str:
        """The name under which requests for a path of no fixed route are counted."""
        for beginning in self._families:
            if path.startswith(beginning):
                return beginning[:-1]
        return _OTHER
