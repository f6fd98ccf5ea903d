"""The models that metrics count separately. Clients choose the names of models where a pattern
leads to an upstream, so only names that an operator or a price table has written down count.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.config import Config
from dragoman.observability.metrics.counts import OTHER
from dragoman.prices.lookup import Prices


def listed_models(config: Config, prices: Prices) -> Callable[[str, str], str]:
    """A function of an upstream and its model that returns the name to count it under: its
    own name if a route, a fallback or an alias of the configuration spells it out, else the
    name or pattern under which its price stands, else `OTHER`."""
    names = {
        name
        for route in config.routes
        for name in (route.match, route.model, *(one.model for one in route.fallbacks))
        if name is not None and "*" not in name
    }
    names.update(config.models.aliases.values(), config.models.legacy.values())

    def listed(upstream: str, model: str) -> str:
        name = model if model in names else ""
        if not name and upstream in prices.lists:
            name = prices.lists[upstream].listed_as(model)
        return name if name and " " not in name else OTHER

    return listed
