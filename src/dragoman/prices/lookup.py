"""Lookup of prices by upstream and model, and the cost of an answer."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from math import inf
from typing import NamedTuple

import msgspec
from msgspec import Struct

from dragoman.canonical.usage import Usage
from dragoman.prices.rates import TIERS, Price
from dragoman.prices.table import (
    ModelPrices,
    Source,
    Table,
    is_pattern,
    literal_length,
    names_model,
)
from dragoman.prices.units import NO_UNITS, UnitPrice

MOST_MODELS = 1024
"""Models whose prices are cached; clients can choose them if a route is a pattern."""

STEPS = (32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288)
"""Prompt lengths from which vendors have other prices. Usage without a price is counted apart by
them, so that it can be priced later."""

MOST_COST = 10**16
"""Most pico-dollars of an answer, ten thousand dollars. A higher usage report of an upstream is not
believed, since its sums would not fit the store."""

_LONGEST_NAME = 200

_OTHERS = "*"
"""The own price of all models without another."""


class Basis(NamedTuple):
    """What an answer is priced by, besides its counts.

    `tier` is one of `TIERS` or empty, `above` the prompt length above which the price applies,
    `prices` the version of the table. Empty: no price is known.
    """

    upstream: str = ""
    model: str = ""
    tier: str = ""
    above: int = 0
    prices: str = ""


class Charge(Struct, frozen=True, gc=False):
    """The cost of one answer in pico-dollars; None if no price is known. If it is not `billed`, its
    account is paid by subscription, and this is what it would have cost."""

    basis: Basis
    cost: int | None
    billed: bool = True


_Steps = tuple[Sequence[int], Sequence[tuple[Basis, Price | None]]]
"""Prompt lengths, and the price up to the first of them, from there to the next, and so on."""


class Quote:
    """The prices of one model of an upstream that apply at a time, and until another. `billed`: its
    account is paid by the token. `writes_cost_more`: writing to a prompt cache costs more than
    other input. `usual` is the price of the default tier, None if it is unknown or depends on the
    prompt length. Of the first answer without a price, the `unknown` of `among` is called."""

    __slots__ = (
        "_model",
        "_prices",
        "_tiers",
        "_unknown",
        "_upstream",
        "_version",
        "billed",
        "until",
        "usual",
        "writes_cost_more",
    )

    def __init__(self, among: Prices, upstream: str, model: str) -> None:
        self._upstream = upstream
        self._model = model
        self._prices = among.lists[upstream].prices(model) if upstream in among.lists else ()
        self._version = among.version
        self._unknown = among.unknown
        self.billed = upstream not in among.subscriptions
        self.until = -inf

    def at(self, now: float) -> Quote:
        """Itself, with what applies at `now` (Unix seconds)."""
        if now >= self.until:
            model, prices = self._model[:_LONGEST_NAME], self._prices
            self._tiers = _tiers(self._upstream, model, prices, self._version, now)
            self.until = _next_change(prices, now)
            steps, usual = self._tiers[None]
            self.usual = None if steps else usual[0][1]
            self.writes_cost_more = any(
                price is not None and max(price.cache_write, price.cache_write_1h) > price.input
                for _, priced in self._tiers.values()
                for _, price in priced
            )
        return self

    def priced(self, tier: str | None, length: int) -> tuple[Basis, Price | None]:
        """The price of a prompt of so many tokens, None if it is unknown, and its basis."""
        steps, priced = self._tiers.get(tier) or self._tiers[None]
        # The step applies to longer prompts.
        return priced[bisect_left(steps, length) if steps else 0]

    def charge(self, usage: Usage, now: float) -> Charge:
        """The cost of an answer of `usage` at `now` (Unix seconds)."""
        if now >= self.until:
            self.at(now)
        basis, price = self.priced(usage.tier, usage.input)
        cost = None if price is None else price.cost_of(usage)
        if cost is None or cost > MOST_COST:
            cost = None
            if self._unknown is not None:
                self._unknown(self._upstream, self._model)
                self._unknown = None
        return Charge(basis, cost, self.billed)


class PriceList:
    """The prices of models at one upstream: own prices first, then the lists that apply, and last
    an own price for all others, `*`, which ends the own prices.

    An exact name takes precedence over a pattern, and a pattern with more literal characters over
    others, the earlier one if equal. Of own prices the first that matches is used.
    """

    __slots__ = ("_exact", "_others", "_own", "_patterns", "_units")

    def __init__(
        self,
        own: Iterable[tuple[str, Sequence[Price]]],
        lists: Iterable[Iterable[ModelPrices]],
        units: Sequence[tuple[str, UnitPrice]] = (),
    ) -> None:
        self._units = units
        rows = tuple(own)
        self._own = list(takewhile(lambda row: row[0] != _OTHERS, rows))
        self._others = next((row for row in rows if row[0] == _OTHERS), ("", ()))
        self._exact: list[dict[str, Sequence[Price]]] = []
        self._patterns: list[list[tuple[str, Sequence[Price]]]] = []
        for models in lists:
            exact: dict[str, Sequence[Price]] = {}
            patterns: list[tuple[str, Sequence[Price]]] = []
            for model in models:
                for name in model.names:
                    if is_pattern(name):
                        patterns.append((name, model.prices))
                    else:
                        exact.setdefault(name.lower(), model.prices)
            patterns.sort(key=lambda pair: -literal_length(pair[0]))
            self._exact.append(exact)
            self._patterns.append(patterns)

    def units(self, model: str) -> UnitPrice:
        """The own prices of a model in other units than tokens of text."""
        name = model.lower()
        return next((one for own, one in self._units if names_model(own, name)), NO_UNITS)

    def prices(self, model: str) -> Sequence[Price]:
        """All prices of a model, at whatever time; none if it is unknown."""
        return self._found(model)[1]

    def listed(self) -> Iterator[tuple[str, Sequence[Price], bool]]:
        """All names and patterns with their prices, and whether they are own ones, except those
        that an earlier one covers."""
        seen: set[str] = set()
        own = ((name, prices, True) for name, prices in (*self._own, self._others) if prices)
        shipped = (
            (name, prices, False)
            for exact, patterns in zip(self._exact, self._patterns, strict=True)
            for name, prices in (*exact.items(), *patterns)
        )
        for row in chain(own, shipped):
            name, _, is_own = row
            name = name.lower()
            hidden = not is_own and any(names_model(pattern, name) for pattern, _ in self._own)
            if name not in seen and not hidden:
                seen.add(name)
                yield row

    def listed_as(self, model: str) -> str:
        """The name or pattern of a model's price; empty if it has none."""
        return self._found(model)[0]

    def _found(self, model: str) -> tuple[str, Sequence[Price]]:
        name = model.lower()
        for pattern, prices in self._own:
            if names_model(pattern, name):
                return pattern, prices
        for exact, patterns in zip(self._exact, self._patterns, strict=True):
            if (found := exact.get(name)) is not None:
                return name, found
            for pattern, prices in patterns:
                if names_model(pattern, name):
                    return pattern, prices
        return self._others


