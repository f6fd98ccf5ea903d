"""Counts of accounts by state, as `/admin/health` reports them by upstream."""

from __future__ import annotations

import time

from msgspec.structs import replace

from dragoman.config import Account, Admin, Client, OwnPrice, Route, Secret
from dragoman.config.limits import Limit
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.observability.metrics.scrape import UpstreamAccounts
from dragoman.operations.account_views import Status
from dragoman.server.testing import running_gateway
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY, call

TOKEN = "the-token-of-the-admin"


def test_accounts_on_trial_do_not_count_as_the_first_that_is_back() -> None:
    found = UpstreamAccounts({"active": 0, "cooling": 0, "exhausted": 0, "disabled": 0}, {}, {})
    for status in (
        Status(),
        Status(trial=True),
        Status("cooling", back_at=30.0),
        Status("cooling", back_at=20.0),
        Status("cooling", back_at=10.0, trial=True),
        Status("exhausted", back_at=90.0),
        Status("disabled"),
    ):
        found.add(status)
    assert found.states == {"active": 2, "cooling": 3, "exhausted": 1, "disabled": 1}
    assert found.trials == {"active": 1, "cooling": 1}
    assert found.back_at == {"cooling": 20.0, "exhausted": 90.0}


def test_health_counts_accounts(simulator: RunningSimulator) -> None:
    config = config_for(simulator.base_url)
    refused = Account(name="spent", upstream="chat", key=Secret("sk-sim-429-spent"))
    others = [one for one in config.accounts if one.upstream != "chat"]
    config = replace(config, accounts=(refused, *others), admin=Admin(key=Secret(TOKEN)))
    with running_gateway(config) as gateway:
        asked = body("chat", "chat/sim-text")
        assert call(gateway.base_url, "POST", PATHS["chat"], asked).status == 429
        health = call(gateway.base_url, "GET", "/admin/health", key=TOKEN).json
    assert health["accounts"]["chat"]["cooling"] == 1
    assert health["trials"]["chat"] == {}
    assert health["back_at"]["chat"]["cooling"] > time.time() - 5
    assert health["back_at"]["messages"] == {}


def test_health_names_budgets_that_refuse_a_model(simulator: RunningSimulator) -> None:
    budget = Limit(kind="cost", amount="1", window="day")
    config = config_for(
        simulator.base_url,
        routes=(
            Route(match="known", upstream="chat", model="sim-text"),
            Route(match="odd", upstream="chat", model="nobody-knows"),
        ),
        clients=(
            Client(name="spender", key=Secret(KEY), limits=(budget,)),
            Client(name="other", key=Secret("sk-other")),
        ),
    )
    price = OwnPrice(model="sim-*", input="1", output="1")
    config = replace(config, prices=(price,), admin=Admin(key=Secret(TOKEN)))
    with running_gateway(config) as gateway:
        health = call(gateway.base_url, "GET", "/admin/health", key=TOKEN).json
    assert health["unpriced_budgets"] == [
        {"scope": "key", "owner": "spender", "model": "odd", "upstream": "chat"}
    ]
