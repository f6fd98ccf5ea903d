"""What differs between the models of one upstream, and requests that go another way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.config import ConfigError, parse_config
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.http import Answer, call

CONFIG = """
[[upstreams]]
name = "chat"
protocol = "openai_chat"
base_url = "{url}"
reasoning_with_tools_via = "responses"
[upstreams.capabilities]
max_tokens_field = "max_tokens"

[[upstreams]]
name = "stubborn"
protocol = "openai_chat"
base_url = "{url}"
[upstreams.capabilities]
reasoning_with_tools = false

[[upstreams]]
name = "responses"
protocol = "openai_responses"
base_url = "{url}"

[[upstreams]]
name = "messages"
protocol = "anthropic_messages"
base_url = "{url}"

[[accounts]]
name = "a"
upstream = "chat"
key = "k"
[[accounts]]
name = "b"
upstream = "stubborn"
key = "k"
[[accounts]]
name = "c"
upstream = "responses"
key = "k"
[[accounts]]
name = "d"
upstream = "messages"
key = "k"

[[routes]]
match = "plain"
upstream = "chat"
model = "sim-chat"
[routes.capabilities]
sampling = false

[[routes]]
match = "old-claude"
upstream = "messages"
model = "sim-messages"
[routes.capabilities]
anthropic_version = "2023-06-01"

[[routes]]
match = "stubborn"
upstream = "stubborn"
model = "sim-chat"

[[routes]]
match = "*"
upstream = "chat"
model = "sim-chat"
"""
TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}


@pytest.fixture(scope="module")
def simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(simulator: RunningSimulator) -> Iterator[RunningGateway]:
    with running_gateway(parse_config(CONFIG.format(url=simulator.base_url))) as running:
        yield running


def post(gateway: RunningGateway, path: str, body: dict[str, Any]) -> Answer:
    return call(gateway.base_url, "POST", path, body)


def send(gateway: RunningGateway, model: str, **more: Any) -> None:
    body = {"model": model, "max_tokens": 99, "messages": [{"role": "user", "content": "x"}]}
    answer = post(gateway, "/v1/messages", body | more)
    assert answer.status == 200, answer.body


def test_a_route_differs_from_its_upstream(
    simulator: RunningSimulator, gateway: RunningGateway
) -> None:
    send(gateway, "plain", temperature=0.5)
    assert "temperature" not in simulator.last.json
    assert simulator.last.json["max_tokens"] == 99
    send(gateway, "other", temperature=0.5)
    assert simulator.last.json["temperature"] == 0.5


def test_a_route_may_name_another_version(
    simulator: RunningSimulator, gateway: RunningGateway
) -> None:
    body = {
        "model": "old-claude",
        "temperature": 0.5,
        "messages": [{"role": "user", "content": "x"}],
    }
    assert post(gateway, "/v1/chat/completions", body).status == 200
    assert simulator.last.header("anthropic-version") == "2023-06-01"
    assert simulator.last.json["temperature"] == 0.5


def test_thinking_with_tools_goes_another_way(
    simulator: RunningSimulator, gateway: RunningGateway
) -> None:
    thinking = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}
    send(gateway, "m", tools=[TOOL], **thinking)
    assert simulator.last.path == "/v1/responses"
    for more in ({"tools": [TOOL]}, thinking):
        send(gateway, "m", **more)
        assert simulator.last.path == "/v1/chat/completions"


def test_thinking_with_tools_is_turned_off_and_reported(
    simulator: RunningSimulator, gateway: RunningGateway
) -> None:
    body = {
        "model": "stubborn",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "x"}],
        "tools": [TOOL],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
    }
    answer = post(gateway, "/v1/messages", body)
    assert simulator.last.json["reasoning_effort"] == "none"
    assert "knob" in answer.headers["x-dragoman-losses"]


def test_a_detour_must_exist() -> None:
    text = CONFIG.format(url="http://127.0.0.1").replace('via = "responses"', 'via = "response"')
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    assert "reasoning_with_tools_via" in json.dumps(str(caught.value))
