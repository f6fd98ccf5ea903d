"""Limits of keys and teams, and what a request counts at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from operator import attrgetter, itemgetter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.usage import Usage
from dragoman.config.limits import Limit, Weights
from dragoman.config.names import means
from dragoman.config.windows import Fixed, Window, knows_zone, span_of
from dragoman.limits.balances import window_of
from dragoman.limits.messages import Claim, Granted


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


def kind_of(limit: Limit) -> Kind:
    """What a limit counts."""
    name = f"all_{limit.kind}" if limit.count_cached else limit.kind
    return Kind[name.upper()]


Counts = Sequence[int]
"""How much of each kind; costs in pico-dollars."""

Amounts = Sequence[int]
"""What counts come to at each of several limits, in their order."""


class Expected(Struct, frozen=True, gc=False):
    """What a request may come to, for what is reserved. `plain_cost` is the cost without output,
    and `cost` with all of `output`, None if no price is known. Where it is not `billed`, all that
    may answer it is paid by subscription. `usage` is the usage that it has then, None if that has
    nothing but input and output. `named` are models that it names besides its own, one of which may
    be the one that answers."""

    input: int
    output: int
    plain_cost: int = 0
    cost: int | None = 0
    billed: bool = True
    usage: Usage | None = None
    named: tuple[str, ...] = ()

    def counts(self) -> Counts:
        """What is reserved of each kind."""
        given, output = self.input, self.output
        total, cost = given + output, self.cost or 0
        billed = cost if self.billed else 0
        return 1, given, output, total, cost, 1, given, total, 0, 0, billed

    def at_least(self, usage: Usage) -> Usage:
        """The usage of a request that may have used all that is expected, and no less than
        `usage`."""
        expected = self.usage or usage
        given, output = max(usage.input, self.input), max(usage.output, self.output)
        return replace(expected, input=given, output=output)

    def with_output(self, output: int) -> Expected:
        """The same with so much output."""
        if not self.cost or not self.output:
            return replace(self, output=output)
        priced = (self.cost - self.plain_cost) * output // self.output
        return replace(self, output=output, cost=self.plain_cost + priced)


def weigh(weights: Weights, counts: Counts) -> int:
    """The weighted sum of tokens that were used."""
    _, fresh, output, _, _, _, given, _, written, thought, _ = counts
    return (
        weights.input * (fresh - written)
        + weights.cached * (given - fresh)
        + weights.cache_write * written
        + weights.output * (output - thought)
        + weights.reasoning * thought
    )


def weigh_most(weights: Weights, counts: Counts) -> int:
    """Upper bound of the weighted sum of tokens before it is known what they are used for."""
    given = max(weights.input, weights.cached, weights.cache_write)
    output = max(weights.output, weights.reasoning)
    return counts[Kind.ALL_INPUT_TOKENS] * given + counts[Kind.OUTPUT_TOKENS] * output


def ledger_of(limit: Limit, owner: str, *, is_team: bool = False) -> str:
    """The name of the ledger of a limit of a key or a team."""
    return "\n".join(["team" if is_team else "key", owner, *map(str, limit.counted_as)])


def with_resets(
    limits: Sequence[Limit], owner: str, resets: Mapping[str, float], *, is_team: bool = False
) -> tuple[Limit, ...]:
    """Limits of a key or a team of the configuration, each from when it was reset (Unix seconds),
    by the name of its ledger without that."""
    found: list[Limit] = []
    for one in limits:
        at = resets.get(ledger_of(one, owner, is_team=is_team))
        if at is not None and (one.since is None or one.since.timestamp() < at):
            one = replace(one, since=datetime.fromtimestamp(at, UTC))
        found.append(one)
    return tuple(found)


class Rule:
    """One limit of a key or a team, as a worker holds requests to it. `owner` is the name of that
    key or team. `name` is what it is called in messages: `key:cost:month`. `number` is what its
    owner calls it, 0 before it is defined there. `unknown_zone` is its zone if this machine does
    not know that, else empty."""

    __slots__ = (
        "__weakref__",
        "_granted",
        "_granted_ends",
        "_span",
        "_units",
        "clamps",
        "counts_subscriptions",
        "enforced",
        "index",
        "is_team",
        "kind",
        "ledger",
        "limit",
        "name",
        "number",
        "owner",
        "reported_until",
        "unknown_zone",
        "window",
    )

    def __init__(self, limit: Limit, owner: str, *, is_team: bool = False) -> None:
        self.limit = limit
        self.owner = owner
        self.is_team = is_team
        scope = "team" if is_team else "key"
        self.ledger = ledger_of(limit, owner, is_team=is_team)
        """The name of its ledger."""
        self.name = f"{scope}:{limit.kind}" + (f":{limit.window}" if limit.window else "")
        self.kind = kind_of(limit)
        self.counts_subscriptions = limit.subscriptions == "count"
        self.index = int(self.kind if self.counts_subscriptions else Kind.BILLED)
        self.enforced = limit.mode == "enforce"
        self.clamps = limit.clamp and self.enforced
        self.window: Window | None = window_of(limit)
        self.unknown_zone = "" if knows_zone(limit.zone) else limit.zone
        self._units, self._granted = limit.units, limit.granted_units
        self._granted_ends = limit.granted_ends
        self._span = 0.0, 0.0
        self.number = 0
        self.reported_until = 0.0
        """Until when, in Unix seconds, it need not be reported again that it refuses requests."""

    @property
    def is_rate(self) -> bool:
        """Whether clients see it as a rate: it counts requests or tokens, and all of it is left
        again some day."""
        return self.enforced and self.limit.kind in _RATES and self.limit.window != "total"

    @property
    def counts_tokens(self) -> bool:
        """Whether it counts what an answer uses: tokens or their cost."""
        return self.kind not in (Kind.REQUESTS, Kind.CONCURRENT)

    @property
    def refuses_unpriced(self) -> bool:
        """Whether models may not be used that have no price."""
        return self.kind is Kind.COST and self.enforced and self.limit.unpriced == "refuse"

    def amount(self, now: float) -> int:
        """How much there is of it, with what is granted."""
        return self._units + (self._granted if now < self._granted_ends else 0)

    def span(self, window: Fixed, now: float) -> tuple[float, float]:
        """When its window of the calendar begins and ends."""
        if not self._span[0] <= now < self._span[1]:
            self._span = span_of(window, now)
        return self._span

    def amount_of(self, counts: Counts) -> int:
        """What a request counts that came to `counts`, or the sums of several."""
        weights = self.limit.weights
        return counts[self.index] if weights is None else weigh(weights, counts)

    def most_of(self, counts: Counts) -> int:
        """What a request counts at most that may come to `counts`."""
        weights = self.limit.weights
        return counts[self.index] if weights is None else weigh_most(weights, counts)

    def concerns(self, names: Sequence[str]) -> bool:
        """Whether requests count for a model of these names."""
        models = self.limit.models
        return models is None or any(means(one, name) for one in models for name in names)


_RATES: Final = frozenset({"requests", "tokens", "input_tokens", "output_tokens"})
_MOST_MODELS: Final = 256
_number: Callable[[Rule], int] = attrgetter("number")


def _reader(
    rules: Sequence[Rule], read: Callable[[Rule, Counts], int]
) -> Callable[[Counts], Amounts]:
    """What finds the amounts of these limits in counts."""
    if not rules or any(one.limit.weights is not None for one in rules):
        return lambda counts: [read(one, counts) for one in rules]
    first, *others = [one.index for one in rules]
    return itemgetter(first, *others) if others else lambda counts: (counts[first],)


class Rules:
    """The limits that hold for a request, and what follows from them: `amounts`, what they count of
    counts, and `most`, what they may; `clamps`, whether any does; `may_wait`,
    whether requests may wait for their turn; whether tokens and costs have to
    be known; and those of `costs`, and that answers report, `rates`, `budgets` and `soft`, as
    places in `all`. `is_partial`: some are of some models only. `uncountable` is one whose zone
    this machine does not know."""

    __slots__ = (
        "_amounts",
        "_by_model",
        "_terms",
        "all",
        "amounts",
        "budgets",
        "clamps",
        "costs",
        "is_partial",
        "may_wait",
        "most",
        "needs_cost",
        "needs_tokens",
        "rate_lines",
        "rates",
        "soft",
        "uncountable",
    )

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.all = tuple(rules)
        self.uncountable = next((one for one in rules if one.unknown_zone and one.enforced), None)
        self.amounts = _reader(self.all, Rule.amount_of)
        self.most = _reader(self.all, Rule.most_of)
        self.is_partial = any(one.limit.models is not None for one in rules)
        self.clamps = any(one.clamps for one in rules)
        self.may_wait = any(one.limit.queue_s for one in rules)
        self.costs = tuple(place for place, one in enumerate(rules) if one.kind is Kind.COST)
        self.needs_cost = bool(self.costs)
        self.needs_tokens = any(one.counts_tokens for one in rules)
        self.rates = tuple(place for place, one in enumerate(rules) if one.is_rate)
        self.rate_lines: dict[str, Callable[[Granted], bytes]] = {}
        """What makes the lines of headers for `rates`, by the protocol."""
        self.budgets = tuple(place for place in self.costs if rules[place].enforced)
        self.soft = tuple(place for place, one in enumerate(rules) if one.limit.mode == "soft")
        self._terms = (
            [one.enforced for one in rules],
            [one.clamps for one in rules],
            [one.limit.queue_s for one in rules],
            [one.limit.queue_size for one in rules],
        )
        """What claims have that is the same for all requests, by the field."""
        has_grants = any(one.limit.granted_units for one in rules)
        self._amounts = None if has_grants else [one.amount(0.0) for one in rules]
        """How much there is of each, None where some is granted for a time."""
        self._by_model: dict[tuple[str, ...], Rules] = {}

    def claims(self, expected: Expected, now: float) -> tuple[Claim, ...]:
        """What a request that may come to `expected` claims of each."""
        amounts = self.most(expected.counts())
        plain = self.most(expected.with_output(0).counts()) if self.clamps else amounts
        most = self._amounts or [one.amount(now) for one in self.all]
        enforced, clamps, queue_s, queue_size = self._terms
        fields = amounts, most, enforced, clamps, plain, queue_s, queue_size
        return tuple(map(Claim, self.numbers(), *fields))

    def numbers(self) -> Iterator[int]:
        """What their owner calls them."""
        return map(_number, self.all)

    def budget(self, *, billed: bool) -> Rule | None:
        """The cost limit that rejects unpriced models, or None. `billed`: the upstream bills by the
        token."""
        for one in self.all:
            if one.refuses_unpriced and (billed or one.counts_subscriptions):
                return one
        return None

    def at_one_time(self) -> Rules:
        """Those that count requests at one time."""
        return Rules([one for one in self.all if one.kind is Kind.CONCURRENT])

    def of_turns(self) -> Rules:
        """All but those: of each answer within a session."""
        return Rules([one for one in self.all if one.kind is not Kind.CONCURRENT])

    def concerning(self, names: tuple[str, ...]) -> Rules:
        """Those that count requests for a model of these names."""
        if not self.is_partial:
            return self
        found = self._by_model.get(names)
        if found is None:
            if len(self._by_model) >= _MOST_MODELS:
                self._by_model.clear()
            found = Rules([one for one in self.all if one.concerns(names)])
            self._by_model[names] = found
        return found


class Reservation(Struct, eq=False, gc=False):
    """What a request has reserved at each of these limits; `cost` are the pico-dollars of it, at
    all of them."""

    rules: Rules
    granted: Granted
    cost: int = 0


class Admitted(Struct, eq=False, gc=False):
    """A request of `caller` that was admitted by `rules`: what it has reserved, for what it is
    `expected` to come to, and of how many bytes its prompt was estimated, 0 where nothing is to be
    learned from it. It `continues` an answer that an upstream has stored. `shows_amounts`: the
    caller may know how much it has. `more` was reserved since, for further answers to it."""

    caller: str
    rules: Rules
    reservation: Reservation
    expected: Expected
    size: int
    continues: bool
    shows_amounts: bool
    more: tuple[Reservation, ...] = ()
