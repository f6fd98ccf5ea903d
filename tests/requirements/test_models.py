"""Names of models: requirements 145 to 150."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.config import (
    Account,
    Client,
    Config,
    Models,
    ProtocolName,
    Route,
    Secret,
    Upstream,
)
from dragoman.gateway.testing import RunningGateway, running_gateway
from dragoman.simulator.testing import RunningSimulator
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import PROTOCOLS, Start, config_for
from tests.gateway.http import KEY, Answer, call, events

PROVIDERS: dict[str, ProtocolName] = {
    "anthropic": "anthropic_messages",
    "openai": "openai_responses",
    "google": "openai_chat",
    "xai": "openai_chat",
}
ARRIVES_AT = {
    "anthropic_messages": "/v1/messages",
    "openai_responses": "/v1/responses",
    "openai_chat": "/v1/chat/completions",
}


def config_of(base_url: str, upstreams: dict[str, ProtocolName], **settings: Any) -> Config:
    return Config(
        clients=(Client(name="tester", key=Secret(KEY)),),
        upstreams=tuple(
            Upstream(name=name, protocol=protocol, base_url=base_url)
            for name, protocol in upstreams.items()
        ),
        accounts=tuple(
            Account(name=name, upstream=name, key=Secret(f"sk-sim-{name}")) for name in upstreams
        ),
        **settings,
    )


def ask(gateway: RunningGateway, client: str, model: str, **more: Any) -> Answer:
    return call(gateway.base_url, "POST", PATHS[client], body(client, model, **more))


@pytest.fixture(scope="module")
def providers(_simulator: RunningSimulator) -> Iterator[RunningGateway]:
    """A gateway with nothing but the providers configured."""
    with running_gateway(config_of(_simulator.base_url, PROVIDERS)) as gateway:
        yield gateway


@pytest.mark.parametrize(
    ("asked", "provider", "model"),
    [
        ("claude-sonnet-4-6", "anthropic", "claude-sonnet-4-6"),
        ("claude-opus-4-6", "anthropic", "claude-opus-4-6"),
        ("gpt-5-mini", "openai", "gpt-5-mini"),
        ("claude-3-5-sonnet-20241022", "anthropic", "claude-sonnet-4-5"),
        ("claude-3-opus-20240229", "anthropic", "claude-opus-4-6"),
        ("claude-new", "anthropic", "claude-new"),
        ("gpt-new", "openai", "gpt-new"),
        ("gemini-new", "google", "gemini-new"),
        ("grok-new", "xai", "grok-new"),
        ("xai/anything", "xai", "anything"),
        ("anthropic/claude-new", "anthropic", "claude-new"),
        ("openai/gpt-new", "openai", "gpt-new"),
    ],
)
def test_where_a_name_leads(
    providers: RunningGateway, simulator: RunningSimulator, asked: str, provider: str, model: str
) -> None:
    """Aliases, retired names, patterns, and names with a provider. req: 145, 146, 147, 148"""
    assert ask(providers, "chat", asked).status == 200
    request = simulator.last
    assert request.key == f"sk-sim-{provider}"
    assert request.path == ARRIVES_AT[PROVIDERS[provider]]
    assert isinstance(request.json, dict)
    assert request.json["model"] == model


def test_names_of_ones_own(start: Start, simulator: RunningSimulator) -> None:
    """Routes go over the names that are known. req: 145, 147"""
    routes = (
        Route(match="gpt-5-mini", upstream="xai", model="grok-mini"),
        Route(match="house-*", upstream="google"),
    )
    models = Models(aliases={"nick": "house-1"}, legacy={}, prefixes={"o*": "openai/"})
    gateway = start(config_of(simulator.base_url, PROVIDERS, routes=routes, models=models))
    for asked, key, model in (
        ("gpt-5-mini", "sk-sim-xai", "grok-mini"),
        ("nick", "sk-sim-google", "house-1"),
        ("o9", "sk-sim-openai", "o9"),
    ):
        assert ask(gateway, "messages", asked).status == 200
        assert isinstance(simulator.last.json, dict)
        assert (simulator.last.key, simulator.last.json["model"]) == (key, model)
    assert ask(gateway, "messages", "claude-new").status == 404


def listed(gateway: RunningGateway) -> list[str]:
    answer = call(gateway.base_url, "GET", "/v1/models")
    assert answer.status == 200
    return [model["id"] for model in answer.json["data"]]


def test_the_list_of_models(start: Start, simulator: RunningSimulator) -> None:
    """Those of the upstreams and the aliases, each once; the second time from memory. req: 149"""
    gateway = start(config_of(simulator.base_url, PROVIDERS))
    names = listed(gateway)
    assert {"claude-sonnet-4-6", "claude-opus-4-6", "gpt-5-mini"} <= set(names)
    assert {f"{provider}/sim-text" for provider in PROVIDERS} <= set(names)
    assert len(names) == len(set(names))
    asked = [(request.method, request.path) for request in simulator.requests]
    assert asked == [("GET", "/v1/models")] * len(PROVIDERS)
    assert listed(gateway) == names
    assert len(simulator.requests) == len(PROVIDERS)
    assert Models().list_cache_s == 300


def test_the_list_is_kept_as_long_as_configured(start: Start, simulator: RunningSimulator) -> None:
    """req: 149"""
    models = Models(list_cache_s=0)
    gateway = start(config_of(simulator.base_url, {"openai": "openai_chat"}, models=models))
    assert listed(gateway) == listed(gateway)
    assert len(simulator.requests) == 2


@pytest.fixture(scope="module")
def renaming(_simulator: RunningSimulator) -> Iterator[RunningGateway]:
    """A gateway whose upstreams know the models by other names."""
    routes = tuple(
        Route(match=f"house-{name}", upstream=name, model="sim-text") for name in PROTOCOLS
    )
    with running_gateway(config_for(_simulator.base_url, routes=routes)) as gateway:
        yield gateway


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("client", "upstream"), list(itertools.product(APIS, APIS)))
def test_the_answer_names_the_model_asked_for(
    renaming: RunningGateway,
    simulator: RunningSimulator,
    client: str,
    upstream: str,
    stream: bool,
) -> None:
    """Wherever it names one, also where streams are passed on. req: 150"""
    answer = ask(renaming, client, f"house-{upstream}", stream=stream)
    assert answer.status == 200
    assert isinstance(simulator.last.json, dict)
    assert simulator.last.json["model"] == "sim-text"
    told = [data for _, data in events(answer.body)] if stream else [answer.json]
    named = [found for data in told for found in models_in(data)]
    assert set(named) == {f"house-{upstream}"}
    assert "sim-text" not in json.dumps(told)


def models_in(value: Any) -> list[str]:
    """All values of members called `model`."""
    if isinstance(value, dict):
        own = [value["model"]] if "model" in value else []
        return own + [found for item in value.values() for found in models_in(item)]
    if isinstance(value, list):
        return [found for item in value for found in models_in(item)]
    return []
