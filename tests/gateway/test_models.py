"""The list of models."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qsl

import pytest
from msgspec.structs import replace

import dragoman.server.models as catalogues
from dragoman.canonical.errors import DragomanError
from dragoman.config import (
    Client,
    Config,
    Fallback,
    Models,
    OwnPrice,
    Route,
    Secret,
    Upstream,
)
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.prices.loading import load_prices
from dragoman.protocols.model_facts import model_info
from dragoman.protocols.model_lists import read_list, write_list, write_model, write_typed_model
from dragoman.protocols.settings import make_capabilities
from dragoman.server.models import Catalogue
from dragoman.server.testing import RunningGateway
from dragoman.serving.routing import Router
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import KEY, call
from tests.gateway.odd_upstream import answering


class Upstreams:
    """What upstreams would say, and how often they were asked."""

    def __init__(self, **lists: list[Any] | Exception) -> None:
        self.lists = lists
        self.asked: list[str] = []
        self.now = 100.0

    async def fetch(self, upstream: Upstream) -> list[dict[str, Any]]:
        self.asked.append(upstream.name)
        found = self.lists[upstream.name]
        if isinstance(found, Exception):
            raise found
        named = [one if isinstance(one, dict) else {"id": one, "created": 7} for one in found]
        return read_list(json.dumps(named).encode())

    def catalogue(self, **settings: Any) -> Catalogue:
        config = Config(
            upstreams=tuple(
                Upstream(name=name, protocol="openai_chat", base_url="http://127.0.0.1:1")
                for name in self.lists
            ),
            **settings,
        )
        return Catalogue(config, Router(config), load_prices(config), self.fetch, lambda: self.now)


def names(models: list[dict[str, Any]]) -> list[str]:
    return [model["id"] for model in models]


async def test_upstream_models_and_aliases_without_duplicates() -> None:
    """req: 149"""
    upstreams = Upstreams(openai=["gpt-5", "gpt-5-mini"], local=["qwen", "gpt-5"])
    catalogue = upstreams.catalogue(
        routes=(
            Route(match="gpt-*", upstream="openai"),
            Route(match="mine", upstream="local", model="qwen"),
        ),
        models=Models(aliases={"fast": "gpt-5-mini", "lost": "nowhere"}, legacy={}, prefixes={}),
    )
    listed = list(await catalogue.models())
    assert listed == ["mine", "fast", "gpt-5", "gpt-5-mini", "local/qwen", "local/gpt-5"]


async def test_shipped_aliases_are_listed_where_their_models_are() -> None:
    upstreams = Upstreams(anthropic=["claude-opus-4-6"], local=["qwen"])
    catalogue = upstreams.catalogue(
        routes=(Route(match="claude-*", upstream="anthropic"), Route(match="*", upstream="local"))
    )
    assert list(await catalogue.models()) == ["claude-opus-4-6", "qwen"]


async def test_every_listed_name_leads_to_its_model() -> None:
    upstreams = Upstreams(a=["x", "y/z"], b=["x"])
    catalogue = upstreams.catalogue(routes=(Route(match="x", upstream="b"),))
    listed = list(await catalogue.models())
    assert listed == ["x", "a/x", "a/y/z"]


async def test_upstreams_are_asked_once_in_a_while() -> None:
    """req: 149"""
    upstreams = Upstreams(a=["x"], b=RuntimeError("down"))
    catalogue = upstreams.catalogue()
    for now, asked in ((100.0, ["a", "b"]), (129.0, []), (131.0, ["b"]), (401.0, ["a", "b"])):
        upstreams.now, upstreams.asked = now, []
        assert list(await catalogue.models()) == ["a/x"]
        assert upstreams.asked == asked
    upstreams.lists["a"] = RuntimeError("down")
    upstreams.now = 1000.0
    assert list(await catalogue.models()) == ["a/x"]


MODELS = [{"id": str(number)} for number in range(5)]


@pytest.mark.parametrize(
    ("query", "ids", "more"),
    [
        ("", "01234", False),
        ("limit=2", "01", True),
        ("limit=5", "01234", False),
        ("limit=2&after_id=1", "23", True),
        ("limit=2&after_id=3", "4", False),
        ("after_id=4", "", False),
        ("limit=2&before_id=3", "12", True),
        ("before_id=2", "01", False),
        ("lifecycle=active&limit=1000", "01234", False),
    ],
)
def test_pages(query: str, ids: str, more: bool) -> None:
    found = write_list(MODELS, dict(parse_qsl(query)))
    assert names(found["data"]) == list(ids)
    assert found["has_more"] is more
    assert found["first_id"] == (ids[0] if ids else None)
    assert found["last_id"] == (ids[-1] if ids else None)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "after_id=9", "before_id=9"])
def test_pages_that_are_none(query: str) -> None:
    with pytest.raises(DragomanError) as caught:
        write_list(MODELS, dict(parse_qsl(query)))
    assert caught.value.fault.param == query.split("=")[0]


def test_one_object_for_both_vendors() -> None:
    from anthropic.types import ModelInfo
    from openai.types import Model

    told = {"created_at": "2026-01-01T00:00:00Z", "display_name": "Shown", "max_tokens": 5}
    made = write_model("name", "owner", told)
    Model.model_validate(made, strict=True)
    assert ModelInfo.model_validate(made).max_tokens == 5
    assert made["created"] == 1767225600
    assert write_model("n", "o", {"created": "x"})["created_at"] == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize("member", ["context_length", "max_model_len", "max_input_tokens"])
def test_the_window_has_the_names_that_clients_look_for(member: str) -> None:
    made = write_model("n", "o", {member: 4096, "max_output_tokens": 100})
    assert (made["context_length"], made["max_model_len"]) == (4096, 4096)
    assert made["max_output_tokens"] == 100
    assert "context_length" not in write_model("n", "o", {member: "many"})


def test_what_the_configuration_knows_of_a_model(start: Start, simulator: RunningSimulator) -> None:
    """Its prices for a token, its output limit, and whether it sees."""
    blind = make_capabilities(images=False, max_output_tokens=900)
    price = OwnPrice(model="theirs", input="0.5", cached="0.05", output="2")
    routes = (Route(match="mine", upstream="chat", model="theirs", capabilities=blind),)
    config = config_for(simulator.base_url, routes=routes)
    gateway = start(replace(config, prices=(price,)))
    made = call(gateway.base_url, "GET", "/v1/models/mine").json
    assert made["pricing"] == {
        "prompt": "0.0000005",
        "completion": "0.000002",
        "input_cache_read": "0.00000005",
    }
    assert made["architecture"]["input_modalities"] == ["text"]
    assert made["max_output_tokens"] == 900
    short = Client(name="short", key=Secret(KEY), max_output_tokens=80)
    url = start(replace(config, clients=(short,))).base_url
    listed = call(url, "GET", "/v1/models").json["data"]
    info = call(url, "GET", "/v1/model/info").json["data"]
    assert {one["max_output_tokens"] for one in listed} == {80}
    assert {one["model_info"]["max_output_tokens"] for one in info} == {80}
    assert call(url, "GET", "/v1/models/mine").json["max_tokens"] == 80


OPEN_ROUTER = {
    "id": "x",
    "type": "chat",
    "context_length": 100_000,
    "top_provider": {"context_length": 90_000, "max_completion_tokens": 8000},
    "architecture": {"input_modalities": ["text", "image", "file"], "output_modalities": ["text"]},
    "supported_parameters": ["tools", "temperature", "seed", "structured_outputs"],
    "pricing": {"prompt": "0.000001", "completion": "0.000002", "input_cache_read": "unknown"},
}
LLAMA_CPP = {"id": "x", "meta": {"n_ctx_train": 131_072, "n_ctx": 4096}}
ANTHROPIC = {"id": "x", "type": "model", "max_input_tokens": 200_000, "max_tokens": 64_000}
CAPPED = make_capabilities(
    context_window=50_000, max_output_tokens=900, images=False, sampling=False,
    structured_output=False, omit_fields=("seed",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("entries", "capabilities", "expected"),
    [
        (
            [OPEN_ROUTER],
            None,
            {
                **dict.fromkeys(("context_length", "max_model_len"), 100000),
                "max_input_tokens": 100_000, "max_output_tokens": 8000, "max_tokens": 8000,
                "meta": {"n_ctx": 100_000},
                "top_provider": {"context_length": 100_000, "max_completion_tokens": 8000},
                **{name: OPEN_ROUTER[name] for name in ("architecture", "pricing", "type")},
                "supported_parameters": OPEN_ROUTER["supported_parameters"],
            },
        ),
        (
            [OPEN_ROUTER],
            CAPPED,
            {
                "context_length": 50_000, "max_output_tokens": 900, "meta": {"n_ctx": 50_000},
                "architecture": {
                    "input_modalities": ["text", "file"],
                    "output_modalities": ["text"],
                },
                "supported_parameters": ["tools"],
            },
        ),
        (
            [OPEN_ROUTER, {**OPEN_ROUTER, "architecture": {"input_modalities": ["text"]},
                           "type": "language", "supported_parameters": ["seed", "tools"]}],
            None,
            {
                "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
                "supported_parameters": ["tools", "seed"],
                "type": "model",
            },
        ),
        ([OPEN_ROUTER, LLAMA_CPP], None, {"meta": {"n_ctx": 4096}, "max_model_len": 4096}),
        (
            [ANTHROPIC, OPEN_ROUTER],
            None,
            {"max_input_tokens": 100_000, "max_tokens": 8000, "type": "chat"},
        ),
        (
            [{"id": "x", "context_length": "many", "architecture": 5, "meta": [], "type": 7,
              "supported_parameters": [1]}],
            None,
            {
                **dict.fromkeys(("context_length", "max_model_len", "max_input_tokens", "meta")),
                **dict.fromkeys(("max_output_tokens", "max_tokens", "top_provider")),
                **dict.fromkeys(("architecture", "supported_parameters")),
                "type": "model",
            },
        ),
    ],
)  # fmt: skip
async def test_what_is_served_of_a_model_is_the_least_that_is_known(
    entries: list[dict[str, Any]], capabilities: Any, expected: dict[str, Any]
) -> None:
    """Of what the upstreams of its route list, and of what its configuration says."""
    upstreams = Upstreams(**{f"u{place}": [one] for place, one in enumerate(entries)})
    first, *others = upstreams.lists
    fallbacks = tuple(Fallback(upstream=name) for name in others)
    route = Route(match="x", upstream=first, fallbacks=fallbacks, capabilities=capabilities)
    model = (await upstreams.catalogue(routes=(route,)).models())["x"]
    made = write_typed_model("x", model.owner, model.details)
    assert {name: _plain(made.get(name)) for name in expected} == expected
    assert write_model("x", model.owner, model.details)["type"] == "model"
    assert (model.shown.context_window, model.shown.max_output) == (
        made.get("context_length"),
        made.get("max_output_tokens"),
    )


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


async def test_models_as_litellm_describes_them() -> None:
    upstreams = Upstreams(a=[OPEN_ROUTER, {"id": "e", "type": "transcribe"}])
    models = await upstreams.catalogue(routes=(Route(match="*", upstream="a"),)).models()
    assert [_plain(model_info(name, one.details)) for name, one in models.items()] == [
        {
            "model_name": "x",
            "litellm_params": {"model": "x"},
            "model_info": {
                "mode": "chat",
                "max_input_tokens": 100_000,
                "max_output_tokens": 8000,
                "max_tokens": 8000,
                "supports_vision": True,
                "supports_function_calling": True,
                "supported_openai_params": OPEN_ROUTER["supported_parameters"],
                "input_cost_per_token": 1e-6,
                "output_cost_per_token": 2e-6,
            },
        },
        {
            "model_name": "e",
            "litellm_params": {"model": "e"},
            "model_info": {"mode": "audio_transcription"},
        },
    ]


@pytest.mark.parametrize("created", [2**62, -(2**62), 10**30, 1e300, True, "x", None, []])
@pytest.mark.parametrize("created_at", ["9999-12-31T23:59:59-23:59", "0001-01-01", "x", 5, None])
def test_odd_times(created: Any, created_at: Any) -> None:
    made = write_model("n", "o", {"created": created, "created_at": created_at})
    assert (made["created"], made["created_at"]) == (0, "1970-01-01T00:00:00Z")


async def test_an_upstream_that_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not keep people from the others' models."""
    monkeypatch.setattr(catalogues, "_PATIENCE_S", 0.05)
    upstreams = Upstreams(a=["x"], b=["y"])

    async def fetch(upstream: Upstream) -> list[dict[str, Any]]:
        await asyncio.sleep(0 if upstream.name == "a" else 20)
        return [{"id": "x"}]

    upstreams.fetch = fetch  # type: ignore[method-assign]
    assert list(await upstreams.catalogue().models()) == ["a/x"]


