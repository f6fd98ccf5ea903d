"""Plans: what is decided once of all requests of a caller for a model."""

from __future__ import annotations

import pytest

from dragoman.accounts.pool import AccountPool
from dragoman.canonical.errors import DragomanError, FaultKind
from dragoman.canonical.losses import Policy
from dragoman.config import Account, Config, Fallback, Route, Upstream
from dragoman.config.access_rules import AccessRules
from dragoman.keys.ring import Caller
from dragoman.prices.lookup import Prices
from dragoman.serving.plan import Plans
from dragoman.serving.routing import Router

UPSTREAMS = tuple(
    Upstream(name=name, protocol="openai_chat", base_url=f"http://{name}", attempts_within_s=0.0)
    for name in ("a", "b")
)
CONFIG = Config(
    upstreams=UPSTREAMS,
    accounts=tuple(Account(name=one.name, upstream=one.name) for one in UPSTREAMS),
    routes=(
        Route(match="m", upstream="a", fallbacks=(Fallback(upstream="b", model="n"),)),
        Route(match="x-*", upstream="b"),
    ),
)


@pytest.fixture
def plans() -> Plans:
    return Plans(Router(CONFIG), AccountPool(CONFIG), Prices({}, ""), shows_cost=False)


def test_a_plan_is_made_once_for_each_caller_and_model(plans: Plans) -> None:
    """A key whose rules are changed is another caller."""
    one, other = Caller("one"), Caller("one", policy=Policy.STRICT)
    plan = plans.of(one, "m")
    assert plan is plans.of(one, "m")
    assert plan is not plans.of(other, "m")
    assert plans.of(other, "m").settings.options.policy is Policy.STRICT
    assert (plan.upstream.name, plan.target.model, plan.is_bounded) == ("a", "m", True)
    (fallback,) = plan.fallbacks
    assert (fallback.upstream.name, fallback.target.model) == ("b", "n")
    assert not plans.of(one, "x-1").is_bounded


def test_fallbacks_that_the_caller_may_not_use_are_in_no_plan(plans: Plans) -> None:
    caller = Caller("one", rules=(AccessRules(upstreams=("a",)),))
    assert not plans.of(caller, "m").fallbacks
    with pytest.raises(DragomanError) as refused:
        plans.of(caller, "x-1")
    assert refused.value.fault.kind is FaultKind.MODEL_NOT_FOUND


def test_names_that_clients_invent_do_not_pile_up(plans: Plans) -> None:
    caller = Caller("one")
    first = plans.of(caller, "x-0")
    for number in range(10_000):
        plans.of(caller, f"x-{number}")
        with pytest.raises(DragomanError):
            plans.of(caller, f"unknown-{number}")
    assert plans.count <= 4096
    assert plans.of(caller, "x-0") is not first
