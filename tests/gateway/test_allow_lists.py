"""The models that a client may ask for: no name leads past its list, through no door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Client, Config, Fallback, Models, Route, Secret, Storage
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import APIS, PATHS, body, error_of
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import KEY, Answer, call
from tests.websocket.client import Socket

OPEN = "sim-text"
DEAR = "sim-multibyte"
COUNTING = {"messages": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}


def configured(base_url: str, models: tuple[str, ...], **more: Any) -> Config:
    client = Client(name="some", key=Secret(KEY), models=models)
    routes = tuple(
        Route(match=match, upstream="chat", model=model)
        for match, model in ((OPEN, None), (DEAR, None), ("free-renamed", DEAR))
    )
    aliases = {"free-best": DEAR, "sim-best": OPEN}
    made = config_for(base_url, clients=(client,), routes=routes)
    return replace(made, models=Models(aliases=aliases, prefixes={"bare-*": "x/"}), **more)


def ask(gateway: RunningGateway, api: str, model: str, **more: Any) -> Answer:
    return call(gateway.base_url, "POST", PATHS[api], body(api, model, **more))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("models", "name", "may"),
    [
        (("free-*",), f"free-x/{DEAR}", False),
        (("free-*",), f"free-x/free-y/{DEAR}", False),
        (("free/*",), f"free/{DEAR}", False),
        (("free-*",), "free-best", False),
        (("free-*", DEAR), "free-best", True),
        (("free-best",), "free-best", True),
        (("sim-b*", OPEN), "sim-best", True),
        (("free-*",), "free-renamed", True),
        (("free/*", OPEN), f"free/{OPEN}", True),
        (("cha*",), f"chat/{DEAR}", False),
        (("chat/*",), f"chat/{DEAR}", True),
        (("cha*", DEAR), f"chat/{DEAR}", True),
        (("x*",), f"x/chat/{DEAR}", False),
        (("x*", "chat/*"), f"x/chat/{DEAR}", True),
        (("*",), f"x/chat/{DEAR}", True),
        (("*",), "free-best", True),
    ],
)
def test_what_a_name_stands_for_is_checked_too(
    start: Start,
    simulator: RunningSimulator,
    api: str,
    stream: bool,
    models: tuple[str, ...],
    name: str,
    may: bool,
) -> None:
    gateway = start(configured(simulator.base_url, models))
    answer = ask(gateway, api, name, stream=stream)
    assert answer.status == (200 if may else 404)
    if not may:
        assert name in error_of(api, answer)["message"]
    assert bool(simulator.requests) == may


@pytest.mark.parametrize("api", sorted(COUNTING))
def test_nothing_is_counted_either(start: Start, simulator: RunningSimulator, api: str) -> None:
    gateway = start(configured(simulator.base_url, ("free-*",)))
    made = body(api, f"free-x/{DEAR}")
    made.pop("max_tokens", None)
    assert call(gateway.base_url, "POST", COUNTING[api], made).status == 404
    assert not simulator.requests


def test_nothing_is_made_in_the_background(start: Start, simulator: RunningSimulator) -> None:
    gateway = start(configured(simulator.base_url, ("free-*",)))
    assert ask(gateway, "responses", f"free-x/{DEAR}", background=True).status == 404
    assert not simulator.requests


def test_only_what_may_be_used_is_listed(start: Start, simulator: RunningSimulator) -> None:
    gateway = start(configured(simulator.base_url, ("free-*", "cha*")))
    listed = call(gateway.base_url, "GET", "/v1/models").json["data"]
    assert [model["id"] for model in listed] == ["free-renamed"]
    assert call(gateway.base_url, "GET", "/v1/models/free-renamed").status == 200
    for name in ("free-best", f"chat/{DEAR}", "nothing"):
        assert call(gateway.base_url, "GET", f"/v1/models/{name}").status == 404


def test_a_fallback_of_the_configuration_is_allowed(
    start: Start, simulator: RunningSimulator
) -> None:
    """Who writes the route decides what it leads to."""
    made = configured(simulator.base_url, ("free-*",))
    fallback = Fallback(upstream="messages", model=OPEN)
    route = Route(
        match="free-a", upstream="chat", model="sim-error?status=500", fallbacks=(fallback,)
    )
    gateway = start(replace(made, routes=(route, *made.routes)))
    assert ask(gateway, "chat", "free-a").status == 200


@pytest.mark.parametrize(
    ("api", "more"),
    [
        ("chat", {"models": [OPEN, DEAR]}),
        ("chat", {"plugins": [{"id": "some", "model": DEAR}]}),
        ("chat", {"provider": {"experts": {"allowed_models": [OPEN, DEAR]}}}),
        ("messages", {"fallback_model": DEAR}),
        ("responses", {"extra_body": {"mod\\u0065l": DEAR}}),
        ("messages", {"fallbacks": [{"model": DEAR}]}),
        (
            "messages",
            {"tools": [{"type": "advisor_20260301", "name": "advisor", "model": DEAR}]},
        ),
        ("responses", {"tools": [{"type": "image_generation", "model": DEAR}]}),
    ],
)
def test_models_that_a_request_names_besides(
    start: Start, simulator: RunningSimulator, api: str, more: dict[str, Any]
) -> None:
    """An upstream of the same protocol may ask them instead."""
    gateway = start(configured(simulator.base_url, (f"{api}/{OPEN}", OPEN)))
    raw = json.dumps(body(api, f"{api}/{OPEN}", **more)).replace("\\\\u", "\\u")
    answer = call(gateway.base_url, "POST", PATHS[api], raw.encode())
    assert answer.status == 404
    assert DEAR in error_of(api, answer)["message"]
    assert not simulator.requests


def test_on_every_face_they_are_looked_for(
    start: Start, simulator: RunningSimulator, tmp_path: Path
) -> None:
    made = configured(simulator.base_url, (f"responses/{OPEN}", OPEN))
    gateway = start(replace(made, storage=Storage(path=str(tmp_path / "store.db"))))
    asked = body("responses", f"responses/{OPEN}", models=[OPEN, DEAR])
    path = PATHS["responses"]
    for face, more in (
        (COUNTING["responses"], {}),
        (f"{path}/compact", {}),
        (path, {"background": True}),
    ):
        answer = call(gateway.base_url, "POST", face, {**asked, **more})
        assert answer.status == 404, (face, answer.body)
        assert DEAR in error_of("responses", answer)["message"]
    with Socket(gateway.base_url) as sock:
        [event] = sock.turn(f"responses/{OPEN}", models=[OPEN, DEAR])
        assert (event["type"], event["status"]) == ("error", 404)
    assert not simulator.requests


def test_what_is_no_model_is_let_through(start: Start, simulator: RunningSimulator) -> None:
    gateway = start(configured(simulator.base_url, (f"chat/{OPEN}", OPEN)))
    schema = {"type": "object", "properties": {"model": {"type": "string", "default": DEAR}}}
    more = {
        "metadata": {"model": DEAR},
        "tools": [{"type": "function", "function": {"name": "buy", "parameters": schema}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
        "modalities": ["text"],
    }
    assert ask(gateway, "chat", f"chat/{OPEN}", **more).status == 200


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("first", [OPEN, DEAR])
def test_a_model_named_twice_is_one(
    start: Start, simulator: RunningSimulator, api: str, first: str
) -> None:
    """The name that is checked is the one the upstream is sent, whichever JSON reader it has."""
    gateway = start(configured(simulator.base_url, (f"{api}/{OPEN}", OPEN)))
    second = f"{api}/{OPEN if first == DEAR else DEAR}"
    made = b'{"model":"%b",' % f"{api}/{first}".encode()
    rest = body(api, second)
    raw = made + json.dumps(rest).encode()[1:]
    answer = call(gateway.base_url, "POST", PATHS[api], raw)
    sent = [request.body for request in simulator.requests]
    assert answer.status in (200, 400, 404)
    for one in sent:
        assert DEAR.encode() not in one
