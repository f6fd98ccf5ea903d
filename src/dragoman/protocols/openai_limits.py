"""What OpenAI's clients are told of rate limits: headers of its guide to rate limits."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.protocols.base import RateStatus


def limit_headers(statuses: Iterable[RateStatus]) -> list[tuple[bytes, bytes]]:
    """The headers for what is left of requests, and of tokens of whatever kind there is least."""
    tightest: dict[bytes, RateStatus] = {}
    for status in statuses:
        group = b"requests" if status.kind == "requests" else b"tokens"
        known = tightest.get(group)
        if known is None or status.remaining * known.limit < known.remaining * status.limit:
            tightest[group] = status
    headers: list[tuple[bytes, bytes]] = []
    for group, status in tightest.items():
        headers += (
            (b"x-ratelimit-limit-" + group, b"%d" % status.limit),
            (b"x-ratelimit-remaining-" + group, b"%d" % status.remaining),
            (b"x-ratelimit-reset-" + group, duration(status.reset_s).encode()),
        )
    return headers


def duration(seconds: float) -> str:
    """A span as the service writes it: `84ms`, `1.146s`, `6m0s`, `2h0m3s`."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))}ms"
    minutes, left = divmod(round(seconds, 3), 60)
    told = f"{left:.3f}".rstrip("0").rstrip(".")
    hours, minutes = divmod(int(minutes), 60)
    if hours:
        return f"{hours}h{minutes}m{told}s"
    return f"{minutes}m{told}s" if minutes else f"{told}s"
