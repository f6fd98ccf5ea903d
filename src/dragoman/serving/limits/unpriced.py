"""Budgets that refuse every request for a model, since that has no price."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct

from dragoman.config import Config
from dragoman.config.limits import Limit
from dragoman.limits.rules import Rule
from dragoman.prices.lookup import Prices


class UnpricedModel(Struct, frozen=True):
    """A model without a price to which a route of the configuration leads: the name that is asked
    for, the upstream and its name of the model."""

    name: str
    upstream: str
    model: str


class Owner(Struct, frozen=True):
    """A key or a team, and its limits."""

    name: str
    limits: Iterable[Limit]
    is_team: bool = False


class UnpricedBudget(Struct, frozen=True):
    """A key or a team with a budget, and a model that it cannot use."""

    scope: str
    owner: str
    model: str
    upstream: str

    def __str__(self) -> str:
        return (
            f"the {self.scope} {self.owner} has a budget, and the model {self.model} of"
            f" {self.upstream} has no price: requests for it are refused. Set a price, or"
            ' unpriced = "allow"'
        )


def unpriced_models(config: Config, prices: Prices, now: float) -> Sequence[UnpricedModel]:
    """The models without a price at `now` (Unix seconds) that routes name; those of patterns are
    not known."""
    found = []
    for route in config.routes:
        model = route.model or route.match
        if "*" not in model and prices.quote(route.upstream, model, now).priced(None, 0)[1] is None:
            found.append(UnpricedModel(route.match, route.upstream, model))
    return found


def unpriced_budgets(
    models: Sequence[UnpricedModel], owners: Iterable[Owner], prices: Prices
) -> Iterator[UnpricedBudget]:
    """Which of these owners cannot use which of these models."""
    for owner in owners if models else ():
        rules = [Rule(one, owner.name, is_team=owner.is_team) for one in owner.limits]
        rules = [one for one in rules if one.refuses_unpriced]
        for model in models if rules else ():
            billed = model.upstream not in prices.subscriptions
            if any(
                one.concerns((model.name, model.model)) and (billed or one.counts_subscriptions)
                for one in rules
            ):
                scope = "team" if owner.is_team else "key"
                yield UnpricedBudget(scope, owner.name, model.name, model.upstream)


def owners_in(config: Config) -> Iterator[Owner]:
    """The keys and teams of a configuration."""
    keys = (Owner(one.name, one.limits) for one in config.clients)
    return chain(keys, (Owner(one.name, one.limits, True) for one in config.teams))
