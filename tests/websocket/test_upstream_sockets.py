"""A gateway that calls a Responses upstream over WebSocket, for clients of every protocol."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.gateway.testing import RunningGateway, running_gateway
from dragoman.simulator.testing import RunningSimulator
from dragoman.upstream.sockets import SocketConnection
from tests.gateway.conftest import config_for
from tests.gateway.http import AUTH, Connection, call, events
from tests.websocket.client import answer_id, opened
from tests.websocket.test_turns import TOOL, _settled, outputs_for, said

MODEL = "responses/sim-text?text=a+b&seed=7"
SLOW = "responses/sim-text?words=500&delay_ms=50"
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 50},
    "/v1/responses": {"input": "hi", "store": False},
}


@pytest.fixture(scope="module")
def _by_socket(_simulator: RunningSimulator) -> Iterator[RunningGateway]:
    config = config_for(_simulator.base_url)
    upstreams = [
        replace(one, websocket="on") if one.name == "responses" else one for one in config.upstreams
    ]
    with running_gateway(replace(config, upstreams=tuple(upstreams))) as gateway:
        yield gateway


@pytest.fixture
def by_socket(_by_socket: RunningGateway, simulator: RunningSimulator) -> RunningGateway:
    return _by_socket


def _connections(simulator: RunningSimulator) -> int:
    """The WebSocket connections that requests came over."""
    found = {dict(one.headers).get("sec-websocket-key") for one in simulator.requests}
    return len(found - {None})


@pytest.mark.parametrize("path", list(BODIES))
def test_a_client_sees_no_difference(
    gateway: RunningGateway, by_socket: RunningGateway, simulator: RunningSimulator, path: str
) -> None:
    """The same events in the same order, and a refusal with the same status and body, as when the
    upstream is called by POST."""
    for model in (MODEL, "responses/sim-400"):
        found = []
        for one in (gateway, by_socket):
            body = {"model": model, "stream": True, **BODIES[path]}
            answer = call(one.base_url, "POST", path, body)
            told = [
                (name, sorted(data) if isinstance(data, dict) else data)
                for name, data in events(answer.body)
            ]
            found.append((answer.status, told))
        assert found[0] == found[1]
    assert _connections(simulator) >= 1
    sent = [one.json for one in simulator.requests if one.method == "POST"]
    assert _settled(sent[0]) == _settled(sent[1])


@pytest.mark.parametrize("scenario", ["reasoning_tool", "parallel_tools"])
def test_a_conversation_over_sockets_on_both_sides(
    gateway: RunningGateway,
    by_socket: RunningGateway,
    simulator: RunningSimulator,
    scenario: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten turns, in which either side sends only what is new: what the upstream makes of them is
    what the same conversation is by POST, and one connection carries them all."""
    model = f'responses/sim-{scenario}?tool=look&args={{"at":"x"}}'
    more: dict[str, Any] = {"tools": [TOOL], "instructions": "Be terse.", "store": False}
    more["reasoning"] = {"effort": "low", "summary": "auto"}
    continued: list[bool] = []
    begin = SocketConnection.begin

    def watched(connection: Any, incoming: Any, call: Any, message: bytes) -> None:
        continued.append("previous_response_id" in json.loads(message))
        begin(connection, incoming, call, message)

    monkeypatch.setattr(SocketConnection, "begin", watched)
    bodies = []
    for one in (gateway, by_socket):
        simulator.app.clear()
        more.pop("previous_response_id", None)
        with opened(one) as sock:
            given = [said("look")]
            for turn in range(10):
                found = sock.turn(model, given, **more)
                assert found[-1]["type"] == "response.completed", found[-1]
                more["previous_response_id"] = answer_id(found)
                given = outputs_for(found) or [said(f"once more {turn}")]
        bodies.append([_settled(one.json) for one in simulator.requests if one.method == "POST"])
        used = _connections(simulator)
    assert len(bodies[1]) == 10
    assert bodies[0] == bodies[1]
    assert used == 1
    assert continued == [False] + [True] * 9


def test_a_client_that_leaves_ends_the_call_upstream(
    by_socket: RunningGateway, simulator: RunningSimulator
) -> None:
    """Within a second, by the end of the connection; and its account is free again."""
    connection = Connection(by_socket.base_url)
    body = {"model": SLOW, "input": "hi", "stream": True, "store": False}
    connection.send("POST", "/v1/responses", body, AUTH)
    connection.head()
    simulator.wait_for(lambda: any(one.status == 200 for one in simulator.requests))
    connection.sock.close()
    left = time.monotonic()
    simulator.wait_for(lambda: simulator.last.disconnected)
    assert time.monotonic() - left < 1.0
    again = call(by_socket.base_url, "POST", "/v1/responses", {"model": MODEL, "input": "hi"})
    assert again.status == 200
