"""Resolves model names: to an upstream, its name of the model, and the settings for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agents.claude_code import BUILT_IN
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.canonical.options import Capabilities, Options
from dragoman.config import Config, EndpointName, Fallback, Route, Upstream, matches
from dragoman.config.names import AUXILIARY
from dragoman.edge.auth import Caller
from dragoman.keys.ring import ModelList
from dragoman.protocols.presets import completed
from dragoman.protocols.purposes import Purpose
from dragoman.translation import CallSettings, ClientRequest

_REMEMBERED = 4096
"""Model names whose resolution is remembered."""


class Target(Struct, frozen=True):
    """An upstream, its own name of the model, and how to translate for it.

    `headers` replace those of the upstream, None if they are the same. `fallbacks` are tried in
    order when no account could answer; they have no fallbacks of their own. `detour` is the target
    of requests that have tools and ask the model to think, if that is another one or has other
    fallbacks.

    `name` is the name that led here: the one sent, or what it stands for; empty in fallbacks and
    detours. `route` is the place of the route that led here, None in these and if none did;
    `addressed`: the name is `upstream/model`, which no route matches.
    `longest_silence_s` is that of the upstream's time limits. `takes_longer`: as a fallback, it is
    also asked with conversations that were too long. `endpoints` are those that its route allows
    beside that of the protocol, None for any. `stands_in`: the name that was sent is one of a
    pattern of aliases, and who may use the model in its place may use it by that name.
    """

    upstream: Upstream
    model: str
    settings: CallSettings
    headers: Mapping[str, str] | None = None
    detour: Target | None = None
    fallbacks: tuple[Target, ...] = ()
    name: str = ""
    route: int | None = None
    addressed: bool = False
    longest_silence_s: float = inf
    takes_longer: bool = False
    endpoints: tuple[EndpointName, ...] | None = None
    stands_in: bool = False

    @property
    def options(self) -> Options:
        """What the route chose."""
        return self.settings.options

    @property
    def capabilities(self) -> Capabilities:
        """What the upstream can do."""
        return self.settings.capabilities


Held = tuple[int, ...]
"""The places of those routes with a condition whose condition holds for a request."""


class Router:
    """Resolves model names by the routes of a configuration.

    A name is tried as it was sent, then as what it stands for (aliases, retired names, missing
    provider prefixes, and last aliases with a pattern). Routes come first, and the first match
    wins; a name `upstream/model` that no route matches goes to that upstream. `sealer` seals the
    reasoning state that travels through clients.
    """

    def __init__(self, config: Config, sealer: Sealer = Sealer()) -> None:  # noqa: B008 -- frozen
        self._sealer = sealer
        self._upstreams = {upstream.name: upstream for upstream in config.upstreams}
        self._routes = tuple((route, _options(route)) for route in config.routes)
        self.conditional = tuple(
            [place for place, route in enumerate(config.routes) if route.when is not None]
        )
        """The places of routes with a condition."""
        self._usual = self.held(None)
        self._models = config.models
        self._options = config.options
        self._patterns = tuple(
            [(name, to) for name, to in config.models.aliases.items() if "*" in name]
        )
        self._cached = lru_cache(maxsize=_REMEMBERED)(self._resolve)

    def held(self, purpose: Purpose | None) -> Held:
        """The routes with a condition that are for requests with this purpose, None where a client
        says nothing of it."""
        found = purpose or _UNSAID
        return tuple([one for one in self.conditional if _holds(self._routes[one][0], found)])

    def resolve(self, name: str, held: Held | None = None) -> Target:
        """The target of `name`, for requests of which the conditions of the routes `held` hold;
        None: those of a client that says nothing of its purpose.

        Raises:
            DragomanError: MODEL_NOT_FOUND.
        """
        target = self._cached(name, self._usual if held is None else held)
        if target is None:
            raise model_not_found(name)
        return target

    def without_model(self, upstream: str) -> Target:
        """The target of requests to an upstream that name no model."""
        return self._target(self._upstreams[upstream], "", self._options)

    def knows(self, name: str) -> bool:
        """Whether `name` has a target."""
        return self._cached(name, self._usual) is not None

    def route_of(self, target: Target) -> Route | None:
        """The route that led to a target; None if none did."""
        return None if target.route is None else self._routes[target.route][0]

    def _resolve(self, name: str, held: Held) -> Target | None:
        target = self._found(name, held)
        if target is not None:
            return target
        named = next((model for pattern, model in self._patterns if matches(pattern, name)), name)
        target = None if named == name else self._found(named, held)
        return None if target is None else replace(target, stands_in=True)

    def _found(self, name: str, held: Held) -> Target | None:
        for candidate in self._spellings(name):
            target = self._routed(candidate, held)
            if target is not None:
                return replace(target, name=candidate)
            target = self._prefixed(candidate)
            if target is not None:
                return replace(target, name=candidate, addressed=True)
        return None

    def _spellings(self, name: str) -> list[str]:
        """`name` and what it may stand for, in the order in which they are tried."""
        spellings = [name]
        models = self._models
        tables = (models.aliases, models.legacy)
        spellings += [table[name] for table in tables if name in table]
        for pattern, prefix in models.prefixes.items():
            if matches(pattern, name):
                spellings.append(prefix + name)
                break
        # A provider's prefix that matches nothing is left out.
        spellings += [name.partition("/")[2] for name in spellings if "/" in name]
        return [name for name in dict.fromkeys(spellings) if name]

    def _routed(self, name: str, held: Held) -> Target | None:
        for place, (route, options) in enumerate(self._routes):
            if (route.when is None or place in held) and matches(route.match, name):
                upstream = self._upstreams[route.upstream]
                model = route.model or name
                fallbacks = tuple(
                    self._fallback(entry, model, options) for entry in route.fallbacks
                )
                target = self._target(upstream, model, options, route.capabilities, fallbacks)
                endpoints = target.endpoints if route.endpoints is None else route.endpoints
                return replace(target, route=place, endpoints=endpoints)
        return None

    def _fallback(self, fallback: Fallback, model: str, options: Options) -> Target:
        upstream = self._upstreams[fallback.upstream]
        target = self._target(upstream, fallback.model or model, options)
        return replace(target, takes_longer=True) if fallback.when_too_long else target

    def _prefixed(self, name: str) -> Target | None:
        prefix, slash, model = name.partition("/")
        upstream = self._upstreams.get(prefix)
        if not slash or not model or upstream is None:
            return None
        return self._target(upstream, model, self._options)

    def _target(
        self,
        upstream: Upstream,
        model: str,
        options: Options,
        capabilities: Capabilities | None = None,
        fallbacks: tuple[Target, ...] = (),
    ) -> Target:
        """A target; `capabilities`, if given, replace the upstream's. The fallbacks of its detour
        are the detours of its own, or these themselves where they have none."""
        target = self._direct(upstream, model, options, capabilities, fallbacks)
        around = tuple(one.detour or one for one in fallbacks)
        via = upstream.reasoning_with_tools_via
        if via is not None:
            detour = self._direct(self._upstreams[via], model, options, None, around)
        elif any(one.detour for one in fallbacks):
            detour = replace(target, fallbacks=around)
        else:
            return target
        return replace(target, detour=detour)

    def _direct(
        self,
        upstream: Upstream,
        model: str,
        options: Options,
        capabilities: Capabilities | None,
        fallbacks: tuple[Target, ...],
    ) -> Target:
        endpoint = upstream.endpoint
        chosen = capabilities or upstream.capabilities
        capabilities = completed(
            chosen, upstream.protocol, upstream.base_url, model, upstream.service
        )
        settings = CallSettings(
            model=model,
            options=options,
            capabilities=capabilities,
            sealer=self._sealer,
            service=upstream.service,
        )
        own = endpoint.headers(capabilities)
        headers = None if own == endpoint.headers(upstream.capabilities) else own
        return Target(
            upstream,
            model,
            settings,
            headers,
            fallbacks=fallbacks,
            longest_silence_s=upstream.timeouts.longest_silence_s,
        )


def may_use(caller: Caller, name: str, target: Target) -> bool:
    """Whether a client may ask for the model `name`, which leads to `target`.

    Its lists, its own and its team's, must have the name, and what it stands for: the name that an
    alias or a prefix left out or added leads to, and the model of `upstream/model`. What an entry
    without `*` leads to is allowed with it; so is the model that a route of the configuration sets.
    None of these names may be denied.
    """
    if not caller.may_reach(target.upstream.name) or caller.denies(name, *_names_of(target)):
        return False
    if target.stands_in:
        name = target.name
    return all(_allowed_by(models, name, target) for models in caller.lists)


def may_choose(caller: Caller, target: Target) -> bool:
    """Whether a client may be led to a target by what it says of its requests: it could ask for
    that model by its own name."""
    _, model, addressed = _names_of(target)
    return _is_within_reach(caller, target) and all(
        models.allows(model) or models.allows(addressed) for models in caller.lists
    )


def _names_of(target: Target) -> tuple[str, str, str]:
    """What the model of a target is called: here, by its upstream, and with that before it."""
    return target.name, target.model, f"{target.upstream.name}/{target.model}"


def _allowed_by(models: ModelList, name: str, target: Target) -> bool:
    if not models.allows(name):
        return False
    if models.names(name):
        return True
    if name != target.name and not models.allows(target.name):
        return False
    return not target.addressed or models.allows_below(target.name, target.model)


def check_allowed(caller: Caller, name: str, target: Target) -> None:
    """Make sure that a client may ask for the model `name`, which leads to `target`.

    Raises:
        DragomanError: MODEL_NOT_FOUND.
    """
    if not may_use(caller, name, target):
        raise model_not_found(name)


def within_reach(caller: Caller, name: str, target: Target) -> Target:
    """The target of the model `name` with those of its fallbacks that the client may use.

    Raises:
        DragomanError: MODEL_NOT_FOUND: it is itself none that the client may use.
    """
    if not _is_within_reach(caller, target):
        raise model_not_found(name)
    fallbacks = tuple(one for one in target.fallbacks if _is_within_reach(caller, one))
    return target if fallbacks == target.fallbacks else replace(target, fallbacks=fallbacks)


def _is_within_reach(caller: Caller, target: Target) -> bool:
    return caller.may_reach(target.upstream.name) and not caller.denies(*_names_of(target))


def takes_detour(target: Target, asked: ClientRequest, *, tools_alone: bool = False) -> bool:
    """Whether a request goes to the target's detour: it has tools and asks the model to think, or
    it has tools that the target never takes, which `tools_alone` says, too.

    Raises:
        InvalidRequest: the request is malformed, where it had to be read.
    """
    if target.detour is None:
        return False
    request = asked.read(target.settings.sealer)
    if tools_alone or not target.capabilities.tools_without_reasoning:
        return bool(request.tools)
    thinking = request.thinking
    if not request.tools or thinking is None or thinking.mode == "disabled":
        return False
    return thinking.effort != "none"


def model_not_found(name: str) -> DragomanError:
    """The error for a model that does not exist, or that the client may not use."""
    message = f"The model {name[:200]!r} does not exist or you do not have access to it."
    is_auxiliary = matches(AUXILIARY, name)
    if name in BUILT_IN or is_auxiliary:
        message += (
            " Claude Code asks for it by itself: in the configuration, the alias"
            f' "{AUXILIARY if is_auxiliary else "claude-*"}" in [models] aliases leads it to a'
            " model of yours."
        )
    return DragomanError(
        Fault(
            FaultKind.MODEL_NOT_FOUND,
            message,
            param="model",
            code="model_not_found",
        )
    )


_UNSAID = Purpose("main")


def _holds(route: Route, purpose: Purpose) -> bool:
    """Whether the condition of a route holds for requests with this purpose."""
    when = route.when
    if when is None:
        return True
    if when.request_class not in (None, purpose.request_class):
        return False
    return when.agent_type is None or matches(when.agent_type, purpose.agent_type)


def _options(route: Route) -> Options:
    return route.options if route.policy is None else replace(route.options, policy=route.policy)
