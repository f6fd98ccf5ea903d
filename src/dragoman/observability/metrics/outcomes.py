"""How requests end, as the time series of the dashboard count it."""

from __future__ import annotations

from dragoman.edge.record import CLIENT_GONE

UNRECORDED = frozenset({"/admin", "/ui", "/", "/healthz", "/readyz", "/metrics"})
"""Routes of operators and their tools: in no time series and not in the request log."""

ANSWERED, CLIENTS_FAULT, LIMITED, FAILED, LEFT = range(5)
_BAD, _TOO_MANY, _SERVER_ERROR = 400, 429, 500
_LIMITED = frozenset({"rate_limited", "no_account", "payment_required"})


def outcome_of(status: int, error: str) -> int:
    """How a request ended: it was answered; it was itself at fault; it was refused for a limit, or
    for want of an account; it failed, also within its answer; or its client left."""
    if error == CLIENT_GONE:
        return LEFT
    if error in _LIMITED or status == _TOO_MANY:
        return LIMITED
    if status >= _SERVER_ERROR or (error and status < _BAD):
        return FAILED
    return CLIENTS_FAULT if status >= _BAD else ANSWERED
