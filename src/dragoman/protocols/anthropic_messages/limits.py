"""What Messages clients are told of rate limits: headers of the service's page on rate limits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from functools import lru_cache

from dragoman.protocols.base import RateStatus


def limit_lines(statuses: Iterable[RateStatus]) -> bytes:
    """The headers for what is left of each kind."""
    lines = b""
    for status in statuses:
        template = _lines(status.kind, status.limit, math.ceil(status.resets_at))
        lines += template % status.remaining
    return lines


@lru_cache(maxsize=1024)
def _lines(kind: str, limit: int, resets_at: int) -> bytes:
    """The headers of one kind, with a place for what remains."""
    name = f"anthropic-ratelimit-{kind.replace('_', '-')}"
    reset = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(resets_at))
    return f"{name}-limit: {limit}\r\n{name}-remaining: %d\r\n{name}-reset: {reset}\r\n".encode()
