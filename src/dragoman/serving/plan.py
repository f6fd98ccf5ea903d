"""Plans: what a configuration decides of all requests of one caller for one model.

A request only looks its plan up. Plans belong to an exchange, so they go with its configuration.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.pool import AccountPool, LeaseRequest
from dragoman.accounts.upstream_pool import UpstreamPool
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import Policy
from dragoman.config import Upstream
from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.prices.lookup import Prices, Quote
from dragoman.protocols.dialects import DIALECTS
from dragoman.protocols.purposes import Purpose
from dragoman.protocols.settings import with_settings
from dragoman.serving.routing import (
    Held,
    Router,
    Target,
    check_allowed,
    may_choose,
    within_reach,
)
from dragoman.translation import CallSettings

POLICY = b"x-dragoman-policy"
"""Header that names the policy of a request."""

_MOST_PLANS = 4096
"""Plans in memory. Clients choose the names of models; once there are so many, all are made
anew."""


_Key = tuple[Caller, str, Held]


class Plan(Struct, frozen=True, eq=False):
    """Where a caller's requests for one model go, and how.

    `settings` are those of the translation, the caller's dialect and policy included. `wanted` is
    the lease that a request without a conversation asks `accounts`, those of the upstream, for.
    `quote` is that of the target's model among all `prices`.
    `fallbacks` are tried in order when no account could answer; `detour` leads elsewhere with
    requests that have tools and ask the model to think. `is_bounded`: an attempt has a time limit
    besides that of its call, because there is something else to try. `shows_cost`: a header
    has the cost of the answer. `binds_ids`: requests may name what one account of the upstream
    has for one client, such as files. `only` is the name of that account, once it is known: no
    other is asked; empty for any.
    `held` are the routes whose conditions hold for its requests.
    """

    target: Target
    upstream: Upstream
    settings: CallSettings
    accounts: UpstreamPool
    wanted: LeaseRequest
    prices: Prices
    quote: Quote
    fallbacks: tuple[Plan, ...]
    detour: Target | None
    is_bounded: bool
    shows_cost: bool
    binds_ids: bool
    held: Held
    only: str = ""

    def settings_for(self, incoming: IncomingRequest) -> CallSettings:
        """How to translate a request. Its own policy overrides that of the caller, which overrides
        that of the route.

        Raises:
            InvalidRequest: the request asks for a policy that does not exist.
        """
        wanted = incoming.headers.get(POLICY)
        return self.settings if wanted is None else with_policy(self.settings, _policy(wanted))


class Plans:
    """The plans of one configuration, made when they are first needed."""

    __slots__ = (
        "_detoured",
        "_holding",
        "_made",
        "_pool",
        "_prices",
        "_router",
        "_shows_cost",
        "_without_model",
    )

    def __init__(
        self,
        router: Router,
        pool: AccountPool,
        prices: Prices,
        *,
        shows_cost: bool,
        holding: Collection[str] = (),
    ) -> None:
        """`holding` are the names of the upstreams that hold things of clients."""
        self._holding = frozenset(holding)
        self._router = router
        self._pool = pool
        self._prices = prices
        self._shows_cost = shows_cost
        self._made: dict[_Key, Plan] = {}
        self._detoured: dict[_Key, Plan] = {}
        self._without_model: dict[tuple[Caller, str], Plan] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._made) + len(self._detoured)

    def of(self, caller: Caller, model: str, purpose: Purpose | None = None) -> Plan:
        """The plan of a caller's requests for a model, with this purpose.

        Raises:
            DragomanError: MODEL_NOT_FOUND: there is none, or the caller may not use it.
        """
        router = self._router
        held = router.held(purpose) if router.conditional else ()
        found = self._made.get((caller, model, held))
        if found is None:
            target = self._target(caller, model, held)
            if caller.restricted:
                check_allowed(caller, model, target)
            found = self._add(self._made, (caller, model, held), target)
        return found

    def without_model(self, caller: Caller, upstream: str) -> Plan:
        """The plan of a caller's requests to an upstream that name no model."""
        found = self._without_model.get((caller, upstream))
        if found is None:
            if len(self._without_model) >= _MOST_PLANS:
                self._without_model.clear()
            found = self._plan(caller, self._router.without_model(upstream), ())
            self._without_model[caller, upstream] = found
        return found

    def detoured(self, caller: Caller, model: str, plan: Plan) -> Plan:
        """The plan of those requests that take the detour of a plan.

        Raises:
            DragomanError: MODEL_NOT_FOUND: the caller may not use it.
        """
        assert plan.detour is not None
        key = caller, model, plan.held
        return self._detoured.get(key) or self._add(self._detoured, key, plan.detour)

    def _target(self, caller: Caller, model: str, held: Held) -> Target:
        """The target of a model. What a client says of a request chooses among what it may use
        anyway: routes with a condition that lead elsewhere are passed over.

        Raises:
            DragomanError: MODEL_NOT_FOUND.
        """
        while True:
            target = self._router.resolve(model, held)
            if target.route not in held or may_choose(caller, target):
                return target
            held = tuple([one for one in held if one != target.route])

    def _add(self, plans: dict[_Key, Plan], key: _Key, target: Target) -> Plan:
        caller, model, held = key
        if caller.restricted:
            target = within_reach(caller, model, target)
        plan = self._plan(caller, target, held)
        if len(plans) >= _MOST_PLANS:
            plans.clear()
        plans[key] = plan
        return plan

    def _plan(self, caller: Caller, target: Target, held: Held) -> Plan:
        upstream, settings = target.upstream, target.settings
        if caller.dialect is not None:
            options = with_settings(settings.options, DIALECTS[caller.dialect])
            settings = replace(settings, options=options)
        if caller.policy is not None:
            settings = with_policy(settings, caller.policy)
        within = upstream.attempts_within_s
        return Plan(
            target=target,
            upstream=upstream,
            settings=settings,
            accounts=self._pool.accounts_of(upstream.name),
            wanted=LeaseRequest(upstream.name, target.model),
            prices=self._prices,
            quote=self._prices.of(upstream.name, target.model),
            fallbacks=tuple(self._plan(caller, one, held) for one in target.fallbacks),
            detour=target.detour,
            is_bounded=bool(target.fallbacks or 0 < within <= target.longest_silence_s),
            shows_cost=self._shows_cost,
            binds_ids=upstream.name in self._holding,
            held=held,
        )


def with_policy(settings: CallSettings, policy: Policy) -> CallSettings:
    """The settings with another policy."""
    if policy is settings.options.policy:
        return settings
    return replace(settings, options=replace(settings.options, policy=policy))


def _policy(wanted: bytes) -> Policy:
    """The policy that a request asks for by `x-dragoman-policy`.

    Raises:
        InvalidRequest: there is no such policy.
    """
    try:
        return Policy(wanted.decode("latin-1").strip().lower())
    except ValueError:
        problem = f"must be one of {', '.join(Policy)}"
        raise InvalidRequest.at("x-dragoman-policy", problem) from None
