"""For how long an upstream asks to be left alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from dragoman.failing import retry_after


class Limits(Struct, frozen=True):
    """`rest` is in seconds, None if nothing is said; `words` are what headers tell beside it."""

    rest: float | None = None
    words: frozenset[str] = frozenset()


def limits_of(
    status: int,
    headers: Mapping[str, str],
    members: Iterable[Mapping[str, Any]],
    text: str,
    now: float,
) -> Limits:
    """What an answer says of the limits that it ran into."""
    return Limits(retry_after(headers, now))
