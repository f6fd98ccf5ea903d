"""Rate limit headers for Messages clients, as in the service's documentation of rate limits."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dragoman.protocols.base import RateLimit

LIMIT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "requests": "requests",
        "tokens": "tokens",
        "input_tokens": "input-tokens",
        "output_tokens": "output-tokens",
    }
)


def limit_lines(limit: RateLimit) -> bytes:
    """See `Endpoint.limit_lines`."""
    name = f"anthropic-ratelimit-{limit.name}"
    reset = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(math.ceil(limit.resets_at)))
    lines = f"{name}-limit: {limit.amount}\r\n{name}-remaining: %d\r\n{name}-reset: {reset}\r\n"
    return lines.encode()
