"""Which models metrics tell apart. Clients choose the names of models where a pattern leads to an
upstream, so that only those count that somebody else has written down.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.config import Config
from dragoman.prices.lookup import Prices


def listed_models(config: Config, prices: Prices) -> Callable[[str, str], bool]:
    """A function that tells whether the model of an upstream is spelled out: in a route, a
    fallback, an alias or a price of the configuration, or in the upstream's table of prices."""
    names = {
        name
        for route in config.routes
        for name in (route.match, route.model, *(one.model for one in route.fallbacks))
        if name is not None
    }
    names.update(config.models.aliases.values(), config.models.legacy.values())
    names.update(price.model for price in config.prices)

    def is_listed(upstream: str, model: str) -> bool:
        if model in names:
            return "*" not in model
        return upstream in prices.lists and prices.lists[upstream].spells_out(model)

    return is_listed
