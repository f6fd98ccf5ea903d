"""The shares of a limit that are told of when they are reached."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from dragoman.limits.bound_limits import BoundLimit
from dragoman.limits.counters import USED

SHARES: Final = (50, 80, 100)
"""Percent of a limit that are told of when they are reached."""


class Crossing(Struct, frozen=True):
    """`percent` of a limit were reached within its window."""

    limit: BoundLimit
    percent: int


def reached(limit: BoundLimit, now: float) -> int:
    """The highest of the shares of a limit, in percent, that is used; 0 if none is."""
    used = limit.counter.used(now) * 100
    return max((share for share in SHARES if used >= share * limit.amount), default=0)


def until_crossing(limit: BoundLimit, used: int) -> int:
    """How much more than `used` is used when the next share is reached, or all if all of them
    are."""
    for share in SHARES:
        at = -(-share * limit.amount // 100)
        if used < at:
            return at - used
    return limit.amount


def crossings_by(limit: BoundLimit, added: int) -> tuple[Crossing, ...]:
    """The shares that were reached when `added` was counted."""
    after = limit.row.cells[USED] * 100
    before = after - added * 100
    reached = [share for share in SHARES if before < share * limit.amount <= after]
    return tuple([Crossing(limit, share) for share in reached])
