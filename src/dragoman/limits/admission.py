"""Whether a request may go on: it is reserved for at all of its limits, or at none.

    admit -> the call -> settle

What is reserved is an estimate; what is settled is what the answer is known to have used. Pure:
counters and the time are given, and whoever calls holds the lock of the counters.

Requests count as used from the moment they are admitted, and are taken back if no upstream was
asked. Tokens and costs are reserved while the request is under way, and used once it is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.limits.allowances import Allowances, put_back
from dragoman.limits.bound_limits import (
    CONCURRENT,
    MOST_AMOUNT,
    Amounts,
    BoundLimit,
    BoundLimits,
    Counts,
    Kind,
    dearest,
    most_of_output,
)
from dragoman.limits.counters import RESERVED, USED
from dragoman.limits.crossings import Crossing, crossings_by
from dragoman.limits.rows import OWN_RESERVED, OWN_UNWRITTEN, Row

LEAST_OUTPUT: Final = 256
"""Tokens of output for which a request that is clamped is still worth sending."""


class Verdict(Struct, frozen=True):
    """Whether a request would be admitted by `limit`, at which it would count `amount`, of which
    `left` are left. `free_at` is when it would be, where it is not (Unix seconds)."""

    limit: BoundLimit
    amount: int
    left: int
    free_at: float

    @property
    def admits(self) -> bool:
        """Whether it would be."""
        return self.amount <= self.left


def judge(limits: Sequence[BoundLimit], amounts: Amounts, now: float) -> tuple[Verdict, ...]:
    """What `admit` would say of each limit; nothing is reserved."""
    return tuple(
        Verdict(one, amount, one.left_of_all(now), one.free_at(now, amount))
        for one, amount in zip(limits, amounts, strict=True)
    )


class Refusal(Struct, frozen=True):
    """A request is refused by `limit`, at which it would have counted `amount`, of which `left`
    were left. `free_at` is when it would be admitted if nothing else were until then, `resets_at`
    when nothing of what is used counts any more (Unix seconds; infinity: never)."""

    limit: BoundLimit
    amount: int
    left: int
    free_at: float
    resets_at: float


class Reservation(Struct, eq=False, gc=False):
    """What a request has reserved: at which limits, when and how much. `exceeded` are limits that
    would have refused it if they were enforced, `crossings` the shares of limits that it reached.
    """

    limits: Sequence[BoundLimit]
    amounts: Amounts
    at: float
    exceeded: Sequence[BoundLimit] = ()
    crossings: Sequence[Crossing] = ()


class Admitted(Struct, eq=False, gc=False):
    """A request of `caller` that was let in by `limits`: what it has reserved, and of how many
    bytes its prompt was estimated, 0 where nothing is to be learned from it. `shows_amounts`: the
    caller may know how much it has. `more` was reserved since, for further answers to it."""

    caller: str
    limits: BoundLimits
    reservation: Reservation
    size: int
    shows_amounts: bool
    more: tuple[Reservation, ...] = ()


def admit(
    limits: Sequence[BoundLimit],
    amounts: Amounts,
    now: float,
    allowances: Allowances | None = None,
    places: Sequence[int] | None = None,
) -> Reservation | Refusal:
    """Reserve at all limits, or at none of them. Of several that refuse, that one is told which
    does so longest: a client that waits for it is not refused by another. If `places` are
    given it is reserved at all others already: `take` returned them just now. Without `allowances`
    nothing is taken ahead."""
    exceeded: Sequence[BoundLimit] = ()
    counted: list[int] = []
    places = range(len(limits)) if places is None else places
    for done, place in enumerate(places):
        limit = limits[place]
        amount, cells, counter = amounts[place], limit.cells, limit.counter
        room = 0
        if limit.row.until and allowances is not None:
            # Not given back yet: who is refused, however often, shall not take it from others.
            allowances.count(limit, now)
            room = limit.row.room
        used = cells[USED] if now < counter.fresh_until else counter.used(now)
        if amount > limit.amount - used - cells[RESERVED] + room:
            if limit.enforced:
                if done:
                    _give_back(limits, amounts, places[:done])
                if len(places) < len(limits):
                    put_back(limits, amounts, places)
                return _refusal(limits, amounts, now)
            exceeded = (*exceeded, limit)
        if limit.row.until and allowances is not None:
            allowances.publish(limit)
        # The cells of this process come first, here, and last where something is given back: if it
        # is killed in between, whoever reclaims what it had finds something to look at.
        if limit.index:
            limit.own[OWN_RESERVED] += amount
            cells[RESERVED] += amount
        else:
            # Last, since this cannot be given back without a trace: others may have been told.
            counted.append(place)
    crossings: Sequence[Crossing] = ()
    for place in counted:
        limit, amount = limits[place], amounts[place]
        limit.own[OWN_UNWRITTEN] += amount
        if limit.counter.add(now, amount) * 2 >= limit.amount:
            crossings = (*crossings, *crossings_by(limit, amount))
    if allowances is not None:
        for place in places:
            allowances.note_admitted(limits[place], amounts[place], now)
    return Reservation(limits, amounts, now, exceeded, crossings)


def _give_back(limits: Sequence[BoundLimit], amounts: Amounts, places: Sequence[int]) -> None:
    """Another limit refuses what was reserved at those of these places."""
    for place in places:
        limit = limits[place]
        if limit.index:
            limit.cells[RESERVED] -= amounts[place]
            limit.own[OWN_RESERVED] -= amounts[place]


def _refusal(limits: Sequence[BoundLimit], amounts: Amounts, now: float) -> Refusal:
    """Why these limits refuse what one of them does."""
    found: BoundLimit | None = None
    longest, asked = 0.0, 0
    for place, limit in enumerate(limits):
        # Not what is left of it, to which belongs what may still be borrowed.
        room = limit.amount - limit.counter.used(now) - limit.cells[RESERVED] + limit.row.room
        if limit.enforced and (amount := amounts[place]) > room:
            free_at = limit.free_at(now, amount)
            if found is None or free_at > longest:
                found, longest, asked = limit, free_at, amount
    assert found is not None, "one of them refuses it"
    return Refusal(found, asked, found.left_of_all(now), longest, found.counter.resets_at(now))


def settle(
    reservation: Reservation,
    spent: Amounts,
    now: float,
    allowances: Allowances | None = None,
    places: Sequence[int] | None = None,
) -> tuple[list[Row], Sequence[Crossing]]:
    """The request is over and came to `spent`. To be called exactly once for each reservation; if
    `places` are given it is settled at all others already: `settle_taken` returned them.

    Returns the rows of which something is to be written that had nothing before, whose `settled`
    has it, and what shares of limits were reached by it.
    """
    changed: list[Row] = []
    crossings: Sequence[Crossing] = ()
    amounts = reservation.amounts
    limits = reservation.limits
    for place in range(len(limits)) if places is None else places:
        limit = limits[place]
        index, own = limit.index, limit.own
        if limit.row.until and allowances is not None:
            allowances.count(limit, now)
        reserved, used = amounts[place], spent[place]
        if not index:
            if used < reserved:
                limit.counter.take_back(reservation.at, reserved - used)
                own[OWN_UNWRITTEN] -= reserved - used
                limit.row.taken -= reserved - used
        else:
            limit.cells[RESERVED] -= reserved
            own[OWN_RESERVED] -= reserved
            if not used or index == CONCURRENT:
                continue
            if used > MOST_AMOUNT:
                used = MOST_AMOUNT
            own[OWN_UNWRITTEN] += used
            if limit.counter.add(now, used) * 2 >= limit.amount:
                crossings = (*crossings, *crossings_by(limit, used))
        if used:
            limit.row.note_settled(used, changed)
    return changed, crossings


class Wanted(Struct, frozen=True, gc=False):
    """What a request may come to, for what is reserved. `plain_cost` is the cost without output,
    and `cost` with all of `output`, None if no price is known. Where it is not `billed`, all that
    may answer it is paid by subscription."""

    input: int
    output: int
    plain_cost: int = 0
    cost: int | None = 0
    billed: bool = True

    def counts(self) -> Counts:
        """What is reserved of each kind."""
        given, output = self.input, self.output
        total, cost = given + output, self.cost or 0
        billed = cost if self.billed else 0
        return 1, given, output, total, cost, 1, given, total, 0, 0, billed

    def with_output(self, output: int) -> Wanted:
        """The same with so much output."""
        if not self.cost:
            return replace(self, output=output)
        priced = (self.cost - self.plain_cost) * output // self.output
        return replace(self, output=output, cost=self.plain_cost + priced)


def fitting_output(limits: Sequence[BoundLimit], wanted: Wanted, now: float) -> int | None:
    """The output limit with which a request fits what is left of the limits that clamp, if it is
    less than what it wants and still worth sending; None if it is to be taken as it is."""
    most = wanted.output
    for limit in limits:
        if not limit.clamps:
            continue
        left = limit.left_of_all(now)
        if limit.weights is not None:
            each = most_of_output(limit.weights)
            if each:
                given = dearest(limit.weights, Wanted(wanted.input, 0).counts())
                most = min(most, (left - given) // each)
            continue
        match limit.kind:
            case Kind.OUTPUT_TOKENS:
                fits = left
            case Kind.TOKENS | Kind.ALL_TOKENS:
                fits = left - wanted.input
            case Kind.COST if limit.index == Kind.BILLED and not wanted.billed:
                continue
            case Kind.COST if wanted.cost is not None and wanted.cost > wanted.plain_cost:
                room, priced = left - wanted.plain_cost, wanted.cost - wanted.plain_cost
                fits = room * wanted.output // priced
            case _:
                continue
        most = min(most, fits)
    return most if LEAST_OUTPUT <= most < wanted.output else None
