"""Limits with their counters, and what requests count at them. Pure: counters and the time are
given, and whoever calls holds the lock of the counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from math import inf
from operator import itemgetter
from typing import Final

from dragoman.config.limits import Limit, Weights
from dragoman.config.names import matches
from dragoman.config.windows import Window, parse_window
from dragoman.limits.counters import RESERVED, USED, Cells, Counter, cells_of, counter_of
from dragoman.limits.rows import Row, private_row
from dragoman.limits.shares import known_pool

MOST_AMOUNT: Final = 10**16
"""What is counted at once at most, whatever an upstream tells: sums must fit 64 bits."""

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


CONCURRENT: Final = int(Kind.CONCURRENT)


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
    tokens, output = counts[Kind.ALL_INPUT_TOKENS], counts[Kind.OUTPUT_TOKENS]
    return tokens * given + output * most_of_output(weights)


def most_of_output(weights: Weights) -> int:
    """What a token of output comes to at most."""
    return max(weights.output, weights.reasoning)


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
        """How much was used, with what this process knows alone."""
        return self.counter.used(now) + self.row.used

    def left(self, now: float) -> int:
        """How much may still be reserved, as far as this process knows: less than nothing where
        more was used. Needs no lock, and so lets no window begin anew."""
        row, cells = self.row, self.cells
        taken = row.taken if now < row.until else cells[USED] + cells[RESERVED]
        return self.amount - taken + row.room

    def left_of_all(self, now: float) -> int:
        """The same by the cells, in which is what others have taken since. To be called with the
        lock held."""
        cells, counter = self.cells, self.counter
        used = cells[USED] if now < counter.fresh_until else counter.used(now)
        # What this process has ahead is reserved there, and it may use that.
        return self.amount - used - cells[RESERVED] + self.row.room

    def free_at(self, now: float, amount: int) -> float:
        """When `amount` may be reserved, if nothing else is until then: infinity for never."""
        if amount > self.amount:
            return inf
        missing = amount - (self.amount - self.counter.used(now))
        return now + SOON_S if missing <= 0 else self.counter.frees_at(now, missing)


def bound_apart(limit: Limit, owner: str, *, is_team: bool) -> BoundLimit:
    """A limit with a counter of its own, which is empty."""
    return BoundLimit(limit, owner, private_row(cells_of(window_of(limit))), is_team=is_team)


_RATES: Final = frozenset({"requests", "tokens", "input_tokens", "output_tokens"})
_MOST_MODELS: Final = 256


def _reader(
    limits: Sequence[BoundLimit], read: Callable[[BoundLimit, Counts], int]
) -> Callable[[Counts], Amounts]:
    """What finds the amounts of these limits in counts."""
    if not limits or any(one.weights is not None for one in limits):
        return lambda counts: [read(one, counts) for one in limits]
    first, *others = [one.index for one in limits]
    return itemgetter(first, *others) if others else lambda counts: (counts[first],)


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
        self.told: dict[str, Callable[[float], bytes]] = {}
        """For whoever tells of `rates`: what makes their lines at a time, by the protocol."""
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
