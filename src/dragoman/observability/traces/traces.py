"""Traces of one worker: which requests are traced, handed to the thread that sends them."""

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
from dragoman.observability.finished import FinishedRequest
from dragoman.observability.traces.conventions import provider_of
from dragoman.observability.traces.sampling import Allowance, Sampling, ratio_of
from dragoman.observability.traces.spans import Peer, TracedRequest

_SERVER_ERROR = 500
_SMALL = 200
"""Bytes of the largest value that is recorded as a setting."""
_SLOW_S = 60.0
"""Seconds from which a request is traced for its duration."""
_PORTS = {"http": 80, "https": 443}


class Traces:
    """The traces of one worker."""

    def __init__(self, config: Config, add: Callable[[TracedRequest], None]) -> None:
        """
        Args:
            config: of the gateway. OpenTelemetry's variables for samplers in the environment
                take precedence.
            add: called with each traced request; it does not block.
        """
        ratio = ratio_of(os.environ, config.traces.sample)
        self._sampling = Sampling(ratio)
        self._trusted: Container[str] = frozenset(config.traces.trusted_clients)
        self._scheme = "http" if config.server.tls_certificate is None else "https"
        self._add = add
        self._allowance = Allowance()

    def begin(self, incoming: IncomingRequest, record: Record, members: Mapping[str, Raw]) -> None:
        """Record the trace and the settings of a request for generation, the top-level members of
        which are gone later."""
        record.trace = self._trace(incoming, record)
        incoming.shared.append((b"x-trace-id", b"%032x" % record.trace.trace_id))
        record.settings = {
            name: raw.copy()
            for name, raw in incoming.codec.endpoint.settings(members).items()
            if len(raw) <= _SMALL
        }

    def end(self, incoming: IncomingRequest, finished: FinishedRequest) -> None:
        """Trace a request that has ended, if it is sampled or remarkable. Its record then has the
        id of the trace."""
        if finished.path in _UNTRACED:
            return
        record = finished.record
        trace = record.trace or self._trace(incoming, record)
        if not trace.sampled and not self._is_remarkable(finished):
            return
        record.trace_id = trace.trace_id
        self._add(
            TracedRequest(
                finished,
                self._scheme,
                trace.trace_id,
                new_span_id(),
                trace.parent_id,
                trace.call().span_id,
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

    def _is_remarkable(self, finished: FinishedRequest) -> bool:
        record = finished.record
        happened = (
            finished.status >= _SERVER_ERROR
            or (record.error and record.error != CLIENT_GONE)
            or record.failed
            or finished.seconds >= _SLOW_S
        )
        return bool(happened) and self._allowance.take(time.monotonic())


_UNTRACED = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that monitoring requests."""


def peers_of(config: Config) -> Mapping[str, Peer]:
    """The peer of each upstream, by its name."""
    return {upstream.name: _peer(upstream) for upstream in config.upstreams}


def _peer(upstream: Upstream) -> Peer:
    url = urlsplit(upstream.base_url)
    host = url.hostname or ""
    port = url.port or _PORTS.get(url.scheme, 0)
    return Peer(upstream.protocol, provider_of(host, upstream.name), host, port)
