"""The real Claude Code says what its requests are for, and each class goes to an upstream of its
own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Client, Condition, Route, Secret
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols.purposes import RequestClass
from dragoman.server.testing import running_gateway
from tests.clients.programs import KEY, run
from tests.clients.tasks import Api
from tests.gateway.conftest import config_for

PLACES: dict[RequestClass, Api] = {"subagent": "chat", "compaction": "responses"}
HINTS = {"CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1"}


@pytest.mark.slow
def test_three_classes_go_to_three_upstreams(simulator: RunningSimulator, tmp_path: Path) -> None:
    routes = [
        Route(match="claude-*", when=Condition(request_class=one), upstream=place, model="sim-text")
        for one, place in PLACES.items()
    ]
    routes.append(Route(match="claude-*", upstream="messages", model="sim-text"))
    made = config_for(
        simulator.base_url,
        routes=tuple(routes),
        clients=(Client(name="tester", key=Secret(KEY)),),
    )
    lines: list[dict[str, Any]] = []
    with running_gateway(made, lambda line: lines.append(json.loads(line))) as gateway:
        url, model = gateway.base_url, "claude-sonnet-5"
        started = run(
            "claude-code",
            url,
            model,
            "Please. [[sim: scenario=agent tool=Agent text=Done.]]",
            tmp_path,
            arguments=("--allowedTools", "Agent"),
            environment=HINTS,
        )
        assert started.status == 0, started
        summed = run(
            "claude-code", url, model, "/compact", tmp_path, resume=True, environment=HINTS
        )
        assert summed.status == 0, summed
    asked = [line for line in lines if line["route"] == "POST /v1/messages"]
    for line in asked:
        assert line["upstream"] == PLACES.get(line["purpose"]["class"], "messages"), line
    assert {line["purpose"]["class"] for line in asked} == {"main", *PLACES}
    prompts = {line["purpose"]["class"]: line["purpose"].get("prompt") for line in asked[:3]}
    assert prompts["subagent"] == prompts["main"], "what a person asked leads to both"
    agents = [line["purpose"] for line in asked if line["purpose"]["class"] == "subagent"]
    assert {one["agent_type"] for one in agents} == {"general-purpose"}
