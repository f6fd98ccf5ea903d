"""Rate limit headers for OpenAI's clients, as in its guide to rate limits."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dragoman.protocols.base import RateLimit

LIMIT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "requests": "requests",
        "tokens": "tokens",
        "input_tokens": "tokens",
        "output_tokens": "tokens",
    }
)


def limit_lines(limit: RateLimit) -> bytes:
    """The function behind `Endpoint.limit_lines`. Resets of more than a second are rounded up to
    whole seconds, so that no client comes too early."""
    milliseconds = int(limit.reset_s * 1000)
    if milliseconds > 1000:
        milliseconds = -(-milliseconds // 1000) * 1000
    return (
        f"x-ratelimit-limit-{limit.name}: {limit.amount}\r\n"
        f"x-ratelimit-remaining-{limit.name}: %d\r\n"
        f"x-ratelimit-reset-{limit.name}: {duration(max(0, milliseconds))}\r\n"
    ).encode()


def duration(milliseconds: int) -> str:
    """A duration in the service's format: `84ms`, `1.146s`, `6m0s`, `2h0m3s`."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = milliseconds // 60_000, milliseconds % 60_000 / 1000
    if not minutes:
        return f"{rest:g}s"
    if minutes < 60:
        return f"{minutes}m{rest:g}s"
    return f"{minutes // 60}h{minutes % 60}m{rest:g}s"
