"""The models that a caller may use, as agents are shown them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final

from dragoman.agents.claude_code import (
    BUILT_IN,
    mcp_settings,
    settings_of,
    telemetry_settings,
)
from dragoman.agents.models import ShownModel
from dragoman.config import Config, Route
from dragoman.config.access_rules import SignInRule
from dragoman.config.mcp import PATH
from dragoman.config.names import ALIASES
from dragoman.keys.ring import Caller
from dragoman.prices.loading import load_prices
from dragoman.prices.lookup import Prices
from dragoman.protocols.fields import JsonObject
from dragoman.serving.routing import Router, Target, may_use

_CLAUDE: Final = "claude"
"""What the names of Anthropic's models have in them, wherever they are served."""
_PLAINEST: Final = "claude-sonnet-4-5"
"""The model for which Claude Code sends requests that any other can follow."""

_USUAL_EFFORTS: Final = ("low", "medium", "high")


class OfferedModels:
    """The models that a configuration has by name: those of its routes without a pattern, and of
    its own aliases."""

    def __init__(self, config: Config, router: Router, prices: Prices) -> None:
        self._config = config
        self._router = router
        self._prices = prices

    def to(self, caller: Caller, now: float) -> list[ShownModel]:
        """Those that a caller may use, with the prices of `now` (Unix seconds)."""
        return self._shown(self._names(), caller, now)

    def settings_of(self, caller: Caller, rule: SignInRule | None, now: float) -> JsonObject | None:
        """The managed settings of a caller who has signed in by `rule` (None: by a key), with the
        prices of `now`; None if there are none."""
        written = [self._config.managed_settings, None if rule is None else rule.managed_settings]
        layers = [one for one in written if one is not None]
        if not layers:
            return None
        layers = [*self._of_gateway(caller.team), *layers]
        return settings_of(layers, self.to(caller, now), self._shown(BUILT_IN, caller, now))

    def _of_gateway(self, team: str) -> Iterator[JsonObject]:
        """Settings that lead agents to what else the gateway has."""
        sign_in = self._config.sign_in
        if sign_in is not None:
            public_url = sign_in.public_url.rstrip("/")
            if public_url.startswith("https://"):  # Claude Code warns of others and leaves them out
                servers = [one for one in self._config.mcp_servers if one.tools_of(team)]
                yield mcp_settings({one.name: f"{public_url}{PATH}{one.name}" for one in servers})
            if self._config.telemetry.forward_to is not None:
                yield telemetry_settings(public_url)

    def _names(self) -> Iterator[str]:
        yield from (route.match for route in self._config.routes if "*" not in route.match)
        for name, model in self._config.models.aliases.items():
            if "*" not in name and ALIASES.get(name) != model:
                yield name

    def _shown(self, names: Iterable[str], caller: Caller, now: float) -> list[ShownModel]:
        router = self._router
        targets = {name: router.resolve(name) for name in names if router.knows(name)}
        return [
            shown(name, router, self._prices, now)
            for name, target in targets.items()
            if not caller.restricted or may_use(caller, name, target)
        ]


def shown(name: str, router: Router, prices: Prices, now: float) -> ShownModel:
    """The model that the name `name` leads to."""
    target = router.resolve(name)
    route, capabilities = router.route_of(target), target.capabilities
    _, price = prices.quote(target.upstream.name, target.model, now).priced(None, 0)
    is_claude = _is_claude(target, route)
    behaves_as = target.model.rpartition("/")[2] if is_claude else _PLAINEST
    has_efforts = "efforts" in capabilities.given
    return ShownModel(
        name=name,
        label=(route.label if route and route.match == name else None) or name,
        description=route.description if route else "",
        behaves_as=(route and route.behaves_as) or (behaves_as if behaves_as != name else ""),
        context_window=capabilities.context_window,
        max_output=capabilities.max_output_tokens,
        images=capabilities.images,
        efforts=capabilities.efforts if has_efforts else _USUAL_EFFORTS,
        summarises=has_efforts or target.upstream.codec.endpoint.stores_responses,
        price=price,
        is_claude=is_claude,
    )


def _is_claude(target: Target, route: Route | None) -> bool:
    """Whether a model of Anthropic serves a target. A route for all names does not say so."""
    if route is None or route.model is not None:
        return _CLAUDE in target.model.lower()
    return _CLAUDE in route.match.lower()


def named_models(config: Config) -> list[ShownModel]:
    """The models that a configuration has by name, for a caller without rules."""
    offered = OfferedModels(config, Router(config), load_prices(config))
    return offered.to(Caller(""), time.time())


def offered_to(
    config: Config, prices: Prices, caller: Caller, rule: SignInRule
) -> tuple[tuple[str, ...], JsonObject | None]:
    """The names of the models that a person is offered who signs in by `rule`, and the managed
    settings."""
    offered, now = OfferedModels(config, Router(config), prices), time.time()
    names = tuple(one.name for one in offered.to(caller, now))
    return names, offered.settings_of(caller, rule, now)
