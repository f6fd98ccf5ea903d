"""Other upstreams and models for what a route's upstream cannot answer."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.canonical.losses import Policy
from dragoman.config import Config, Fallback, Route, Secret, Server
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import (
    APIS,
    PATHS,
    body,
    completed,
    error_of,
    stream_error,
    streamed_text,
    text_of,
)
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import Answer, call
from tests.gateway.processes import until

PATHS_AND_MODES = list(itertools.product(APIS, (False, True)))
FIRST, SECOND, THIRD = "sk-sim-first", "sk-sim-second", "sk-sim-third"
KEYS = {"chat": FIRST, "messages": SECOND, "responses": THIRD}
BOTH = (Fallback(upstream="messages"), Fallback(upstream="responses", model="sim-text?text=Third"))


def configured(
    simulator: RunningSimulator, route: Route, server: Server | None = None, **settings: Any
) -> Config:
    """An upstream of each protocol with one account each, named by its key."""
    config = config_for(simulator.base_url, routes=(route,))
    accounts = tuple(
        replace(account, key=Secret(KEYS[account.upstream])) for account in config.accounts
    )
    upstreams = tuple(replace(upstream, **settings) for upstream in config.upstreams)
    config = replace(config, accounts=accounts, upstreams=upstreams)
    return config if server is None else replace(config, server=server)


def route(*fallbacks: Fallback, model: str = "sim-text?text=Hello", **more: Any) -> Route:
    return Route(match="m", upstream="chat", model=model, fallbacks=fallbacks, **more)


def ask(gateway: RunningGateway, api: str, *, stream: bool = False, **more: Any) -> Answer:
    made = body(api, "m", stream=stream, **more)
    return call(gateway.base_url, "POST", PATHS[api], made)


def says(api: str, answer: Answer, stream: bool) -> str:
    if not stream:
        return text_of(api, answer)
    assert completed(api, answer.body), answer.body
    return streamed_text(api, answer.body)


@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_another_upstream_answers(
    start: Start, simulator: RunningSimulator, api: str, stream: bool
) -> None:
    """In order; the answer says who gave it, and the log line as well."""
    gateway = start(configured(simulator, route(*BOTH)))
    assert "x-dragoman-upstream" not in ask(gateway, api, stream=stream).headers
    simulator.app.keys.behaviours[FIRST] = KeyBehaviour(Fault("error", failure=Failure(status=503)))
    answer = ask(gateway, api, stream=stream)
    assert answer.status == 200
    assert answer.headers["x-dragoman-upstream"] == "messages"
    assert says(api, answer, stream) == "Hello"
    simulator.app.keys.behaviours[SECOND] = KeyBehaviour(Fault("reset", after=0))
    answer = ask(gateway, api, stream=stream)
    assert answer.headers["x-dragoman-upstream"] == "responses"
    assert says(api, answer, stream) == "Third"
    assert simulator.last.json["model"] == "sim-text?text=Third"


def test_the_same_upstream_with_another_model(start: Start, simulator: RunningSimulator) -> None:
    """Its only account may serve both."""
    fallback = Fallback(upstream="chat", model="sim-text?text=Smaller")
    gateway = start(configured(simulator, route(fallback, model="sim-529")))
    answer = ask(gateway, "messages")
    assert text_of("messages", answer) == "Smaller"
    assert [request.key for request in simulator.requests] == [FIRST, FIRST]


def test_the_record_names_who_was_asked(
    start: Start, simulator: RunningSimulator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dragoman.requests")
    gateway = start(configured(simulator, route(*BOTH)))
    simulator.app.keys.behaviours[FIRST] = KeyBehaviour(Fault("close", after=0))
    ask(gateway, "chat")

    def lines() -> list[str]:
        own = (record for record in caplog.records if record.name == "dragoman.requests")
        return [record.getMessage() for record in own]

    until(lambda: bool(lines()))
    line = json.loads(lines()[-1])
    assert line["upstream"] == "messages"
    assert line["account"] == "messages-0"
    assert line["attempts"] == 2


@pytest.mark.parametrize("api", APIS)
def test_the_clients_own_mistake_is_not_tried_elsewhere(
    start: Start, simulator: RunningSimulator, api: str
) -> None:
    gateway = start(configured(simulator, route(*BOTH, model="sim-400")))
    assert ask(gateway, api).status == 400
    assert len(simulator.requests) == 1


@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_of_several_failures_the_first_is_told(
    start: Start, simulator: RunningSimulator, api: str, stream: bool
) -> None:
    """It is that of the upstream that was asked for: a later one's refusal is not the client's."""
    gateway = start(configured(simulator, route(*BOTH)))
    told = Failure(status=429, message="Slow down.", retry_after="20")
    simulator.app.keys.behaviours[FIRST] = KeyBehaviour(Fault("error", failure=told))
    for key, status in ((SECOND, 400), (THIRD, 401)):
        fault = Fault("error", failure=Failure(status=status, message="Other words."))
        simulator.app.keys.behaviours[key] = KeyBehaviour(fault)
    answer = ask(gateway, api, stream=stream)
    assert answer.status == 429
    assert "Slow down." in error_of(api, answer)["message"]
    assert 0 < int(answer.headers["retry-after"]) <= 20
    assert [request.key for request in simulator.requests] == [FIRST, SECOND, THIRD]


def test_losses_are_those_of_the_upstream_that_answers(
    start: Start, simulator: RunningSimulator
) -> None:
    """Where the policy refuses what one would lose, the next one is tried."""
    simulator.app.keys.behaviours[FIRST] = KeyBehaviour(Fault("close", after=0))
    gateway = start(configured(simulator, route(*BOTH[:1])))
    answer = ask(gateway, "chat", seed=7)
    assert answer.status == 200
    assert "seed" in answer.headers["x-dragoman-losses"]
    strict = start(configured(simulator, route(*BOTH[:1], policy=Policy.STRICT)))
    simulator.app.requests.clear()
    answer = ask(strict, "chat", seed=7)
    assert answer.status == 502
    assert len(simulator.requests) == 1


def test_no_fallback_after_content(start: Start, simulator: RunningSimulator) -> None:
    simulator.app.keys.behaviours[FIRST] = KeyBehaviour(Fault("truncate", after=2))
    gateway = start(configured(simulator, route(*BOTH)))
    answer = ask(gateway, "chat", stream=True)
    assert stream_error("chat", answer.body) is not None
    assert len(simulator.requests) == 1


def test_time_is_shared(start: Start, simulator: RunningSimulator) -> None:
    """What the first upstream took is gone for the others, so it is not given all of it."""
    slow = route(Fallback(upstream="messages", model="sim-text"), model="sim-503?head_ms=300")
    for within in (0.1, 30.0, 0.0):
        gateway = start(configured(simulator, slow, attempts_within_s=within))
        simulator.app.requests.clear()
        began = time.monotonic()
        assert ask(gateway, "chat").status == 200
        assert (time.monotonic() - began > 0.3) is (within != 0.1)
        assert len(simulator.requests) == 2


def test_accounts_are_counted_for_each_upstream(start: Start, simulator: RunningSimulator) -> None:
    """req: 138"""
    keys = ("sk-sim-500-a", "sk-sim-500-b", "sk-sim-500-c")
    config = config_for(simulator.base_url, keys=keys, routes=(route(*BOTH[:1]),))
    upstreams = tuple(replace(entry, attempts=2) for entry in config.upstreams)
    gateway = start(replace(config, upstreams=upstreams))
    answer = ask(gateway, "responses")
    assert "All accounts exhausted" in error_of("responses", answer)["message"]
    assert [request.path for request in simulator.requests] == [
        *["/v1/chat/completions"] * 2,
        *["/v1/messages"] * 2,
    ]


def test_signs_of_life_while_others_are_tried(start: Start, simulator: RunningSimulator) -> None:
    """Also where the head went out before the fallback answered."""
    server = Server(keepalive_s=0.05, commit_after_s=0.1)
    hello = Fallback(upstream="messages", model="sim-text?text=Hello")
    slow = route(hello, model="sim-503?head_ms=300")
    gateway = start(configured(simulator, slow, server))
    answer = ask(gateway, "messages", stream=True)
    assert says("messages", answer, True) == "Hello"
    assert b"event: ping" in answer.body
