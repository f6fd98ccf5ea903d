"""Operations that show where a model's name leads, and why; and all routes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, Any

from msgspec import Meta, Struct

from dragoman.admin.call import Call
from dragoman.admin.gateway import Gateway
from dragoman.canonical.options import Capabilities, Extensible, Options
from dragoman.config import Condition, Config
from dragoman.config.checks import never_reached
from dragoman.operations.operation import Http, Nothing, operation, operations_in
from dragoman.operations.pricing import PriceView, price_views
from dragoman.protocols.settings import fields_of, setting
from dragoman.serving.routing import Target, may_use

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
    """Where a model's name leads. `name` is what it was looked up as: itself, or what it stands
    for. Without `route` the name itself names the upstream. `destinations` are tried in order;
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
    """A route of the configuration. `reached_before` is the number of the route that matches all
    its names first, so that this one is never reached."""

    match: str
    upstream: str
    model: str | None
    fallbacks: tuple[str, ...]
    policy: str
    when: Condition | None
    reached_before: int | None


class AskExplanation(Struct, frozen=True, kw_only=True):
    """The name of a model; with `key`, whether that key may ask for it."""

    model: Annotated[str, Meta(min_length=1, max_length=_LONGEST_NAME)]
    key: str | None = None


class RouteList(Struct, frozen=True):
    """The routes of the configuration in order, and the aliases."""

    routes: list[RouteView]
    aliases: dict[str, str]


@operation("routes.list", "viewer", Http("GET", "routes"))
async def _list(call: Call, _: Nothing) -> RouteList:
    """List the routes of the configuration, and the aliases."""
    config = call.gateway.config
    covered = never_reached(config.routes)
    routes = [
        RouteView(
            route.match,
            route.upstream,
            route.model,
            tuple(_with_model(entry.upstream, entry.model) for entry in route.fallbacks),
            str((route.policy or route.options.policy).value),
            route.when,
            covered[place] + 1 if place in covered else None,
        )
        for place, route in enumerate(config.routes)
    ]
    return RouteList(routes, dict(config.models.aliases))


@operation("routes.explain", "viewer", Http("GET", "explain"))
async def _explain(call: Call, asked: AskExplanation) -> Explanation:
    """Show where a model's name leads, and why."""
    gateway, model = call.gateway, asked.model
    router = gateway.bench.router
    if not router.knows(model):
        return Explanation(model, found=False)
    target = router.resolve(model)
    counts = await gateway.observed.scrape.accounts()
    detour = target.detour
    return Explanation(
        model,
        found=True,
        name=target.name,
        route=_matched(gateway.config, target),
        policy=str(target.options.policy.value),
        destinations=_destinations(gateway, target, counts),
        with_tools_and_thinking=() if detour is None else _destinations(gateway, detour, counts),
        options=tuple(_options(gateway.config, target)),
        capabilities=tuple(_capabilities(gateway.config, target)),
        permission=None if asked.key is None else _permission(gateway, asked.key, model, target),
    )


def _matched(config: Config, target: Target) -> MatchedRoute | None:
    if target.route is None:
        return None
    return MatchedRoute(config.routes[target.route].match, target.route + 1)


def _destinations(
    gateway: Gateway, target: Target, counts: Mapping[tuple[str, str], int]
) -> tuple[Destination, ...]:
    return tuple(_destination(gateway, one, counts) for one in (target, *target.fallbacks))


def _destination(
    gateway: Gateway, target: Target, counts: Mapping[tuple[str, str], int]
) -> Destination:
    name = target.upstream.name
    listed = gateway.prices.lists.get(name)
    return Destination(
        upstream=name,
        protocol=target.upstream.protocol,
        model=target.model,
        usable=counts.get((name, "active"), 0),
        accounts=sum(count for (upstream, _), count in counts.items() if upstream == name),
        prices=() if listed is None else tuple(price_views(listed.prices(target.model))),
    )


def _options(config: Config, target: Target) -> Iterator[Setting]:
    bases: list[tuple[str, Extensible]] = [("options", config.options)]
    return _settings(Options, target.options, bases, "route")


def _capabilities(config: Config, target: Target) -> Iterator[Setting]:
    bases: list[tuple[str, Extensible]] = [("upstream", target.upstream.capabilities)]
    matched = _matched(config, target)
    route = None if matched is None else config.routes[matched.number - 1]
    if route is not None and route.capabilities is not None:
        bases.append(("route", route.capabilities))
    return _settings(Capabilities, target.capabilities, bases, "known")


def _permission(gateway: Gateway, key: str, model: str, target: Target) -> Permission:
    caller = gateway.keys.ring.caller(key)
    if caller is None:
        return Permission(key, False, "There is no such key, or it cannot be used.")
    denials = caller.denials(time.time(), None)
    if denials:
        return Permission(key, False, f"The key {denials[0].value}.")
    if not caller.may_reach(target.upstream.name):
        return Permission(key, False, f"It may not reach the upstream {target.upstream.name}.")
    if caller.denies(model, target.name, target.model):
        return Permission(key, False, "It may not ask for that model, or its team may not.")
    if not may_use(caller, model, target):
        name = target.name if target.stands_in or caller.allows(model) else model
        return Permission(key, False, f"Its models, or its team's, do not have {name}.")
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


OPERATIONS = operations_in(globals())
