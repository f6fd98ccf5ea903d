"""What OpenAI's clients are told of rate limits: headers of its guide to rate limits."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from dragoman.protocols.base import RateStatus

_TOLD = "limit", "remaining", "reset"


def limit_lines(statuses: Iterable[RateStatus]) -> bytes:
    """The headers for what is left of requests, and of tokens of whatever kind there is least."""
    lines, tokens = b"", None
    for status in statuses:
        if status.kind == "requests":
            lines = _lines("requests", status.limit, _told(status.reset_s)) % status.remaining
        elif tokens is None or status.remaining * tokens.limit < tokens.remaining * status.limit:
            tokens = status
    if tokens is not None:
        lines += _lines("tokens", tokens.limit, _told(tokens.reset_s)) % tokens.remaining
    return lines


@lru_cache(maxsize=1024)
def _lines(kind: str, limit: int, reset_ms: int) -> bytes:
    """The headers of one kind, with a place for what remains."""
    limits, remaining, reset = [f"x-ratelimit-{one}-{kind}" for one in _TOLD]
    return f"{limits}: {limit}\r\n{remaining}: %d\r\n{reset}: {duration(reset_ms)}\r\n".encode()


def _told(reset_s: float) -> int:
    """A time to a reset in milliseconds; of more than a second, in whole ones, so that the lines of
    many answers are alike: the next one, for who comes earlier is early."""
    milliseconds = int(reset_s * 1000)
    return -(-milliseconds // 1000) * 1000 if milliseconds > 1000 else max(0, milliseconds)


def duration(milliseconds: int) -> str:
    """A span as the service writes it: `84ms`, `1.146s`, `6m0s`, `2h0m3s`."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = milliseconds // 60_000, milliseconds % 60_000 / 1000
    if not minutes:
        return f"{rest:g}s"
    if minutes < 60:
        return f"{minutes}m{rest:g}s"
    return f"{minutes // 60}h{minutes % 60}m{rest:g}s"
