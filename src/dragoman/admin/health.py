"""Operations that show how a running gateway is, what it costs to call, and where names lead."""

from __future__ import annotations

import asyncio
import time
from itertools import chain, islice
from typing import Final

from msgspec import UNSET, Struct, UnsetType

import dragoman
from dragoman.admin.call import Call
from dragoman.admin.gateway import Gateway
from dragoman.operations.accounts import PAGE, PageSize
from dragoman.operations.operation import Command, Http, Nothing, operation, operations_in
from dragoman.operations.pricing import ListedPrice, PriceView, found_prices, price_views
from dragoman.prices.table import Source
from dragoman.serving.limits.unpriced import (
    Owner,
    UnpricedBudget,
    unpriced_budgets,
    unpriced_models,
)

_MOST_UNPRICED: Final = 20


class Health(Struct, frozen=True, kw_only=True):
    """A running gateway: requests in flight and waiting, the configuration of each worker, whether
    the store works; and by upstream the accounts in each state, those of them on trial, and when
    the first is back. `resting` are the upstreams that refuse all accounts alike, with the reason:
    their usable accounts count as cooling. `unpriced_budgets` are the first of
    the keys and teams with a budget, each with a model that it cannot use since that has no price.
    """

    version: str
    workers: int
    configurations: list[int]
    in_flight: int
    queue_length: int
    limits: str
    store: str
    usable: bool
    accounts: dict[str, dict[str, int]]
    trials: dict[str, dict[str, int]]
    back_at: dict[str, dict[str, float]]
    resting: dict[str, str]
    unpriced_budgets: list[UnpricedBudget]


class AskPrices(Struct, frozen=True, kw_only=True):
    """Which prices to show: those of `model` at each upstream, or those of which the name or the
    upstream has the text `search`."""

    model: str | None = None
    search: str | None = None
    limit: PageSize = PAGE


class PricesNow(Struct, frozen=True, kw_only=True):
    """The prices that are used, with their version and sources."""

    version: str
    sources: tuple[Source, ...]
    rows: tuple[ListedPrice, ...] | UnsetType = UNSET
    total: int | UnsetType = UNSET
    prices: dict[str, list[PriceView]] | UnsetType = UNSET


@operation("health.show", "viewer", Http("GET", "health"))
async def _health(call: Call, _: Nothing) -> Health:
    """Show how the gateway is."""
    gateway, scrape = call.gateway, call.gateway.observed.scrape
    gauges = (await scrape.counts()).gauges
    upstreams = await scrape.by_upstream()
    sync, away = gateway.sync, scrape.limits_away
    return Health(
        version=dragoman.__version__,
        workers=int(gauges["workers"]),
        configurations=scrape.configurations(),
        in_flight=int(gauges["in_flight"]),
        queue_length=int(gauges["queue_length"]),
        limits="own" if away is None else "away" if away() else "shared",
        store="none" if sync is None else "working" if sync.working else "failing",
        usable=gateway.bench.upstreams.pool.usable(),
        accounts={name: one.states for name, one in upstreams.items()},
        trials={name: one.trials for name, one in upstreams.items()},
        back_at={name: one.back_at for name, one in upstreams.items()},
        resting={name: one.resting for name, one in upstreams.items() if one.resting},
        unpriced_budgets=_unpriced(gateway),
    )


def _unpriced(gateway: Gateway) -> list[UnpricedBudget]:
    models = unpriced_models(gateway.config, gateway.prices, time.time())
    if not models:
        return []
    teams = {one.team: one.team_limits for one in gateway.keys.ring.callers() if one.team}
    owners = chain(
        (Owner(one.name, one.limits) for one in gateway.keys.ring.callers()),
        (Owner(name, limits, is_team=True) for name, limits in teams.items()),
    )
    return list(islice(unpriced_budgets(models, owners, gateway.prices), _MOST_UNPRICED))


@operation(
    "prices.show", "viewer", Http("GET", "prices"), command=Command("prices show", is_own=True)
)
async def _prices(call: Call, asked: AskPrices) -> PricesNow:
    """Show what a model costs at each upstream."""
    prices = call.gateway.prices
    rows: tuple[ListedPrice, ...] | UnsetType = UNSET
    total: int | UnsetType = UNSET
    of_model: dict[str, list[PriceView]] | UnsetType = UNSET
    if asked.search is not None:
        found = await asyncio.to_thread(found_prices, prices, asked.search, asked.limit)
        rows, total = found.rows, found.total
    if asked.model is not None:
        of_model = {
            upstream: list(price_views(listed.prices(asked.model)))
            for upstream, listed in prices.lists.items()
        }
    return PricesNow(
        version=prices.version, sources=prices.sources, rows=rows, total=total, prices=of_model
    )


OPERATIONS = operations_in(globals())
