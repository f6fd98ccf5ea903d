"""How soon a gateway gives up a socket in tests, and what it has in flight."""

from __future__ import annotations

from dragoman.server.testing import RunningGateway

SOON = 25.0
"""Seconds in which a loaded machine does what is done at once: fewer than `LONG` takes."""


def in_flight(gateway: RunningGateway) -> int:
    """Calls of upstreams that hold an account."""
    pool = gateway.app.pool
    return sum(pool.in_flight(one.name) for one in pool.accounts())
