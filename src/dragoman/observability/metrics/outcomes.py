"""How requests end, as the time series of the dashboard count it."""

from __future__ import annotations

from dragoman.canonical.errors import FaultKind
from dragoman.edge.record import CLIENT_GONE, AtFault

TELEMETRY = ("/v1/metrics", "/v1/logs", "/v1/traces")
"""Paths at which agents send their telemetry."""

UNRECORDED = frozenset({"/admin", "/ui", "/", "/healthz", "/readyz", "/metrics", *TELEMETRY})
"""Routes of operators and their tools, and of telemetry: in no time series, in no usage, and not in
the request log."""

ANSWERED, CLIENTS_FAULT, LIMITED, FAILED, LEFT = range(5)
_BAD, _SERVER_ERROR = 400, 500
_LIMITED = frozenset({FaultKind.RATE_LIMITED, FaultKind.PAYMENT_REQUIRED})


def outcome_of(status: int, error: str, at_fault: AtFault) -> int:
    """How a request ended: it was answered; its caller was at fault, or over a limit; it failed
    through the gateway, its accounts or an upstream, also within its answer; or its client left."""
    if error == CLIENT_GONE:
        return LEFT
    if at_fault == "caller":
        return LIMITED if error in _LIMITED else CLIENTS_FAULT
    if at_fault or status >= _SERVER_ERROR:
        return FAILED
    return CLIENTS_FAULT if status >= _BAD else ANSWERED