class Prices:
    """Prices by upstream and model.

    `lists` are those of the upstreams, `version` identifies all of them, `sources` are where they
    came from. `unknown` is called with the upstream and the model of an answer without a price,
    once for each while it is cached. Accounts of `subscriptions` are not paid by the token.
    """

    __slots__ = ("_quotes", "lists", "sources", "subscriptions", "unknown", "version")

    def __init__(
        self,
        lists: Mapping[str, PriceList],
        version: str,
        unknown: Callable[[str, str], None] | None = None,
        subscriptions: Collection[str] = (),
        sources: Sequence[Source] = (),
    ) -> None:
        self.sources = tuple(sources)
        self.subscriptions = frozenset(subscriptions)
        self.version = version
        self.lists = lists
        self.unknown = unknown
        self._quotes: dict[tuple[str, str], Quote] = {}

    def of(self, upstream: str, model: str) -> Quote:
        """The prices of a model, which are asked for a time."""
        found = self._quotes.get((upstream, model))
        if found is None:
            if len(self._quotes) >= MOST_MODELS:
                self._quotes.clear()
            found = self._quotes[upstream, model] = Quote(self, upstream, model)
        return found

    def quote(self, upstream: str, model: str, now: float) -> Quote:
        """The prices of a model at `now` (Unix seconds)."""
        return self.of(upstream, model).at(now)

    def charge(self, upstream: str, model: str, usage: Usage, now: float) -> Charge:
        """The cost of an answer of `usage` at `now` (Unix seconds)."""
        return self.of(upstream, model).charge(usage, now)

    def units(self, upstream: str, model: str) -> UnitPrice:
        """The prices of a model in other units than tokens of text."""
        return self.lists[upstream].units(model) if upstream in self.lists else NO_UNITS

    def price(self, basis: Basis, at: float, until: float) -> tuple[Basis, Price] | None:
        """The price, and its basis, of usage that was counted under `basis` from one time to
        another; None if it is unknown, or no single price applies. Steps that were not counted
        apart cannot be separated now."""
        quote = Quote(self, basis.upstream, basis.model).at(at)
        if quote.until < until:
            return None
        found, price = quote.priced(basis.tier or None, basis.above + 1)
        return None if price is None else (found._replace(tier=basis.tier), price)


def _tiers(
    upstream: str, model: str, prices: Sequence[Price], version: str, at: float
) -> Mapping[str | None, _Steps]:
    applying: dict[str, tuple[int, int, int]] = {}
    for price in prices:
        if price.applies(at):
            applying[price.tier] = price.period
    tiers: dict[str | None, _Steps] = {}
    for tier, period in applying.items():
        rows = sorted(
            (price for price in prices if price.tier == tier and price.period == period),
            key=lambda price: price.above,
        )
        bases = [(Basis(upstream, model, tier, row.above, version), row) for row in rows]
        tiers[tier or None] = [row.above for row in rows[1:]], bases
    if None not in tiers:
        tiers = {tier or None: _unpriced(upstream, model, tier) for tier in ("", *TIERS)}
    else:
        usual_steps, usual = tiers[None]
        for tier in TIERS:
            # A tier without a price of its own is charged as the default, and counted apart.
            named = [(basis._replace(tier=tier), price) for basis, price in usual]
            tiers.setdefault(tier, (usual_steps, named))
    return tiers


def _unpriced(upstream: str, model: str, tier: str) -> _Steps:
    return STEPS, [(Basis(upstream, model, tier, above), None) for above in (0, *STEPS)]


def _next_change(prices: Sequence[Price], at: float) -> float:
    """When another price may apply."""
    changes = [float(price.since) for price in prices if price.since > at]
    if any(price.begins != price.ends for price in prices):
        changes.append(at // 60 * 60 + 60)
    return min(changes, default=inf)


def version_with(table: Table, own: Sequence[object]) -> str:
    """The version of a table with own prices."""
    if not own:
        return table.version
    digest = hashlib.sha256(msgspec.json.encode(own)).hexdigest()
    return f"{table.version}+{digest[:6]}"
