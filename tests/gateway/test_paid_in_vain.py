"""Answers that were paid for and are of no use: bought once more at most."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.states import AccountState
from dragoman.config import Admin, Config, Fallback, OwnPrice, Pricing, Route, Secret, Storage
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.prices.rates import dollars
from dragoman.storage.opening import store_for
from tests.gateway.clients import APIS, PATHS, body, error_of
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import call
from tests.gateway.processes import until

TRANSLATED = [
    (client, upstream)
    for client, upstream in itertools.product(APIS, APIS)
    if client != upstream and upstream != "messages"
]
KEYS = tuple(f"sk-sim-org-{number}" for number in range(12))
TOOLS = {
    "chat": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "messages": [{"name": "f", "input_schema": {"type": "object"}}],
    "responses": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
}


@pytest.mark.parametrize(("client", "upstream"), TRANSLATED)
@pytest.mark.parametrize("accounts", [1, 2, 12])
def test_unusable_arguments_are_asked_for_twice_and_blamed_on_nobody(
    start: Start, simulator: RunningSimulator, client: str, upstream: str, accounts: int
) -> None:
    gateway = start(keys=KEYS[:accounts])
    made = body(client, f"{upstream}/sim-bad_arguments", tools=TOOLS[client])
    answer = call(gateway.base_url, "POST", PATHS[client], made)
    assert answer.status == 502
    assert "are not a JSON object" in str(error_of(client, answer))
    assert len(simulator.requests) == 2
    for number in range(accounts):
        name = f"{upstream}-{number}"
        assert gateway.app.pool.state(name) == AccountState(name)


@pytest.mark.parametrize(("client", "upstream"), TRANSLATED)
@pytest.mark.parametrize("stream", [False, True])
def test_what_it_used_stands_in_usage(
    start: Start,
    simulator: RunningSimulator,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    client: str,
    upstream: str,
    stream: bool,
) -> None:
    """Each of the two is paid for, by the account that was asked: in usage, with what it costs, in
    the metrics and in the log."""
    caplog.set_level("INFO", "dragoman.requests")
    price = OwnPrice(model="sim-*", input="1", output="10")
    config = replace(
        config_for(simulator.base_url, keys=KEYS[:2]),
        storage=Storage(path=str(tmp_path / "store.db"), sync_s=0.02),
        prices=(price,),
    )
    gateway = start(config)
    made = body(client, f"{upstream}/sim-bad_arguments", tools=TOOLS[client], stream=stream)
    answer = call(gateway.base_url, "POST", PATHS[client], made)
    if stream and answer.status == 200:
        # The arguments were shown before they turned out to be of no use.
        assert len(simulator.requests) == 1
        return
    assert answer.status == 502
    until(lambda: sum(count.requests for count in kept(config, "usage").values()) == 1)
    usage = {key.account: count for key, count in kept(config, "usage").items()}
    charged = {key.account: count for key, count in kept(config, "charges").items()}
    assert usage.keys() == charged.keys() == {f"{upstream}-0", f"{upstream}-1"}
    first, second = usage.values()
    assert (first.input, first.output) == (second.input, second.output) != (0, 0)
    assert first.requests + second.requests == 1
    for name, count in charged.items():
        assert (count.requests, count.unpriced) == (1, 0)
        assert count.cost == (usage[name].input + 10 * usage[name].output) * 10**6
    tokens = [model.tokens for model in gateway.app._scrape.own().models.values()]
    assert sum(counts[0] for counts in tokens) == first.input + second.input
    lines = [json.loads(text) for text in caplog.messages if "sim-bad_arguments" in text]
    assert [one["account"] for one in lines[-1]["in_vain"]] == list(usage)
    costs = [count.cost for count in charged.values()]
    assert [one["cost_usd"] for one in lines[-1]["in_vain"]] == list(map(dollars, costs))
    assert lines[-1]["cost_usd"] == dollars(sum(costs))


def test_what_a_request_cost_is_told_with_what_was_paid_in_vain(
    start: Start, simulator: RunningSimulator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """To the client, in the log, in the metrics and in the time series, as in usage."""
    caplog.set_level("INFO", "dragoman.requests")
    route = Route(
        match="m",
        upstream="chat",
        model="sim-bad_arguments",
        fallbacks=(Fallback(upstream="messages", model="sim-text"),),
    )
    config = config_for(simulator.base_url, routes=(route,))
    config = replace(
        config,
        upstreams=tuple(replace(one, attempts=1) for one in config.upstreams),
        storage=Storage(path=str(tmp_path / "store.db"), sync_s=0.02),
        prices=(
            OwnPrice(model="sim-*", upstream="messages", input="3", output="30"),
            OwnPrice(model="sim-*", input="0.1", output="10"),
        ),
        pricing=Pricing(header=True),
        admin=Admin(key=Secret("a-token-of-the-admin")),
    )
    gateway = start(config)
    for _ in range(10):
        made = body("responses", "m", tools=TOOLS["responses"])
        answer = call(gateway.base_url, "POST", PATHS["responses"], made)
        assert answer.status == 200
    until(lambda: sum(count.requests for count in kept(config, "usage").values()) == 10)
    costs = {key.upstream: count.cost for key, count in kept(config, "charges").items()}
    assert costs.keys() == {"chat", "messages"}
    each = dollars(sum(costs.values()) // 10)
    assert answer.headers["x-dragoman-cost-usd"] == each
    lines = [json.loads(text) for text in caplog.messages if "sim-bad_arguments" in text]
    assert [line["cost_usd"] for line in lines] == [each] * 10
    counts = gateway.app._scrape.own()
    assert sum(key.cost for key in counts.keys.values()) == sum(costs.values())
    assert {name: one.cost for name, one in counts.outcomes.items() if one.cost} == costs


def kept(config: Config, what: str) -> Any:
    store = store_for(config)
    assert store is not None
    try:
        return getattr(store, what)(0, 2**40)
    finally:
        store.close()


@pytest.mark.parametrize("client", ["chat", "messages"])
def test_another_attempt_has_no_idempotency_key(
    start: Start, simulator: RunningSimulator, client: str
) -> None:
    """Else the upstream would give the same answer again."""
    gateway = start(keys=KEYS[:1])
    made = body(client, "responses/sim-bad_arguments", tools=TOOLS[client])
    for _ in range(2):
        headers = {"idempotency-key": "one"}
        assert call(gateway.base_url, "POST", PATHS[client], made, headers).status == 502
    keys = [request.header("idempotency-key") for request in simulator.requests]
    assert keys[1::2] == [None, None]
    assert keys[0] == keys[2] is not None


def test_a_fallback_counts_too(start: Start, simulator: RunningSimulator) -> None:
    """The second attempt is the last, wherever it is made."""
    fallback = Fallback(upstream="responses", model="sim-bad_arguments")
    route = Route(match="m", upstream="chat", model="sim-bad_arguments", fallbacks=(fallback,))
    config = config_for(simulator.base_url, routes=(route,))
    upstreams = tuple(replace(one, attempts=1) for one in config.upstreams)
    gateway = start(replace(config, upstreams=upstreams))
    made = body("messages", "m", tools=TOOLS["messages"])
    assert call(gateway.base_url, "POST", PATHS["messages"], made).status == 502
    assert [request.path for request in simulator.requests] == [
        "/v1/chat/completions",
        "/v1/responses",
    ]
