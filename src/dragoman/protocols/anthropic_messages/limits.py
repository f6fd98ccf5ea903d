"""What Messages clients are told of rate limits: headers of the service's page on rate limits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from functools import lru_cache

from dragoman.protocols.base import RateStatus


def _lines(kind: bytes) -> bytes:
    name = b"anthropic-ratelimit-" + kind
    return b"".join(
        (
            name + b"-limit: %d\r\n",
            name + b"-remaining: %d\r\n",
            name + b"-reset: %b\r\n",
        )
    )


_LINES = {
    "requests": _lines(b"requests"),
    "tokens": _lines(b"tokens"),
    "input_tokens": _lines(b"input-tokens"),
    "output_tokens": _lines(b"output-tokens"),
}


def limit_lines(statuses: Iterable[RateStatus]) -> bytes:
    """The headers for what is left of each kind."""
    lines = b""
    for status in statuses:
        reset = _moment(math.ceil(status.resets_at))
        lines += _LINES[status.kind] % (status.limit, status.remaining, reset)
    return lines


@lru_cache(maxsize=256)
def _moment(seconds: int) -> bytes:
    """A time in the form of RFC 3339."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)).encode()
