"""Which policy holds, and how a client is told of a loss."""

from __future__ import annotations

import json

import pytest

from dragoman.canonical.losses import Policy
from dragoman.config import Client, Route, Secret
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import body
from tests.gateway.conftest import Start
from tests.gateway.http import KEY, call


def test_the_header_that_names_losses(gateway: RunningGateway) -> None:
    """Path and kind of each, and how many there are; nothing where nothing was lost."""
    asked = body("messages", "chat/sim-text", top_k=4, cache_control={"type": "ephemeral"})
    answer = call(gateway.base_url, "POST", "/v1/messages", asked)
    told, total = answer.headers["x-dragoman-losses"].split("; ")
    assert {"top_k:knob", "cache_control:knob"} <= set(told.split(", "))
    assert total == f"total={len(told.split(', '))}"
    streamed = call(gateway.base_url, "POST", "/v1/messages", {**asked, "stream": True})
    assert "top_k:knob" in streamed.headers["x-dragoman-losses"]
    plain = call(gateway.base_url, "POST", "/v1/messages", body("messages", "messages/sim-text"))
    assert "x-dragoman-losses" not in plain.headers


@pytest.mark.parametrize(
    ("route", "client", "header", "status"),
    [
        ("balanced", None, None, 200),
        ("strict", None, None, 400),
        ("strict", "lenient", None, 200),
        ("lenient", "strict", None, 400),
        ("lenient", "strict", "balanced", 200),
        ("lenient", "lenient", "strict", 400),
        ("balanced", None, "loud", 400),
    ],
)
def test_whose_policy_holds(
    start: Start,
    simulator: RunningSimulator,
    route: str,
    client: str | None,
    header: str | None,
    status: int,
) -> None:
    """The request's own goes over the client's, and that over the route's. A refusal names the
    field, and nothing is sent upstream."""
    gateway = start(
        routes=(Route(match="sim-*", upstream="chat", policy=Policy(route)),),
        clients=(Client(name="a", key=Secret(KEY), policy=Policy(client) if client else None),),
    )
    asked = body("messages", "sim-text", top_k=4)
    headers = {"x-dragoman-policy": header} if header else {}
    answer = call(gateway.base_url, "POST", "/v1/messages", asked, headers)
    assert answer.status == status
    if status == 400:
        assert simulator.requests == []
        assert ("x-dragoman-policy" if header == "loud" else "top_k") in json.dumps(answer.json)
