"""Accounts that are paid by subscription: what their answers would have cost is told and marked,
and counts at those budgets that want it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Config, Fallback, Pricing, Route
from dragoman.config.limits import Limit
from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.limited import ask, config, limit, serving, told

IGNORING = limit("cost", "0.5", "month", subscriptions="ignore")
COUNTING = limit("cost", "100", "month")


def with_subscription(base_url: str, *limits: Limit, store: str = "") -> Config:
    """Accounts of `chat` are paid by subscription."""
    made = config(base_url, *limits, store=store)
    upstreams = [
        replace(one, billing="subscription" if one.name == "chat" else "tokens")
        for one in made.upstreams
    ]
    sure = Fallback(upstream="messages", model="sim-text")
    routes = (
        Route(match="safe", upstream="chat", model="sim-429", fallbacks=(sure,)),
        *made.routes,
    )
    return replace(made, upstreams=tuple(upstreams), routes=routes)


def answered(lines: list[Any]) -> Any:
    """The log's line of the latest answer."""
    return [line for line in lines if "usage" in line][-1]


def test_a_budget_can_be_without_subscriptions(simulator: RunningSimulator, tmp_path: Path) -> None:
    made = with_subscription(
        simulator.base_url, IGNORING, COUNTING, store=str(tmp_path / "kept.db")
    )
    with serving(made) as (gateway, lines):
        assert ask(gateway, model="chat/sim-text", max_tokens=900).status == 200
        first, whole = (float(one["used"]) for one in told(gateway)["limits"])
        assert first == 0 < whole
        assert answered(lines)["subscription"] is True
        assert float(answered(lines)["cost_usd"]) == whole
        paid = ask(gateway, model="messages/sim-text", max_tokens=100)
        assert paid.status == 200
        used = [float(one["used"]) for one in told(gateway)["limits"]]
        assert "subscription" not in answered(lines)
        assert used == [float(answered(lines)["cost_usd"]), pytest.approx(whole + used[0])]
        # What is left would not do for an account that is paid by the token.
        assert ask(gateway, model="messages/sim-text", max_tokens=900).status == 429
        assert ask(gateway, model="chat/sim-text", max_tokens=900).status == 200
        before = [one["used"] for one in told(gateway)["limits"]]
    # The same by the rows of usage.
    with serving(made) as (gateway, _):
        assert [one["used"] for one in told(gateway)["limits"]] == before


def test_what_is_told_to_be_left_is_what_a_budget_has_left(simulator: RunningSimulator) -> None:
    name = "x-dragoman-budget-remaining-usd"
    made = with_subscription(simulator.base_url, IGNORING)
    with serving(replace(made, pricing=Pricing(header=True))) as (gateway, _):
        for model in ("chat/sim-text", "messages/sim-text", "chat/sim-text"):
            answer = ask(gateway, model=model, max_tokens=100)
            assert float(answer.headers["x-dragoman-cost-usd"]) > 0
            assert answer.headers[name] == told(gateway)["limits"][0]["remaining"]


def test_a_fallback_that_is_paid_by_the_token_has_to_fit(simulator: RunningSimulator) -> None:
    with serving(with_subscription(simulator.base_url, IGNORING)) as (gateway, lines):
        assert ask(gateway, model="safe", max_tokens=900).status == 429
        assert not simulator.requests, "no upstream was asked"
        assert ask(gateway, model="safe", max_tokens=100).status == 200
        (budget,) = told(gateway)["limits"]
        assert budget["reserved"] == "0"
        assert float(budget["used"]) == float(answered(lines)["cost_usd"]) > 0


def test_a_model_without_a_price_costs_nothing_where_it_is_not_counted(
    simulator: RunningSimulator,
) -> None:
    for limits, status in (((IGNORING,), 200), ((IGNORING, COUNTING), 403)):
        made = replace(with_subscription(simulator.base_url, *limits), prices=())
        with serving(made) as (gateway, _):
            assert ask(gateway, model="chat/sim-text").status == status
            assert ask(gateway, model="messages/sim-text").status == 403
