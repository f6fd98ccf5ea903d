"""Every route that can cost something passes the gate of limits: none leads past it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Client, Config, Secret, Storage
from dragoman.config.limits import Limit
from dragoman.endpoints.table import PATHS as ENDPOINTS
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.clients import body
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY, Connection, call

FREE_KEY = "sk-of-one-without-limits"

# What each fixed route may do at an upstream without passing the gate. A route that is new has to
# be looked at before it is added here.
FIXED = {
    "/v1/chat/completions": None,
    "/v1/messages": None,
    "/v1/responses": None,
    "/v1/responses/compact": None,
    "/v1/messages/count_tokens": "counts",
    "/v1/responses/input_tokens": "counts",
    "/v1/models": "lists",
    "/v1alpha/models": "lists",
    "/v1beta/models": "lists",
    "/v1beta1/models": "lists",
    "/v1/model/info": "lists",
    "/model/info": "lists",
    "/v1/key": "nothing",
    "/v1/usage": "nothing",
    "/api/oauth/usage": "nothing",
    "/managed/settings": "nothing",
    "/v1/metrics": "nothing",
    "/v1/logs": "nothing",
    "/v1/traces": "nothing",
    "/": "nothing",
    "/healthz": "nothing",
    "/readyz": "nothing",
    "/metrics": "nothing",
}
WITH_MODELS = tuple(
    f"{version}/models/chat/sim-text:{verb}"
    for version in ("/v1", "/v1beta")
    for verb in ("generateContent", "streamGenerateContent")
)
"""Paths with a model in them that lead to upstreams, where a request is limited."""
ALLOWED = ("/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/models")
"""Where upstreams charge nothing."""


def config(base_url: str, folder: Path, *limits: Limit) -> Config:
    clients = (
        Client(name="tester", key=Secret(KEY), limits=limits),
        Client(name="free", key=Secret(FREE_KEY)),
    )
    made = config_for(base_url, clients=clients)
    return replace(made, storage=Storage(path=str(folder / "kept.db")))


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    none = Limit(kind="requests", amount=0, window="total")
    with running_gateway(config(simulator.base_url, tmp_path, none)) as running:
        yield running


def bodies(upstream: str) -> Iterator[dict[str, Any]]:
    """Requests that each protocol would serve, in all the ways that it can be asked."""
    for api, stream in itertools.product(("chat", "messages", "responses"), (False, True)):
        yield body(api, f"{upstream}/sim-text", stream=stream)
    yield body("responses", f"{upstream}/sim-text", background=True)
    yield body("responses", f"{upstream}/sim-text", store=False)
    yield {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    yield {"tool_outputs": [{"tool_call_id": "c", "output": "o"}]}
    yield {}


def below(gateway: RunningGateway) -> list[str]:
    """Paths with an id or a model in them, of responses that are there and that are not."""
    stored = call(
        gateway.base_url, "POST", "/v1/responses", body("responses", "responses/sim-text"),
        key=FREE_KEY,
    ).json["id"]  # fmt: skip
    routes = gateway.app._current.find.__self__  # type: ignore[attr-defined]
    ends = (*routes.below_response, "compact")
    assert {"", "cancel"} < set(ends)
    paths = [
        f"/v1/responses/{name}/{end}".rstrip("/") for name in (stored, "resp_none") for end in ends
    ]
    counted = "/v1beta/models/chat/sim-text:countTokens"
    return [
        *paths, *WITH_MODELS, counted,
        "/v1/responses/compact", "/v1/chat/completions/x", "/v1/models/chat/sim-text",
    ]  # fmt: skip


def test_all_fixed_routes_are_known(gateway: RunningGateway) -> None:
    """Those of the table of endpoints have a gate by their rows: tests/endpoints/test_table.py."""
    assert set(gateway.app._current.routes) == {*FIXED, *ENDPOINTS}


def test_no_route_leads_past_the_gate(gateway: RunningGateway, simulator: RunningSimulator) -> None:
    paths = [*FIXED, *below(gateway)]
    simulator.app.requests.clear()
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
    refused: set[str] = set()
    for path, upstream in itertools.product(paths, ("chat", "messages", "responses")):
        for asked, method in itertools.product(bodies(upstream), methods):
            if method != "POST" and asked:
                continue
            answer = call(gateway.base_url, method, path, asked)
            if answer.headers.get("x-dragoman-limit") == "key:requests:total":
                refused.add(path)
            beyond = [one.path for one in simulator.requests if one.path not in ALLOWED]
            assert not beyond, (method, path, asked)
    assert refused == {*WITH_MODELS, *(path for path, free in FIXED.items() if free is None)}


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_made_in_the_background_passes_it(
    gateway: RunningGateway, simulator: RunningSimulator, stream: bool
) -> None:
    asked = body("responses", "responses/sim-text", background=True, stream=stream)
    refused = call(gateway.base_url, "POST", "/v1/responses", asked)
    assert refused.status == 429
    assert refused.json["error"]["code"] == "rate_limit_exceeded"
    assert refused.headers["x-dragoman-limit"] == "key:requests:total"
    assert not simulator.requests


def test_what_costs_nothing_is_not_counted(simulator: RunningSimulator, tmp_path: Path) -> None:
    limit = Limit(kind="requests", amount=5, window="total")
    with running_gateway(config(simulator.base_url, tmp_path, limit)) as gateway:
        for upstream in ("chat", "messages", "responses"):
            model = f"{upstream}/sim-text"
            count = {"model": model, "messages": [{"role": "user", "content": "x"}]}
            assert call(gateway.base_url, "POST", "/v1/messages/count_tokens", count).status == 200
            items = {"model": model, "input": "x"}
            assert call(gateway.base_url, "POST", "/v1/responses/input_tokens", items).status == 200
        call(gateway.base_url, "GET", "/v1/models")
        shown = call(gateway.base_url, "GET", "/v1/key").json["limits"][0]
        assert (shown["used"], shown["reserved"]) == (0, 0)


def test_an_upgrade_leads_nowhere_else(gateway: RunningGateway) -> None:
    """A WebSocket's turns are requests as others are."""
    with Connection(gateway.base_url) as connection:
        connection.send(
            "GET",
            "/v1/responses",
            headers={"authorization": f"Bearer {KEY}", "upgrade": "websocket"},
        )
        assert connection.head().status in (101, 426)
