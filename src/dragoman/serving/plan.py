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
from dragoman.prices.lookup import Prices
from dragoman.protocols.dialects import DIALECTS
from dragoman.protocols.settings import with_settings
from dragoman.serving.routing import Router, Target, check_allowed, within_reach
from dragoman.translation import CallSettings

POLICY = b"x-dragoman-policy"
"""Header that names the policy of a request."""

_MOST_PLANS = 4096
"""Plans in memory. Clients choose the names of models; once there are so many, all are made
anew."""


class Plan(Struct, frozen=True, eq=False):
    """Where a caller's requests for one model go, and how.

    `settings` are those of the translation, the caller's dialect and policy included. `wanted` is
    the lease that a request without a conversation asks `accounts`, those of the upstream, for.
    `fallbacks` are tried in order when no account could answer; `detour` leads elsewhere with
    requests that have tools and ask the model to think. `is_bounded`: an attempt has a time limit
    besides that of its call, because there is something else to try. `shows_cost`: a header
    has the cost of the answer. `binds_ids`: requests may name what one account of the upstream
    has for one client, such as files. `only` is the name of that account, once it is known: no
    other is asked; empty for any.
    """

    target: Target
    upstream: Upstream
    settings: CallSettings
    accounts: UpstreamPool
    wanted: LeaseRequest
    prices: Prices
    fallbacks: tuple[Plan, ...]
    detour: Target | None
    is_bounded: bool
    shows_cost: bool
    binds_ids: bool
    only: str = ""

    def settings_for(self, incoming: IncomingRequest) -> CallSettings:
        """How to translate a request. Its own policy overrides that of the caller, which overrides
        that of the route.

        Raises:
            InvalidRequest: the request asks for a policy that does not exist.
        """
        wanted = incoming.headers.get(POLICY)
        return self.settings if wanted is None else _with_policy(self.settings, _policy(wanted))


class Plans:
    """The plans of one configuration, made when they are first needed."""

    __slots__ = (
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
        self._made: dict[tuple[Caller, str, bool], Plan] = {}
        self._without_model: dict[tuple[Caller, str], Plan] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._made)

    def of(self, caller: Caller, model: str) -> Plan:
        """The plan of a caller's requests for a model.

        Raises:
            DragomanError: MODEL_NOT_FOUND: there is none, or the caller may not use it.
        """
        found = self._made.get((caller, model, False))
        if found is None:
            target = self._router.resolve(model)
            if caller.restricted:
                check_allowed(caller, model, target)
            found = self._add(caller, model, target, is_detour=False)
        return found

    def without_model(self, caller: Caller, upstream: str) -> Plan:
        """The plan of a caller's requests to an upstream that name no model."""
        found = self._without_model.get((caller, upstream))
        if found is None:
            if len(self._without_model) >= _MOST_PLANS:
                self._without_model.clear()
            found = self._plan(caller, self._router.without_model(upstream))
            self._without_model[caller, upstream] = found
        return found

    def detoured(self, caller: Caller, model: str, detour: Target) -> Plan:
        """The plan of those that take the `detour` of a plan.

        Raises:
            DragomanError: MODEL_NOT_FOUND: the caller may not use it.
        """
        found = self._made.get((caller, model, True))
        return found or self._add(caller, model, detour, is_detour=True)

    def _add(self, caller: Caller, model: str, target: Target, *, is_detour: bool) -> Plan:
        if caller.restricted:
            target = within_reach(caller, model, target)
        plan = self._plan(caller, target)
        if len(self._made) >= _MOST_PLANS:
            self._made.clear()
        self._made[caller, model, is_detour] = plan
        return plan

    def _plan(self, caller: Caller, target: Target) -> Plan:
        upstream, settings = target.upstream, target.settings
        if caller.dialect is not None:
            options = with_settings(settings.options, DIALECTS[caller.dialect])
            settings = replace(settings, options=options)
        if caller.policy is not None:
            settings = _with_policy(settings, caller.policy)
        within = upstream.attempts_within_s
        return Plan(
            target=target,
            upstream=upstream,
            settings=settings,
            accounts=self._pool.accounts_of(upstream.name),
            wanted=LeaseRequest(upstream.name, target.model),
            prices=self._prices,
            fallbacks=tuple(self._plan(caller, one) for one in target.fallbacks),
            detour=target.detour,
            is_bounded=bool(target.fallbacks or 0 < within <= target.longest_silence_s),
            shows_cost=self._shows_cost,
            binds_ids=upstream.name in self._holding,
        )


def _with_policy(settings: CallSettings, policy: Policy) -> CallSettings:
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
