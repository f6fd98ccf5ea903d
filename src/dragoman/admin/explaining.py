"""`/admin/explain`: where a model's name leads, and why; `/admin/routes`: all routes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct

from dragoman.admin.calls import AdminRoute, Call, Reply, bad, only
from dragoman.canonical.options import Capabilities, Extensible, Options
from dragoman.config import Config, Route, Upstream, matches
from dragoman.keys.ring import KeyRing
from dragoman.operations.pricing import PriceView, price_views
from dragoman.prices.lookup import Prices
from dragoman.protocols.settings import fields_of, setting
from dragoman.serving.routing import Router, Target, may_use

AccountCounts = Callable[[], Awaitable[Mapping[tuple[str, str], int]]]
"""How many accounts there are, by upstream and state."""

_LONGEST_NAME = 200


class Setting(Struct, frozen=True):
    """A setting that is not at its default, and the table that set it: `options` or `upstream`,
    `route`, or `known` of what the gateway knows of the upstream's service."""

    name: str
    value: object
    origin: str


class Destination(Struct, frozen=True):
    """Where a request goes: an upstream and its name of the model; how many of its accounts could
    take it now, of how many; and what it costs there, nothing if no price is known."""

    upstream: str
    protocol: str
    model: str
    usable: int
    accounts: int
    prices: tuple[PriceView, ...]


class MatchedRoute(Struct, frozen=True):
    """The route that decided: the `number`th of the configuration, the first that fits."""

    match: str
    number: int


class Permission(Struct, frozen=True):
    """Whether a key may ask for the model, else why not."""

    key: str
    allowed: bool
    reason: str | None = None


class Explanation(Struct, frozen=True):
    """What becomes of a model's name. `name` is what it was looked up as: itself, or what it stands
    for. Without `route` the name itself says the upstream. `destinations` are tried in order;
    `with_tools_and_thinking` where requests go instead that have both."""

    model: str
    found: bool
    name: str = ""
    route: MatchedRoute | None = None
    policy: str = ""
    destinations: tuple[Destination, ...] = ()
    with_tools_and_thinking: tuple[Destination, ...] = ()
    options: tuple[Setting, ...] = ()
    capabilities: tuple[Setting, ...] = ()
    permission: Permission | None = None


class RouteView(Struct, frozen=True):
    """A route of the configuration."""

    match: str
    upstream: str
    model: str | None
    fallbacks: tuple[str, ...]
    policy: str


class ExplainRoutes:
    """What serves these paths for one configuration."""

    def __init__(
        self,
        config: Config,
        router: Router,
        prices: Prices,
        keys: KeyRing,
        accounts: AccountCounts,
    ) -> None:
        self._config = config
        self._router = router
        self._prices = prices
        self._keys = keys
        self._accounts = accounts

    def routes(self) -> list[AdminRoute]:
        """The routes."""
        return [
            AdminRoute("explain", {"GET": self._explain}),
            AdminRoute("routes", {"GET": self._list}),
        ]

    async def _list(self, call: Call) -> Reply:
        only(call.query)
        routes = [
            RouteView(
                route.match,
                route.upstream,
                route.model,
                tuple(_with_model(entry.upstream, entry.model) for entry in route.fallbacks),
                str((route.policy or route.options.policy).value),
            )
            for route in self._config.routes
        ]
        return 200, {"routes": routes, "aliases": dict(self._config.models.aliases)}

    async def _explain(self, call: Call) -> Reply:
        query = call.query
        only(query, "model", "key")
        model = query.get("model", "")
        if not 0 < len(model) <= _LONGEST_NAME:
            bad(f"Expected a name of at most {_LONGEST_NAME} characters.", "model")
        if not self._router.knows(model):
            return 200, Explanation(model, found=False)
        target = self._router.resolve(model)
        counts = await self._accounts()
        around = target.detour
        return 200, Explanation(
            model,
            found=True,
            name=target.name,
            route=self._matched(target),
            policy=str(target.options.policy.value),
            destinations=self._destinations(target, counts),
            with_tools_and_thinking=() if around is None else self._destinations(around, counts),
            options=tuple(self._options(target)),
            capabilities=tuple(self._capabilities(target)),
            permission=self._permission(query["key"], model, target) if "key" in query else None,
        )

    def _matched(self, target: Target) -> MatchedRoute | None:
        if target.addressed:
            return None
        return next(
            MatchedRoute(route.match, number)
            for number, route in enumerate(self._config.routes, 1)
            if matches(route.match, target.name)
        )

    def _destinations(
        self, target: Target, counts: Mapping[tuple[str, str], int]
    ) -> tuple[Destination, ...]:
        return tuple(self._destination(one, counts) for one in (target, *target.fallbacks))

    def _destination(self, target: Target, counts: Mapping[tuple[str, str], int]) -> Destination:
        name = target.upstream.name
        listed = self._prices.lists.get(name)
        return Destination(
            upstream=name,
            protocol=target.upstream.protocol,
            model=target.model,
            usable=counts.get((name, "active"), 0),
            accounts=sum(count for (upstream, _), count in counts.items() if upstream == name),
            prices=() if listed is None else tuple(price_views(listed.prices(target.model))),
        )

    def _route_of(self, target: Target) -> Route | None:
        matched = self._matched(target)
        return None if matched is None else self._config.routes[matched.number - 1]

    def _options(self, target: Target) -> Iterator[Setting]:
        bases: list[tuple[str, Extensible]] = [("options", self._config.options)]
        return _settings(Options, target.options, bases, "route")

    def _capabilities(self, target: Target) -> Iterator[Setting]:
        upstream: Upstream = target.upstream
        bases: list[tuple[str, Extensible]] = [("upstream", upstream.capabilities)]
        route = self._route_of(target)
        if route is not None and route.capabilities is not None:
            bases.append(("route", route.capabilities))
        return _settings(Capabilities, target.capabilities, bases, "known")

    def _permission(self, key: str, model: str, target: Target) -> Permission:
        caller = self._keys.caller(key)
        if caller is None:
            return Permission(key, False, "There is no such key, or it cannot be used.")
        denials = caller.denials(time.time(), None)
        if denials:
            return Permission(key, False, f"The key {denials[0].value}.")
        if not caller.may_reach(target.upstream.name):
            return Permission(key, False, f"It may not reach the upstream {target.upstream.name}.")
        if caller.denies(model, target.name, target.model):
            return Permission(key, False, "It may not ask for that model, or its team may not.")
        if not caller.allows(model) or not may_use(caller, model, target):
            told = model if not caller.allows(model) else target.name
            return Permission(key, False, f"Its models, or its team's, do not have {told}.")
        return Permission(key, True)


def _settings(
    kind: type[Extensible],
    used: Extensible,
    bases: list[tuple[str, Extensible]],
    otherwise: str,
) -> Iterator[Setting]:
    """The settings that are not at their defaults. What none of the tables in `bases` has comes
    from `otherwise`."""
    default = kind()
    for name in fields_of(kind):
        value = setting(used, name)
        if value == setting(default, name):
            continue
        origin = next((where for where, base in bases if setting(base, name) == value), otherwise)
        yield Setting(name, _plain(value), origin)


def _plain(value: Any) -> object:
    return value.value if isinstance(value, Enum) else value


def _with_model(upstream: str, model: str | None) -> str:
    return upstream if model is None else f"{upstream}/{model}"
