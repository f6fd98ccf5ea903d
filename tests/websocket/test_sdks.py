"""The vendor's own SDKs over a socket, with every kind of upstream."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseFunctionToolCall
from openai.types.websocket_reconnection import ReconnectingEvent

from dragoman.edge import websockets as edge_websockets
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.responses.websocket import service
from dragoman.server.testing import RunningGateway
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import KEY
from tests.matrix.judges import NODE_DIR, find_node
from tests.websocket.client import ENDS
from tests.websocket.timing import SOON
from tests.websocket.turns import KINDS, TOOL, said, settled

TURNS = 10
SETTINGS: dict[str, Any] = {
    "tools": [TOOL],
    "reasoning": {"effort": "low", "summary": "auto"},
    "max_output_tokens": 4000,
    "store": False,
}
LONG = "sim-text?words=2000&delay_ms=20"
PAIRS = ["chat", "messages", "responses", "responses over websocket"]
"""Upstreams, and how the gateway calls them."""


@pytest.fixture(params=PAIRS)
def pair(
    request: pytest.FixtureRequest, gateway: RunningGateway, by_socket: RunningGateway
) -> tuple[RunningGateway, str]:
    """A gateway, and the kind of its upstream."""
    kind, _, socket = request.param.partition(" ")
    return (by_socket if socket else gateway), kind


def models(kind: str) -> list[str]:
    """What answers each turn: it thinks and calls a tool or calls two at once, then answers."""
    names = ("reasoning_tool", "reasoning_tool", "parallel_tools", "parallel_tools")
    return [
        f'{kind}/sim-{names[turn % 4]}?tool=look&args={{"at":"x"}}&seed={turn}'
        for turn in range(TURNS)
    ]


def answers(response: Response, turn: int) -> list[Any]:
    """What the client says next."""
    calls = [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]
    assert len(calls) == (1, 0, 2, 0)[turn % 4]
    return [
        {"type": "function_call_output", "call_id": call.call_id, "output": "a cat"}
        for call in calls
    ] or [said(f"once more {turn}")]


def take_bodies(simulator: RunningSimulator) -> list[Any]:
    """What the upstream was asked since, without what differs by chance."""
    found = [settled(one.json) for one in simulator.requests if one.method == "POST"]
    simulator.app.clear()
    assert len(found) == TURNS
    return [_without_nothing(body) for body in found]


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nothing(one) for name, one in value.items() if one is not None}
    return [_without_nothing(one) for one in value] if isinstance(value, list) else value


def bodies_by_post(gateway: RunningGateway, simulator: RunningSimulator, kind: str) -> list[Any]:
    """The same conversation by POST, all of it sent with each turn."""
    items: list[Any] = [said("look")]
    with openai.OpenAI(base_url=gateway.openai_base_url, api_key=KEY) as client:
        for turn, model in enumerate(models(kind)):
            response = client.responses.create(
                model=model, input=items, include=["reasoning.encrypted_content"], **SETTINGS
            )
            items += [item.to_dict() for item in response.output]
            items += answers(response, turn)
    return take_bodies(simulator)


def test_openai_python(pair: tuple[RunningGateway, str], simulator: RunningSimulator) -> None:
    """W28: ten turns of tools; an error is an event, after which the socket goes on."""
    gateway, kind = pair
    right = bodies_by_post(gateway, simulator, kind)
    client = openai.OpenAI(base_url=gateway.openai_base_url, api_key=KEY)
    given: Any = [said("look")]
    previous: Any = openai.omit
    with client, client.responses.connect() as connection:
        for turn, model in enumerate(models(kind)):
            connection.response.create(
                model=model, input=given, previous_response_id=previous, **SETTINGS
            )
            for event in connection:
                if event.type in ENDS:
                    break
            assert event.type == "response.completed", event
            given, previous = answers(event.response, turn), event.response.id
        assert take_bodies(simulator) == right
        connection.response.create(model=models(kind)[0], input="x", previous_response_id="resp_x")
        told = connection.recv()
        assert told.type == "error"
        assert json.loads(told.to_json())["error"]["code"] == "previous_response_not_found"
        # W12: the SDK takes an answer that has an end only.
        warm: Any = {"model": f"{kind}/sim-text?text=warm", "store": False}
        connection.response.create(input="x", generate=False, **warm)
        while (event := connection.recv()).type != "response.completed":
            pass
        assert event.response.output == []
        connection.response.create(input=[], previous_response_id=event.response.id, **warm)
        while (event := connection.recv()).type != "response.completed":
            pass
        assert event.response.output_text == "warm"


@pytest.mark.parametrize("kind", KINDS)
async def test_openai_python_async(gateway: RunningGateway, kind: str) -> None:
    """Two lanes at once."""
    client = openai.AsyncOpenAI(base_url=gateway.openai_base_url, api_key=KEY)
    async with client, client.responses.connect() as connection:
        for lane in ("a", "b"):
            await connection.response.create(
                model=f"{kind}/sim-text?text={lane}", input="hi", store=False, stream_id=lane
            )
        texts = {"a": "", "b": ""}
        ends = 0
        async for event in connection:
            if event.type == "response.output_text.delta":
                texts[str(event.to_dict()["stream_id"])] += event.delta
            ends += event.type in ENDS
            if ends == 2:
                break
    assert texts == {"a": "a", "b": "b"}


def test_openai_python_leaves(
    pair: tuple[RunningGateway, str], simulator: RunningSimulator
) -> None:
    """In the middle of an answer, which ends upstream within a second."""
    gateway, kind = pair
    client = openai.OpenAI(base_url=gateway.openai_base_url, api_key=KEY)
    with client, client.responses.connect() as connection:
        connection.response.create(model=f"{kind}/{LONG}", input="hi", store=False)
        while connection.recv().type != "response.output_text.delta":
            pass
    left = time.monotonic()
    simulator.wait_for(lambda: simulator.last.disconnected)
    assert time.monotonic() - left < SOON


@pytest.fixture
def short_lived(
    start: Start, simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
) -> RunningGateway:
    """A gateway that ends connections that are half a second old."""
    monkeypatch.setattr(edge_websockets, "PING_S", 0.1)
    monkeypatch.setattr(service, "MAX_AGE_S", 0.5)
    return start(config_for(simulator.base_url))


@pytest.mark.parametrize("kind", KINDS)
def test_openai_python_dials_again(short_lived: RunningGateway, kind: str) -> None:
    """After the end of a connection, by itself; and the conversation goes on if all is sent."""
    client = openai.OpenAI(base_url=short_lived.openai_base_url, api_key=KEY)
    codes: list[int] = []

    def again(event: ReconnectingEvent) -> None:
        codes.append(event.close_code)
        connection.response.create(model=f"{kind}/sim-text?text=b", input="all", store=False)

    manager = client.responses.connect(on_reconnecting=again, initial_delay=0.01)
    with client, manager as connection:
        connection.response.create(model=f"{kind}/sim-text", input="hi", store=False)
        ends: list[str] = []
        for event in connection:
            ends += [event.type] if event.type in ENDS else []
            if len(ends) == 3:
                break
    assert codes == [1001]
    assert ends == ["response.completed", "error", "response.completed"]


def node(gateway: RunningGateway, names: list[str], **more: Any) -> list[dict[str, Any]]:
    """What openai-node tells of a conversation."""
    job = {"baseUrl": gateway.openai_base_url, "key": KEY, "models": names, **more}
    finished = subprocess.run(
        [find_node(), "socket.mjs"],
        cwd=NODE_DIR,
        input=json.dumps({"body": SETTINGS, **job}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not finished.returncode, finished
    return [json.loads(line) for line in finished.stdout.splitlines()]


def test_openai_node(pair: tuple[RunningGateway, str], simulator: RunningSimulator) -> None:
    """Ten turns of tools, each of which is upstream what it is by POST."""
    gateway, kind = pair
    right = bodies_by_post(gateway, simulator, kind)
    told = node(gateway, models(kind))
    assert [one["type"] for one in told] == ["response.completed"] * TURNS
    assert take_bodies(simulator) == right


def test_openai_node_goes_on_and_leaves(
    pair: tuple[RunningGateway, str], simulator: RunningSimulator
) -> None:
    """On the same socket after an error; and in the middle of an answer, which ends upstream."""
    gateway, kind = pair
    failed, well = node(gateway, [f"{kind}/sim-400", f"{kind}/sim-text"])
    assert (failed["type"], well["type"]) == ("error", "response.completed")
    [begun] = node(gateway, [f"{kind}/{LONG}"], cancel=True)
    left = time.monotonic()
    assert begun["type"] == "response.output_text.delta"
    simulator.wait_for(lambda: simulator.last.disconnected)
    assert time.monotonic() - left < SOON


@pytest.mark.parametrize("kind", KINDS)
def test_openai_node_dials_again(short_lived: RunningGateway, kind: str) -> None:
    told = node(short_lived, [f"{kind}/sim-text"], reconnect=True)
    assert [one["type"] for one in told] == ["error", "reconnected", "response.completed"]
    assert "This connection has reached its end" in told[0]["told"]
