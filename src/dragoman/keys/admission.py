"""Whether a request may go on: it is reserved for at all of its limits, or at none.

    admit -> the call -> settle

What is reserved is an estimate; what is settled is what the answer is known to have used. Pure:
counters and the time are given, and whoever calls holds the lock of the counters.

Requests count as used from the moment they are admitted, and are taken back if no upstream was
asked. Tokens and costs are reserved while the request is under way, and used once it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from math import inf
from operator import itemgetter
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.limits import Limit, Weights
from dragoman.config.names import matches
from dragoman.config.windows import Window, parse_window
from dragoman.keys.counters import RESERVED, RESTORED, USED, Cells, Counter, cells_of, counter_of
from dragoman.keys.shares import known_pool

LEAST_OUTPUT: Final = 256
"""Tokens of output for which a request that is clamped is still worth sending."""

MOST_AMOUNT: Final = 10**16
"""What one request is counted as at most, whatever an upstream tells: sums must fit 64 bits."""

SHARES: Final = (50, 80, 100)
"""Percent of a limit that are told of when they are reached."""

SOON_S: Final = 1.0
"""Seconds after which to come again when only what is under way stands in the way."""


class Kind(IntEnum):
    """What is counted, as an index into counts: input with and without what was read from a
    prompt cache; `CACHE_WRITE` and `REASONING` are parts of others, for limits that weigh tokens,
    `BILLED` is the cost without that of accounts that are paid by subscription."""

    REQUESTS = 0
    INPUT_TOKENS = 1
    OUTPUT_TOKENS = 2
    TOKENS = 3
    COST = 4
    CONCURRENT = 5
    ALL_INPUT_TOKENS = 6
    ALL_TOKENS = 7
    CACHE_WRITE = 8
    REASONING = 9
    BILLED = 10


_CONCURRENT: Final = int(Kind.CONCURRENT)


def kind_of(limit: Limit) -> Kind:
    """What a limit counts."""
    name = f"all_{limit.kind}" if limit.count_cached else limit.kind
    return Kind[name.upper()]


Counts = Sequence[int]
"""How much of each kind; costs in pico-dollars."""

Amounts = Sequence[int]
"""What counts come to at each of several limits, in their order."""


def weighed(weights: Weights, counts: Counts) -> int:
    """What tokens come to by their weights."""
    _, fresh, output, _, _, _, given, _, written, thought, _ = counts
    return (
        weights.input * (fresh - written)
        + weights.cached * (given - fresh)
        + weights.cache_write * written
        + weights.output * (output - thought)
        + weights.reasoning * thought
    )


def dearest(weights: Weights, counts: Counts) -> int:
    """What tokens come to at most, of which is not known yet what they will be used for."""
    given = max(weights.input, weights.cached, weights.cache_write)
    return counts[Kind.ALL_INPUT_TOKENS] * given + counts[Kind.OUTPUT_TOKENS] * _of_output(weights)


def _of_output(weights: Weights) -> int:
    return max(weights.output, weights.reasoning)


OWN_RESERVED, OWN_UNWRITTEN = 0, 1
"""Cells of one process for one counter: what it has reserved, and what it has counted as used that
is in no row of usage yet. Both are void when the process is gone."""
OWN_CELLS: Final = 2


class Row:
    """A counter's cells, those of this process for it, and what it has used since rows of usage
    were last written, as far as it is settled."""

    __slots__ = ("cells", "own", "settled")

    def __init__(self, cells: Cells, own: Cells) -> None:
        self.cells = cells
        self.own = own
        self.settled = 0

    @property
    def is_restored(self) -> bool:
        """Whether the counter has what was used before it was made."""
        return bool(self.cells[RESTORED])


def private_row(size: int) -> Row:
    """A counter of `size` cells in memory of this process."""
    memory = memoryview(bytearray(8 * (size + OWN_CELLS))).cast("q")
    return Row(memory[:size], memory[size:])


class Counters(Protocol):
    """Where counters are: in memory that the processes of a machine share, or in that of one.
    Instances on several machines can each have their own over a part of each limit that is lent to
    them: what is counted is in the cells, whoever filled them."""

    def row(self, name: str, cells: int) -> Row:
        """The counter of this name, which has so many cells; made if there is none. Not to be
        called while locked."""

    def known(self, name: str) -> Row | None:
        """The counter of this name; None if there is none, and none is made. Not to be called while
        locked."""

    @property
    def lock(self) -> Callable[[], object]:
        """Keeps all others from the cells, for a moment."""

    @property
    def unlock(self) -> Callable[[], object]:
        """Lets others go on."""

    def reclaim_lost(self) -> int:
        """Give back what processes have reserved that are gone. Returns how many these were. Not to
        be called while locked."""

    @property
    def losses(self) -> int:
        """How often something was given back that a process had which is gone, by whomever."""

    def unwritten(self, row: Row) -> int:
        """What all processes have counted as used that is in no row of usage yet. To be called
        while locked."""

    def counts_all(self, row: Row) -> bool:
        """Whether all processes of this machine count there: there was room for it."""

    def try_exchange(self) -> bool:
        """Be the process that asks the owner of limits for all of this machine, until
        `end_exchange`; False if another is."""

    def end_exchange(self) -> None:
        """Let others ask the owner."""

    def close(self) -> None:
        """Give up what this process has reserved. Harmless if it was done before."""


class BoundLimit:
    """A limit with its counter. `owner` is whose it is, by its name, and `is_team` what that is.
    `name` is how it is called where it is told of: `key:cost:month`. `pool` is what the upstream's
    accounts have of which it is a share, as was learned; None where it is none, or nothing was.
    """

    __slots__ = (
        "__weakref__",
        "amount",
        "cells",
        "clamps",
        "counter",
        "counts_subscriptions",
        "enforced",
        "index",
        "is_team",
        "kind",
        "limit",
        "models",
        "name",
        "own",
        "owner",
        "pool",
        "pool_cells",
        "refusal_told",
        "row",
        "weights",
        "window",
    )

    def __init__(self, limit: Limit, owner: str, row: Row, *, is_team: bool = False) -> None:
        self.limit = limit
        self.owner = owner
        self.is_team = is_team
        window = "" if limit.window is None else f":{limit.window}"
        self.name = f"{'team' if is_team else 'key'}:{limit.kind}{window}"
        self.row = row
        self.cells, self.own = row.cells, row.own
        self.kind = kind_of(limit)
        self.counts_subscriptions = limit.subscriptions == "count"
        self.index = int(self.kind if self.counts_subscriptions else Kind.BILLED)
        self.refusal_told = 0.0
        """Until when, in Unix seconds, it need not be told again that it refuses requests."""
        self.pool: int | None = None
        self.pool_cells: Cells | None = None
        self.amount = limit.units
        self.models = limit.models
        self.weights = limit.weights
        self.enforced = limit.mode == "enforce"
        self.clamps = limit.clamp and self.enforced
        self.window = window_of(limit)
        self.counter: Counter = counter_of(self.window, row.cells)

    def note_time(self, now: float) -> None:
        """What is granted for a time holds at `now`, or holds no longer, and what was learned of
        a pool may be known, or too old."""
        if self.pool_cells is not None:
            self.pool = known_pool(self.pool_cells, now)
        self.amount = self.limit.units_at(now, self.pool)

    @property
    def is_rate(self) -> bool:
        """Whether clients are told of it as a rate: it counts requests or tokens, and all of it is
        left again some day."""
        return self.enforced and self.limit.kind in _RATES and self.limit.window != "total"

    @property
    def is_known(self) -> bool:
        """Whether its amount is known: that of a share is, once it was learned."""
        return self.limit.share is None or self.pool is not None

    def amount_of(self, counts: Counts) -> int:
        """What a request counts that came to `counts`, or the sums of several."""
        return counts[self.index] if self.weights is None else weighed(self.weights, counts)

    def most_of(self, counts: Counts) -> int:
        """What a request counts at most that may come to `counts`."""
        return counts[self.index] if self.weights is None else dearest(self.weights, counts)

    @property
    def refuses_unpriced(self) -> bool:
        """Whether models may not be used that have no price."""
        return self.kind is Kind.COST and self.enforced and self.limit.unpriced == "refuse"

    def concerns(self, names: Sequence[str], upstreams: Sequence[str] = ()) -> bool:
        """Whether requests count for a model of these names that may go to these upstreams."""
        models, upstream = self.models, self.limit.upstream
        return (upstream is None or upstream in upstreams) and (
            models is None or any(matches(one, name) for one in models for name in names)
        )

    def used(self, now: float) -> int:
        """How much was used."""
        return self.counter.used(now)

    def left(self, now: float) -> int:
        """How much may still be reserved: less than nothing where more was used."""
        cells, counter = self.cells, self.counter
        used = cells[USED] if now < counter.fresh_until else counter.used(now)
        return self.amount - used - cells[RESERVED]

    def free_at(self, now: float, amount: int) -> float:
        """When `amount` may be reserved, if nothing else is until then: infinity for never."""
        if amount > self.amount:
            return inf
        missing = amount - (self.amount - self.counter.used(now))
        return now + SOON_S if missing <= 0 else self.counter.frees_at(now, missing)


def bound_apart(limit: Limit, owner: str, *, is_team: bool) -> BoundLimit:
    """A limit with a counter of its own, which is empty."""
    return BoundLimit(limit, owner, private_row(cells_of(window_of(limit))), is_team=is_team)


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
        Verdict(one, amount, one.left(now), one.free_at(now, amount))
        for one, amount in zip(limits, amounts, strict=True)
    )


_RATES: Final = frozenset({"requests", "tokens", "input_tokens", "output_tokens"})
_MOST_MODELS: Final = 256


def _reader(
    limits: Sequence[BoundLimit], read: Callable[[BoundLimit, Counts], int]
) -> Callable[[Counts], Amounts]:
    """What finds the amounts of these limits in counts."""
    if len(limits) < 2 or any(one.weights is not None for one in limits):
        return lambda counts: [read(one, counts) for one in limits]
    return itemgetter(*(one.index for one in limits))


class BoundLimits:
    """The limits that hold for a request, and what follows from them: `amounts`, what they count of
    counts, and `most`, what they may; `clamps`, whether any does; whether tokens and costs have to
    be known; and those whose state answers tell of, `rates` and `soft`. `is_partial`: some are of
    some models only, or of one upstream, as shares are, of which it may have some."""

    __slots__ = (
        "_by_model",
        "all",
        "amounts",
        "clamps",
        "has_shares",
        "is_partial",
        "most",
        "needs_cost",
        "needs_tokens",
        "rates",
        "soft",
        "told",
    )

    def __init__(self, limits: Sequence[BoundLimit]) -> None:
        self.all = tuple(limits)
        self.amounts = _reader(self.all, BoundLimit.amount_of)
        self.most = _reader(self.all, BoundLimit.most_of)
        self.has_shares = any(one.limit.upstream is not None for one in limits)
        self.is_partial = self.has_shares or any(one.models is not None for one in limits)
        self.clamps = any(one.clamps for one in limits)
        self.needs_cost = any(one.kind is Kind.COST for one in limits)
        self.needs_tokens = any(one.kind not in (Kind.REQUESTS, Kind.CONCURRENT) for one in limits)
        self.rates = tuple(one for one in limits if one.is_rate)
        self.told: dict[str, Sequence[Callable[[float], bytes]]] = {}
        """For whoever tells of `rates`: what makes the lines of each at a time, by the protocol."""
        self.soft = tuple(one for one in limits if one.limit.mode == "soft")
        self._by_model: dict[tuple[tuple[str, ...], tuple[str, ...]], BoundLimits] = {}

    def budget(self, upstream: str, *, billed: bool) -> BoundLimit | None:
        """One that refuses models without a price of an upstream, where these are billed by the
        token or are not; None if none does."""
        for one in self.all:
            counts = billed or one.counts_subscriptions
            if one.refuses_unpriced and counts and one.limit.upstream in (None, upstream):
                return one
        return None

    def concerning(self, names: tuple[str, ...], upstreams: tuple[str, ...]) -> BoundLimits:
        """Those that count requests for a model of these names that may go to these upstreams."""
        if not self.is_partial:
            return self
        found = self._by_model.get((names, upstreams))
        if found is None:
            if len(self._by_model) >= _MOST_MODELS:
                self._by_model.clear()
            found = BoundLimits([one for one in self.all if one.concerns(names, upstreams)])
            self._by_model[names, upstreams] = found
        return found


def window_of(limit: Limit) -> Window | None:
    """The window of a limit; None for requests at one time."""
    return None if limit.window is None else parse_window(limit.window, limit.zone, limit.anchor)


class Refusal(Struct, frozen=True):
    """A request is refused by `limit`, at which it would have counted `amount`, of which `left`
    were left. `free_at` is when it would be admitted if nothing else were until then, `resets_at`
    when nothing of what is used counts any more (Unix seconds; infinity: never)."""

    limit: BoundLimit
    amount: int
    left: int
    free_at: float
    resets_at: float


class Crossing(Struct, frozen=True):
    """`percent` of a limit were reached within its window."""

    limit: BoundLimit
    percent: int


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


def admit(limits: Sequence[BoundLimit], amounts: Amounts, now: float) -> Reservation | Refusal:
    """Reserve at all limits, or at none of them. Of several that refuse, that one is told which
    does so longest: a client that waits for it is not refused by another."""
    exceeded: Sequence[BoundLimit] = ()
    counted: list[int] = []
    # `zip` would cost as much again as what is done with each of them.
    for place, limit in enumerate(limits):
        amount, cells, counter = amounts[place], limit.cells, limit.counter
        used = cells[USED] if now < counter.fresh_until else counter.used(now)
        reserved = cells[RESERVED]
        if amount > limit.amount - used - reserved:
            if limit.enforced:
                _give_back(limits[:place], amounts)
                return _refusal(limits, amounts, now)
            exceeded = (*exceeded, limit)
        # The cells of this process come first, here, and last where something is given back: if it
        # is killed in between, whoever reclaims what it had finds something to look at.
        if limit.index:
            limit.own[OWN_RESERVED] += amount
            cells[RESERVED] = reserved + amount
        else:
            # Last, since this cannot be given back without a trace: others may have been told.
            counted.append(place)
    crossings: Sequence[Crossing] = ()
    for place in counted:
        limit, amount = limits[place], amounts[place]
        limit.own[OWN_UNWRITTEN] += amount
        if limit.counter.add(now, amount) * 2 >= limit.amount:
            crossings = (*crossings, *_crossings(limit, amount))
    return Reservation(limits, amounts, now, exceeded, crossings)


def _give_back(limits: Sequence[BoundLimit], amounts: Amounts) -> None:
    """Another limit refuses what was reserved at these."""
    for place, limit in enumerate(limits):
        if limit.index:
            limit.cells[RESERVED] -= amounts[place]
            limit.own[OWN_RESERVED] -= amounts[place]


def _refusal(limits: Sequence[BoundLimit], amounts: Amounts, now: float) -> Refusal:
    """Why these limits refuse what one of them does."""
    found: BoundLimit | None = None
    longest, asked = 0.0, 0
    for place, limit in enumerate(limits):
        # Not what is left of it, to which belongs what may still be borrowed.
        room = limit.amount - limit.counter.used(now) - limit.cells[RESERVED]
        if limit.enforced and (amount := amounts[place]) > room:
            free_at = limit.free_at(now, amount)
            if found is None or free_at > longest:
                found, longest, asked = limit, free_at, amount
    assert found is not None, "one of them refuses it"
    return Refusal(found, asked, found.left(now), longest, found.counter.resets_at(now))


def settle(
    reservation: Reservation, spent: Amounts, now: float
) -> tuple[Sequence[Row], Sequence[Crossing]]:
    """The request is over and came to `spent`. To be called exactly once for each reservation.

    Returns the rows of which something is to be written that had nothing before, whose `settled`
    has it, and what shares of limits were reached by it.
    """
    changed: list[Row] = []
    crossings: Sequence[Crossing] = ()
    amounts = reservation.amounts
    for place, limit in enumerate(reservation.limits):
        index, own = limit.index, limit.own
        reserved, used = amounts[place], spent[place]
        if not index:
            if used < reserved:
                limit.counter.take_back(reservation.at, reserved - used)
                own[OWN_UNWRITTEN] -= reserved - used
        else:
            limit.cells[RESERVED] -= reserved
            own[OWN_RESERVED] -= reserved
            if not used or index == _CONCURRENT:
                continue
            if used > MOST_AMOUNT:
                used = MOST_AMOUNT
            own[OWN_UNWRITTEN] += used
            if limit.counter.add(now, used) * 2 >= limit.amount:
                crossings = (*crossings, *_crossings(limit, used))
        if used:
            row = limit.row
            if not row.settled:
                changed.append(row)
            row.settled += used
    return changed, crossings


def reached(limit: BoundLimit, now: float) -> int:
    """The highest of the shares of a limit, in percent, that is used; 0 if none is."""
    used = limit.counter.used(now) * 100
    return max((share for share in SHARES if used >= share * limit.amount), default=0)


def _crossings(limit: BoundLimit, added: int) -> tuple[Crossing, ...]:
    """The shares that were reached when `added` was counted."""
    after = limit.row.cells[USED] * 100
    before = after - added * 100
    reached = [share for share in SHARES if before < share * limit.amount <= after]
    return tuple([Crossing(limit, share) for share in reached])


def written(row: Row, amount: int) -> None:
    """So much of what this process has used is in rows of usage."""
    row.own[OWN_UNWRITTEN] -= amount


def reclaim(counter: Counter, row: Row, reserved_by_others: int) -> None:
    """Give back what a process that is gone had reserved, and what no row of usage will tell of.
    `row` has the cells of that process as its own; what all others have reserved is given, since
    it may have been killed between two steps."""
    row.cells[RESERVED] = reserved_by_others
    counter.take_back_latest(row.own[OWN_UNWRITTEN])
    row.own[OWN_RESERVED] = row.own[OWN_UNWRITTEN] = 0


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
        left = limit.left(now)
        if limit.weights is not None:
            each = _of_output(limit.weights)
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
