"""Members that only the vendor's own service has: an agent that asks for them elsewhere is told by
name, and takes them back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Config, Fallback, Route
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols.settings import make_capabilities
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import Answer, call
from tests.gateway.limited import serving
from tests.upstream.servers import free_port

ASKED: dict[str, Any] = {
    "safeguards": [{"type": "dangerous_tool_use"}],
    "tags": ["billing-group"],
}


def config(simulator: RunningSimulator, vendors: str, *routes: Route) -> Config:
    """The upstream `messages` is the vendor's own service, at this address."""
    made = config_for(simulator.base_url, routes=routes)
    capabilities = make_capabilities(billing_header=True)
    upstreams = [
        replace(one, capabilities=capabilities, base_url=vendors) if one.name == "messages" else one
        for one in made.upstreams
    ]
    return replace(made, upstreams=tuple(upstreams))


def ask(url: str, model: str) -> Answer:
    return call(url, "POST", PATHS["messages"], body("messages", model, **ASKED))


def test_the_vendors_service_gets_them(simulator: RunningSimulator) -> None:
    with serving(config(simulator, simulator.base_url)) as (gateway, _):
        ask(gateway.base_url, "messages/sim-text")
        (request,) = simulator.requests
        assert {name: request.json[name] for name in ASKED} == ASKED


@pytest.mark.parametrize("upstream", ["chat", "responses", "messages"])
def test_any_other_is_not_asked(simulator: RunningSimulator, upstream: str) -> None:
    """Messages of another service included: it might leave out unread what the agent relies on."""
    with serving(config_for(simulator.base_url)) as (gateway, _):
        refused = ask(gateway.base_url, f"{upstream}/sim-text")
        error = refused.json["error"]
        assert (refused.status, error["type"]) == (400, "invalid_request_error")
        assert error["message"].startswith("safeguards: ")
        assert not simulator.requests
        asked = body("messages", f"{upstream}/sim-text", **ASKED)
        del asked["max_tokens"]
        counted = call(gateway.base_url, "POST", "/v1/messages/count_tokens", asked)
        assert counted.status == 200, "nothing is answered, so nothing is refused"
        more = {"tags": ASKED["tags"]}
        made = body("messages", f"{upstream}/sim-text", **more)
        simulator.app.requests.clear()
        answer = call(gateway.base_url, "POST", PATHS["messages"], made)
        assert answer.status == 200
        assert "tags:knob" in answer.headers["x-dragoman-losses"]
        assert "tags" not in simulator.requests[0].json


def test_a_fallback_does_without(simulator: RunningSimulator) -> None:
    """In the middle of a session the agent would be told for nothing."""
    fallback = Fallback(upstream="chat", model="sim-text")
    route = Route(match="m", upstream="messages", fallbacks=(fallback,))
    nobody = f"http://127.0.0.1:{free_port()}"
    with serving(config(simulator, nobody, route)) as (gateway, _):
        answer = ask(gateway.base_url, "m")
        assert answer.status == 200, answer.body
        assert answer.headers["x-dragoman-upstream"] == "chat"
        assert "safeguards:content" in answer.headers["x-dragoman-losses"]
        assert not ASKED.keys() & simulator.requests[-1].json.keys()
