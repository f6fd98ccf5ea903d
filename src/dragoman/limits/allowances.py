"""What a process takes of limits ahead of need: most requests are then let in and settled without
the cells that processes share, and without their lock.

    take -> the call -> settle_taken, and in between, and now and then: publish

What is taken ahead is reserved in the cells: never is more let in than a limit has, by however many
processes, and where one is killed it is given back like all that it had reserved. What requests
have used of it is counted here at first, and in the cells once it is published, as of the part of
the window in which it was used.

Only who comes often is given anything ahead, and never so much that others would lack it: near the
end of a limit, and where a share is about to be reached that is told of, all count in the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dragoman.limits.bound_limits import CONCURRENT, MOST_AMOUNT, Amounts, BoundLimit
from dragoman.limits.counters import RESERVED, USED
from dragoman.limits.crossings import Crossing, crossings_by, until_crossing
from dragoman.limits.rows import OWN_AHEAD, OWN_RESERVED, OWN_UNWRITTEN, Row

RENEW_S: Final = 0.1
"""Seconds after which what was used is in the cells, and what nobody took is given back."""

_PARTS: Final = 32
"""One part in so many of what is left is taken ahead at most."""

_PARTS_UNDER_WAY: Final = 8
"""Nothing is taken ahead by who has more than one part in so many of what is left under way."""

_LEAST_REQUESTS: Final = 8
_MOST_REQUESTS: Final = 256
"""For so many requests like the latest is taken ahead at least and at most."""

_OFTEN_S: Final = 0.02
"""Seconds within which the next request comes of one who comes often. For who comes more rarely,
what is taken ahead costs more than it saves: it is renewed after a few requests."""


def take(limits: Sequence[BoundLimit], amounts: Amounts, now: float) -> Sequence[int]:
    """Reserve for a request of what was taken ahead. Returns the places of the limits of which too
    little was: there, nothing is reserved. Needs no lock."""
    missing: Sequence[int] = ()
    for place, limit in enumerate(limits):
        row, amount = limit.row, amounts[place]
        if amount > row.room or now >= row.until:
            missing = (*missing, place)
        else:
            row.room -= amount
            if not limit.index:
                # Requests are used once they are let in.
                row.used += amount
    return missing


def put_back(limits: Sequence[BoundLimit], amounts: Amounts, missing: Sequence[int]) -> None:
    """Undo a `take` that just returned these places: at all others."""
    for place, limit in enumerate(limits):
        if place not in missing:
            limit.row.room += amounts[place]
            if not limit.index:
                limit.row.used -= amounts[place]


def settle_taken(
    limits: Sequence[BoundLimit],
    amounts: Amounts,
    spent: Amounts,
    now: float,
    unwritten: list[Row],
) -> Sequence[int]:
    """Settle a request, which reserved `amounts` and came to `spent`, at those limits of which its
    process has something ahead. Returns the places of the others, where it is left to `settle`.
    `unwritten` is given rows of which something is to be written that had nothing before; of tokens
    and costs, nothing is before they are published. Needs no lock."""
    missing: Sequence[int] = ()
    for place, limit in enumerate(limits):
        row, index = limit.row, limit.index
        if now >= row.until:
            missing = (*missing, place)
        elif index == CONCURRENT:
            row.room += amounts[place]
        elif index:
            used = spent[place]
            row.room += amounts[place] - used
            row.used += used
        elif (used := spent[place]) < amounts[place]:
            missing = (*missing, place)
        else:
            row.note_settled(used, unwritten)
    return missing


class Allowances:
    """The limits of which this process has something ahead. All methods are called with the lock
    held. `unwritten` is given the rows of which something is to be written that had nothing before;
    `crossings` are shares that were found to be reached, until somebody takes them."""

    __slots__ = ("_unwritten", "crossings", "limits")

    def __init__(self, unwritten: list[Row]) -> None:
        self.limits: dict[Row, BoundLimit] = {}
        self._unwritten = unwritten
        self.crossings: list[Crossing] = []

    def note_admitted(self, limit: BoundLimit, amount: int, now: float) -> None:
        """A request was let in by the cells, at which it counts `amount`: where several come often,
        others shall find something ahead, and the more, the more come."""
        row = limit.row
        passed, row.asked_at = now - row.asked_at, now
        if passed >= (_OFTEN_S if row.requests < _LEAST_REQUESTS else RENEW_S):
            row.requests = 1
            return
        row.requests = min(2 * row.requests, _MOST_REQUESTS)
        if row.requests >= _LEAST_REQUESTS:
            self._take_ahead(limit, row.requests * amount, amount, now)

    def publish(self, limit: BoundLimit) -> None:
        """Bring into the cells what was used of a limit, and give back what is left."""
        row = limit.row
        if not row.until:
            return
        self._count(limit)
        given_back, row.room, row.until = row.room, 0, 0.0
        row.cells[RESERVED] -= given_back
        row.own[OWN_RESERVED] -= given_back
        row.own[OWN_AHEAD] = 0
        self.limits.pop(row, None)

    def count(self, limit: BoundLimit, now: float) -> None:
        """Bring into the cells what was used of a limit, and keep what is left while it holds."""
        if now < limit.row.until:
            self._count(limit)
        else:
            self.publish(limit)

    def renew(self, limits: Sequence[BoundLimit], now: float) -> None:
        """Publish what was used of these limits, and keep what is ahead where it was needed since
        it was taken."""
        for limit in limits:
            row = limit.row
            size, until = row.size, row.until
            needed = row.used or row.room != size
            self.publish(limit)
            # Who comes right after it is given up is still one who comes often.
            row.asked_at = now
            if needed and now < until:
                self._take_ahead(limit, size, 0, now)

    def _count(self, limit: BoundLimit) -> None:
        row = limit.row
        if not row.used:
            return
        used, row.used = row.used, 0
        counted = min(used, MOST_AMOUNT)
        cells, own = row.cells, row.own
        # Here the cells of this process come last. If it is killed in between, what it had reserved
        # tells whoever reclaims that there is something to look at, and what is not known as its
        # own is not taken back from what others have used.
        before = cells[USED]
        after = limit.counter.add_late(row.since, counted)
        own[OWN_UNWRITTEN] += counted
        if after * 2 >= limit.amount:
            self.crossings += crossings_by(limit, after - before)
        if limit.index:
            row.note_settled(counted, self._unwritten)
        if row.room < 0:
            # More was used than there was ahead: no more can be given back than that.
            used += row.room
            row.taken -= row.room
            row.room = 0
        cells[RESERVED] -= used
        own[OWN_RESERVED] -= used
        own[OWN_AHEAD] = row.room

    def _take_ahead(self, limit: BoundLimit, wanted: int, least: int, now: float) -> None:
        """Take so much, or what there is; nothing if that is less than `least`."""
        row, cells, counter = limit.row, limit.row.cells, limit.counter
        if now >= counter.fresh_until:
            # As that of a slice always is: what is lent may be gone at any time.
            return
        taken = cells[USED] + cells[RESERVED]
        left = limit.amount - taken
        # What it has under way comes back to this process, and not at once to others.
        if row.own[OWN_RESERVED] > left // _PARTS_UNDER_WAY:
            return
        room = min(wanted, left // _PARTS)
        if limit.window is not None:
            room = min(room, until_crossing(limit, cells[USED]) - cells[RESERVED] - 1)
        if left <= 0 or room < least:
            return
        row.own[OWN_AHEAD] = room
        row.own[OWN_RESERVED] += room
        cells[RESERVED] += room
        row.room = row.size = room
        row.taken = taken + room
        row.since, row.until = counter.counts_from(now), counter.fresh_until
        self.limits[row] = limit
