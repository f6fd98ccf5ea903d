"""What OpenAI's clients are told of rate limits: headers of its guide to rate limits."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from dragoman.protocols.base import RateStatus

_REQUESTS = (
    b"x-ratelimit-limit-requests: %d\r\n"
    b"x-ratelimit-remaining-requests: %d\r\n"
    b"x-ratelimit-reset-requests: %b\r\n"
)
_TOKENS = _REQUESTS.replace(b"requests", b"tokens")


def limit_lines(statuses: Iterable[RateStatus]) -> bytes:
    """The headers for what is left of requests, and of tokens of whatever kind there is least."""
    lines, tokens = b"", None
    for status in statuses:
        if status.kind == "requests":
            lines = _REQUESTS % (status.limit, status.remaining, duration(status.reset_s))
        elif tokens is None or status.remaining * tokens.limit < tokens.remaining * status.limit:
            tokens = status
    if tokens is not None:
        lines += _TOKENS % (tokens.limit, tokens.remaining, duration(tokens.reset_s))
    return lines


def duration(seconds: float) -> bytes:
    """A span as the service writes it, `84ms`, `59s`, `6m0s`, `2h0m3s`; of more than a second in
    whole ones, for windows are counted in parts that take as long."""
    return _written(int(seconds)) if seconds >= 1 else b"%dms" % max(0, int(seconds * 1000))


@lru_cache(maxsize=256)
def _written(seconds: int) -> bytes:
    minutes, rest = divmod(seconds, 60)
    if not minutes:
        return b"%ds" % rest
    if minutes < 60:
        return b"%dm%ds" % (minutes, rest)
    return b"%dh%dm%ds" % (minutes // 60, minutes % 60, rest)