@pytest.mark.parametrize("body", [b"", b"5", b'{"data": 5}', b"<html>"])
def test_lists_that_are_none(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the words are msgspec's or ours
        read_list(body)


def test_over_http(gateway: RunningGateway, simulator: RunningSimulator) -> None:
    """req: 1"""
    found = call(gateway.base_url, "GET", "/v1/models")
    assert found.status == 200
    listed = names(found.json["data"])
    assert {"chat/sim-text", "messages/sim-text", "responses/sim-text"} <= set(listed)
    assert len(listed) == len(set(listed))
    for path in ("/model/info", "/v1/model/info"):
        info = call(gateway.base_url, "GET", path).json["data"]
        assert [model["model_name"] for model in info] == listed
    simulator.app.requests.clear()
    one = call(gateway.base_url, "GET", "/v1/models/chat/sim-text")
    assert one.json == found.json["data"][listed.index("chat/sim-text")]
    assert simulator.requests == []
    for version in ({}, {"anthropic-version": "2026-10-21"}):
        missing = call(gateway.base_url, "GET", "/v1/models/nothing", headers=version)
        assert missing.status == 404
        assert ("type" in missing.json) is bool(version)
    limited = call(gateway.base_url, "GET", "/v1/models?limit=3&beta=true")
    assert len(limited.json["data"]) == 3
    assert call(gateway.base_url, "GET", "/v1/models?limit=no").status == 400


@pytest.mark.parametrize(
    ("status", "body"), [(500, b"{}"), (404, b""), (200, b"<html>"), (200, b'{"data": {}}')]
)
def test_an_upstream_that_cannot_list_is_left_out(
    start: Start, status: int, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with answering(status, "application/json", body) as base_url:
        gateway = start(base_url=base_url, routes=(Route(match="mine", upstream="chat"),))
        assert names(call(gateway.base_url, "GET", "/v1/models").json["data"]) == ["mine"]
    reason = f"status {status}" if status != 200 else "the answer is no list"
    assert f"does not list its models: {reason}" in caplog.text


def test_both_sdks(gateway: RunningGateway) -> None:
    from anthropic import Anthropic
    from openai import OpenAI

    with OpenAI(base_url=gateway.openai_base_url, api_key=KEY) as openai:
        assert "chat/sim-text" in [model.id for model in openai.models.list()]
        assert openai.models.retrieve("chat/sim-text").id == "chat/sim-text"
    with Anthropic(base_url=gateway.base_url, api_key=KEY) as anthropic:
        assert "chat/sim-text" in [model.id for model in anthropic.models.list(limit=7)]
        assert anthropic.models.retrieve("chat/sim-text").display_name
