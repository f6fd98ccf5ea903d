"""What lists of models say to agents, and the names that these ask for by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from msgspec.structs import replace

from dragoman.agents.models import UNKNOWN_WINDOW
from dragoman.config import Client, Models, Route, Secret
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols.settings import make_capabilities
from dragoman.server.testing import running_gateway
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY, Answer, call

HAIKU = "claude-haiku-4-5-20251001"
ROUTES = (
    Route(
        match="mine",
        upstream="chat",
        model="sim-text",
        label="Mine",
        description="A model of the house.",
        capabilities=make_capabilities(context_window=64_000, images=False, efforts=("low",)),
    ),
    Route(match="other", upstream="chat", model="not-listed"),
)


MODELS = Models()
Start = Callable[..., str]


@pytest.fixture
def start(simulator: RunningSimulator) -> Iterator[Start]:
    """Starts gateways with these routes, and returns their addresses."""
    with ExitStack() as stack:

        def started(models: Models = MODELS, clients: tuple[Client, ...] | None = None) -> str:
            made = config_for(simulator.base_url, routes=ROUTES, clients=clients)
            return stack.enter_context(running_gateway(replace(made, models=models))).base_url

        yield started


def messages(url: str, model: str, key: str = KEY) -> Answer:
    body = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    return call(url, "POST", "/v1/messages", body, key=key)


def test_a_model_has_the_facts_of_its_route(start: Start) -> None:
    url = start(Models(aliases={"claude-mine": "mine"}))
    made = call(url, "GET", "/v1/models/mine").json
    assert (made["display_name"], made["description"]) == ("Mine", "A model of the house.")
    assert made["context_length"] == made["max_model_len"] == made["max_input_tokens"] == 64_000
    alias = call(url, "GET", "/v1/models/claude-mine").json
    assert (alias["display_name"], alias["description"]) == ("claude-mine", made["description"])


@pytest.mark.parametrize(
    ("query", "agent"), [("?client_version=0.169.0", "x"), ("", "codex_exec/0.169.0 (Linux)")]
)
def test_codex_gets_its_catalogue_in_the_same_list(start: Start, query: str, agent: str) -> None:
    key = Client(name="tester", key=Secret(KEY), models=("mine", "other"))
    url = start(clients=(key,))
    found = call(url, "GET", f"/v1/models{query}", None, {"user-agent": agent}).json
    assert [one["id"] for one in found["data"]] == ["mine", "other"]
    mine, other = found["models"]
    assert (mine["slug"], mine["display_name"]) == ("mine", "Mine")
    assert (mine["context_window"], other["context_window"]) == (64_000, UNKNOWN_WINDOW)
    assert (mine["input_modalities"], other["input_modalities"]) == (["text"], ["text", "image"])
    assert [one["effort"] for one in mine["supported_reasoning_levels"]] == ["low"]
    efforts = [one["effort"] for one in other["supported_reasoning_levels"]]
    assert efforts == ["low", "medium", "high"]
    assert "default_reasoning_level" not in other, "nothing is sent unless it is chosen"
    assert mine["base_instructions"]
    assert "models" not in call(url, "GET", "/v1/models").json


def test_aliases_may_be_patterns(start: Start) -> None:
    models = Models(aliases={"claude-opus-*": "mine", "claude-*": "other"})
    url = start(models)
    assert messages(url, "claude-opus-9").status == 200
    listed = [one["id"] for one in call(url, "GET", "/v1/models").json["data"]]
    assert "claude-opus-*" not in listed
    in_a_circle = Models(aliases={"a-*": "b-1", "b-*": "a-1"})
    assert messages(start(in_a_circle), "a-2").status == 404


def test_the_model_that_claude_code_asks_for_by_itself(start: Start) -> None:
    """Whoever may use the model in its place may use it by that name, and nobody else."""
    keys = (
        Client(name="few", key=Secret(KEY), models=("mine",)),
        Client(name="none", key=Secret("another-key"), models=("other",)),
    )
    url = start(Models(aliases={"claude-*haiku*": "mine"}), keys)
    assert messages(url, HAIKU).status == 200
    assert messages(url, HAIKU, "another-key").status == 404
    assert messages(url, "claude-opus-4-7").status == 404


def test_a_built_in_name_that_leads_nowhere_names_the_setting(start: Start) -> None:
    url = start(Models(prefixes={}))
    refused = messages(url, HAIKU)
    assert refused.status == 404
    message = refused.json["error"]["message"]
    assert HAIKU in message
    assert "[models] aliases" in message
    assert '"claude-*haiku*"' in message
