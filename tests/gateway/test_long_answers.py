"""Whole answers that may be long: asked for as a stream, and put together here."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.options import Capabilities, Options
from dragoman.config import Route
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Fault, FaultKind
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols.settings import make_capabilities, make_options
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import PATHS, body, error_of, text_of
from tests.gateway.conftest import Start
from tests.gateway.http import Answer, call

LIMIT = {
    "chat": "max_completion_tokens",
    "messages": "max_tokens",
    "responses": "max_output_tokens",
}
REST = [("chat", "messages"), ("responses", "messages")]


def ask(gateway: RunningGateway, client: str, model: str, tokens: int | None) -> Answer:
    limit: dict[str, Any] = {} if tokens is None else {LIMIT[client]: tokens}
    return call(gateway.base_url, "POST", PATHS[client], body(client, model, **limit))


def asked_to_stream(simulator: RunningSimulator) -> list[bool]:
    """Of each request that reached the upstream."""
    return [bool(request.json.get("stream")) for request in simulator.requests]


@pytest.mark.parametrize(("client", "upstream"), REST)
@pytest.mark.parametrize(("tokens", "streams"), [(21_333, False), (21_334, True)])
def test_a_long_answer_of_messages_is_streamed(
    gateway: RunningGateway,
    simulator: RunningSimulator,
    client: str,
    upstream: str,
    tokens: int,
    streams: bool,
) -> None:
    """The client's answer is whole either way, with the usage that the stream tells."""
    answer = ask(gateway, client, f"{upstream}/sim-text?text=All+of+it&input=7&output=9", tokens)
    assert answer.status == 200
    assert text_of(client, answer) == "All of it"
    assert answer.headers["content-type"] == "application/json"
    assert 9 in answer.json["usage"].values()
    assert asked_to_stream(simulator) == [streams]


@pytest.mark.parametrize("scenario", ["tool", "reasoning", "length"])
def test_it_says_what_a_whole_one_says(gateway: RunningGateway, scenario: str) -> None:
    model = f"messages/sim-{scenario}?seed=3"
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    told = []
    for tokens in (1000, 64_000):
        made = body("chat", model, max_completion_tokens=tokens, tools=[tool])
        answer = call(gateway.base_url, "POST", PATHS["chat"], made).json
        told.append((answer["choices"], answer["usage"]))
    assert told[0] == told[1]


def test_within_one_protocol_the_client_decides(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    """What passes through stays as it is."""
    assert ask(gateway, "messages", "messages/sim-text", 64_000).status == 200
    assert asked_to_stream(simulator) == [False]


@pytest.mark.parametrize("upstream", ["chat", "responses"])
def test_others_are_asked_for_a_whole_answer(
    gateway: RunningGateway, simulator: RunningSimulator, upstream: str
) -> None:
    assert ask(gateway, "messages", f"{upstream}/sim-text", 64_000).status == 200
    assert asked_to_stream(simulator) == [False]


@pytest.mark.parametrize(
    ("capabilities", "options", "tokens", "streams"),
    [
        (make_capabilities(stream_above=0), Options(), 10, True),
        (make_capabilities(stream_above=1_000_000), Options(), 64_000, False),
        (make_capabilities(max_output_tokens=8192), Options(), 64_000, False),
        (Capabilities(), make_options(default_max_tokens=32_000), None, True),
        (Capabilities(), Options(), None, False),
    ],
)
def test_what_counts_is_what_the_answer_may_have(
    start: Start,
    simulator: RunningSimulator,
    capabilities: Capabilities,
    options: Options,
    tokens: int | None,
    streams: bool,
) -> None:
    route = Route(
        match="m",
        upstream="messages",
        model="sim-text",
        capabilities=capabilities,
        options=options,
    )
    gateway = start(routes=(route,))
    assert ask(gateway, "chat", "m", tokens).status == 200
    assert asked_to_stream(simulator) == [streams]


@pytest.mark.parametrize("upstream", ["chat", "responses"])
def test_any_upstream_can_be_told_to_stream(
    start: Start, simulator: RunningSimulator, upstream: str
) -> None:
    """Where the client names no limit the answer may have any length."""
    capabilities = make_capabilities(stream_above=100)
    route = Route(match="m", upstream=upstream, model="sim-text", capabilities=capabilities)
    gateway = start(routes=(route,))
    client = "responses" if upstream == "chat" else "chat"
    for tokens in (100, 101, None):
        answer = ask(gateway, client, "m", tokens)
        assert answer.status == 200
        assert answer.json["usage"]["total_tokens"] > 0
    assert asked_to_stream(simulator) == [False, True, True]


@pytest.mark.parametrize("fault", ["truncate", "reset", "error_in_stream"])
@pytest.mark.parametrize(("client", "upstream"), REST)
def test_one_that_breaks_off_is_tried_again(
    start: Start, simulator: RunningSimulator, client: str, upstream: str, fault: FaultKind
) -> None:
    """Nothing was shown, so another account may answer; if none is left it is an error."""
    gateway = start(keys=("sk-bad", "sk-good"))
    simulator.app.keys.behaviours["sk-bad"] = KeyBehaviour(Fault(fault, after=3))
    answer = ask(gateway, client, f"{upstream}/sim-text?text=All+of+it", 64_000)
    assert text_of(client, answer) == "All of it"
    assert [request.key for request in simulator.requests] == ["sk-bad", "sk-good"]
    assert asked_to_stream(simulator) == [True, True]

    simulator.app.keys.behaviours["sk-good"] = KeyBehaviour(Fault(fault, after=3))
    for account in gateway.app.config.accounts:
        gateway.app.pool.enable(account.name)
    answer = ask(gateway, client, f"{upstream}/sim-text", 64_000)
    assert answer.status >= 500
    error_of(client, answer)
