"""Notes which requests are traced, and what of them, and hands that to the thread that sends it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Mapping
from urllib.parse import urlsplit

from msgspec import Raw

from dragoman.config import Config, Upstream
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import CLIENT_GONE, Record
from dragoman.edge.trace_context import (
    HEADER,
    RequestTrace,
    new_span_id,
    new_trace_id,
    parse,
)
from dragoman.observability.traces.conventions import provider_of
from dragoman.observability.traces.sampling import Allowance, Sampling, ratio_of
from dragoman.observability.traces.spans import OUTPUT_TYPE, Finished, Peer
from dragoman.translation import ClientRequest

_SERVER_ERROR = 500
_LONGEST = 200
_SMALL = 200
"""Most bytes of a member that is a setting: others hold more than one."""
_SCHEMA = Raw(b'"json"')
"""In place of a format that is larger: only a schema makes it so."""
_PORTS = {"http": 80, "https": 443}


class Traces:
    """What one worker traces."""

    def __init__(self, config: Config, add: Callable[[Finished], None]) -> None:
        """
        Args:
            config: of the gateway. Of the environment, OpenTelemetry's variables for samplers win
                over it.
            add: is handed each request that is traced, and never waits.
        """
        ratio = ratio_of(os.environ, config.traces.sample)
        self._sampling = Sampling(ratio, config.traces.slow_s)
        self._tells_clients = config.traces.tell_clients
        self._trusted: Container[str] = frozenset(config.traces.trusted_clients)
        self._scheme = "http" if config.server.tls_certificate is None else "https"
        self._add = add
        self._allowance = Allowance()

    def begin(self, incoming: IncomingRequest, record: Record, request: ClientRequest) -> None:
        """A request for generation was read: note what it asks for, which is gone later."""
        record.trace = self._trace(incoming, record)
        if self._tells_clients:
            incoming.shared.append((b"x-trace-id", b"%032x" % record.trace.trace_id))
        names = request.codec.endpoint.settings
        asked: dict[str, Raw] = {}
        for member, raw in request.members.items():
            if member not in names:
                continue
            if len(raw) <= _SMALL:
                asked[names[member]] = raw.copy()
            elif names[member] == OUTPUT_TYPE:
                asked[OUTPUT_TYPE] = _SCHEMA
        record.settings = asked

    def end(
        self,
        incoming: IncomingRequest,
        record: Record,
        route: str,
        seconds: float,
        first_byte_s: float | None,
    ) -> None:
        """A request has ended: trace it, if it is to be traced. Then its record knows the id of the
        trace."""
        if incoming.path in _UNTRACED:
            return
        trace = record.trace or self._trace(incoming, record)
        if not trace.sampled and not self._is_remarkable(incoming.status, record, seconds):
            return
        record.trace_id = trace.trace_id
        self._add(
            Finished(
                record=record,
                trace_id=trace.trace_id,
                span_id=new_span_id(),
                parent_id=trace.parent_id,
                call_id=trace.call().span_id,
                ended_ns=time.time_ns(),
                seconds=seconds,
                first_byte_s=first_byte_s,
                request_id=incoming.request_id,
                protocol=incoming.codec.name,
                method=incoming.method,
                scheme=self._scheme,
                host=incoming.headers.get(b"host", b"").decode("latin-1"),
                route=route,
                path=incoming.path[:_LONGEST],
                status=incoming.status,
                user_agent=incoming.headers.get(b"user-agent", b"").decode("latin-1")[:_LONGEST],
            )
        )

    def _trace(self, incoming: IncomingRequest, record: Record) -> RequestTrace:
        header = incoming.headers.get(HEADER)
        parent = None if header is None else parse(header)
        if parent is None:
            trace_id = new_trace_id()
            return RequestTrace(trace_id, 0, self._sampling.draws(trace_id))
        sampled = (
            parent.sampled
            if record.caller in self._trusted
            else self._sampling.draws(parent.trace_id)
        )
        return RequestTrace(parent.trace_id, parent.span_id, sampled)

    def _is_remarkable(self, status: int, record: Record, seconds: float) -> bool:
        slow_s = self._sampling.slow_s
        happened = (
            status >= _SERVER_ERROR
            or (record.error and record.error != CLIENT_GONE)
            or record.failed
            or (slow_s and seconds >= slow_s)
        )
        return bool(happened) and self._allowance.take(time.monotonic())


_UNTRACED = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that are asked for by what watches the gateway."""


def peers_of(config: Config) -> Mapping[str, Peer]:
    """Where each upstream is called, by its name."""
    return {upstream.name: _peer(upstream) for upstream in config.upstreams}


def _peer(upstream: Upstream) -> Peer:
    url = urlsplit(upstream.base_url)
    host = url.hostname or ""
    port = url.port or _PORTS.get(url.scheme, 0)
    return Peer(upstream.protocol, provider_of(host, upstream.name), host, port)
