"""What agents make their requests for, by the headers in which they say so: where these are sent,
and where they are recorded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Client, Condition, Config, Route, Secret, Storage
from dragoman.config.checks import warnings
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols.purposes import RequestClass
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY, Answer, call
from tests.gateway.limited import serving
from tests.gateway.processes import until

CLASS, AGENT = "x-claude-code-request-class", "x-claude-code-agent-type"
NARROW, NEVER = "sk-of-whoever-may-use-one-model", "sk-of-whoever-may-use-one-upstream"


def when(request_class: RequestClass | None = None, agent_type: str | None = None) -> Condition:
    return Condition(request_class=request_class, agent_type=agent_type)


ROUTES = (
    Route(match="house*", when=when("auxiliary"), upstream="chat", model="sim-text"),
    Route(
        match="house*", when=when("subagent", "general-*"), upstream="responses", model="sim-text"
    ),
    Route(match="house*", when=when("main", "reviewer"), upstream="chat", model="sim-text"),
    Route(match="house*", upstream="messages", model="sim-text"),
)


def config(simulator: RunningSimulator, store: str = "") -> Config:
    clients = (
        Client(name="tester", key=Secret(KEY)),
        Client(name="narrow", key=Secret(NARROW), models=("house*",)),
        Client(name="never", key=Secret(NEVER), upstreams=("messages",)),
    )
    made = config_for(simulator.base_url, routes=ROUTES, clients=clients)
    return replace(made, storage=Storage(path=store, sync_s=0.05))


def ask(
    gateway: RunningGateway, headers: dict[str, str], key: str = KEY, api: str = "messages"
) -> Answer:
    made = body(api, "house-model")
    return call(gateway.base_url, "POST", PATHS[api], made, headers, key=key)


def test_requests_go_where_their_class_and_agent_lead(simulator: RunningSimulator) -> None:
    """A request that says nothing is one of the conversation itself; what is not known is of no
    class that a route names."""
    with serving(config(simulator)) as (gateway, lines):
        cases = [
            ({}, "messages"),
            ({CLASS: "main"}, "messages"),
            ({CLASS: "main", AGENT: "reviewer"}, "chat"),
            ({CLASS: "auxiliary"}, "chat"),
            ({CLASS: "subagent"}, "messages"),
            ({CLASS: "subagent", AGENT: "general-purpose"}, "responses"),
            ({CLASS: "compaction"}, "messages"),
            ({CLASS: "of next year"}, "messages"),
            ({AGENT: "reviewer"}, "messages"),
        ]
        for headers, _ in cases:
            answer = ask(gateway, headers)
            assert answer.status == 200
            assert answer.json["model"] == "house-model"
        until(lambda: len(lines) == len(cases))
        assert [line["upstream"] for line in lines] == [upstream for _, upstream in cases]
        # Another protocol's programs say nothing of it.
        assert ask(gateway, {CLASS: "auxiliary"}, api="chat").status == 200
        until(lambda: len(lines) > len(cases))
        assert lines[-1]["upstream"] == "messages"


@pytest.mark.parametrize("key", [NARROW, NEVER])
def test_what_a_client_says_never_leads_past_what_its_key_may_use(
    simulator: RunningSimulator, key: str
) -> None:
    with serving(config(simulator)) as (gateway, lines):
        for headers in ({CLASS: "auxiliary"}, {CLASS: "subagent", AGENT: "general-x"}, {}):
            assert ask(gateway, headers, key).status == 200
        until(lambda: len(lines) == 3)
        assert {line["upstream"] for line in lines} == {"messages"}


def test_hints_go_no_further(simulator: RunningSimulator) -> None:
    hints = {
        CLASS: "subagent",
        AGENT: "general-purpose",
        "x-claude-1p-request-class": "blocking-subagent",
        "x-claude-code-managed-settings-checksum": "sha256:44136fa3",
        "x-claude-code-prompt-id": "5f0c",
        "x-claude-code-session-id": "c0ffee",
    }
    with serving(config(simulator)) as (gateway, _):
        for headers in (hints, {**hints, CLASS: "auxiliary"}, {**hints, CLASS: "main"}):
            assert ask(gateway, headers).status == 200
        assert len(simulator.requests) == 3
        for request in simulator.requests:
            sent = {name.lower() for name, _ in request.headers}
            assert not {name for name in sent if name.startswith("x-claude")}


def test_class_agent_and_prompt_are_recorded(simulator: RunningSimulator, tmp_path: Path) -> None:
    """In the log, the request log and usage, cut short; in metrics the class alone."""
    long = "general-purpose, " + "é" * 300
    with serving(config(simulator, str(tmp_path / "store.db"))) as (gateway, lines):
        headers = {
            CLASS: "subagent",
            AGENT: long,
            "x-claude-code-agent-id": "a" * 17,
            "x-claude-code-prompt-id": "5f0c",
        }
        assert ask(gateway, headers).status == 200
        assert ask(gateway, {CLASS: "\x9b31m" + "x" * 80}).status == 200
        assert ask(gateway, {}).status == 200
        until(lambda: len(lines) == 3)
        purpose = lines[0]["purpose"]
        assert purpose["class"] == "subagent"
        assert purpose["agent_type"].startswith("general-purpose_ ")
        assert len(purpose["agent_type"]) == 64
        assert (purpose["agent"], purpose["prompt"]) == ("a" * 17, "5f0c")
        assert lines[1]["purpose"] == {"class": "other"}
        assert "purpose" not in lines[2]

        def tagged() -> dict[str, Any]:
            found = call(gateway.base_url, "GET", "/v1/usage?group_by=tag").json["data"]
            return {row["tag"]: row["requests"] for row in found}

        until(lambda: sum(tagged().values()) == 4)
        assert tagged() == {
            "": 1,
            "class:other": 1,
            "class:subagent": 1,
            f"agent:{purpose['agent_type']}": 1,
        }
        text = call(gateway.base_url, "GET", "/metrics", key=None).body.decode()
        found = re.findall(r'dragoman_agent_requests_total\{class="(\w+)"\} (\d+)', text)
        assert found == [("other", "1"), ("subagent", "1")]
        assert "general-purpose" not in text


def test_a_route_behind_one_with_a_condition_is_reached(simulator: RunningSimulator) -> None:
    made = config(simulator)
    assert [path for path, _ in warnings(made) if path[:1] == ("routes",)] == []
    again = replace(made, routes=(*ROUTES[:1], *ROUTES))
    assert [path for path, _ in warnings(again) if path[:1] == ("routes",)] == [
        ("routes", 1, "match")
    ]
