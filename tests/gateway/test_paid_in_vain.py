"""Answers that were paid for and are of no use: bought once more at most."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from dragoman.accounts.states import AccountState
from dragoman.config import Fallback, Route
from dragoman.simulator.testing import RunningSimulator
from tests.gateway.clients import APIS, PATHS, body, error_of
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import call

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
