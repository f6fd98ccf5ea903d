"""A gateway that calls a Responses upstream over WebSocket, for clients of every protocol."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from msgspec.structs import replace
from websockets.frames import Opcode

from dragoman.http.websocket.messages import control_frame
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from dragoman.upstream.sockets import SocketConnection
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import AUTH, Connection, call, events
from tests.gateway.services import until
from tests.upstream.peers import Peer, serving
from tests.websocket.client import answer_id, opened
from tests.websocket.timing import SOON, in_flight
from tests.websocket.turns import TOOL, outputs_for, said, settled

MODEL = "responses/sim-text?text=a+b&seed=7"
SLOW = "responses/sim-text?words=500&delay_ms=50"
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 50},
    "/v1/responses": {"input": "hi", "store": False},
}


@pytest.fixture
def continued(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each message to an upstream, whether it goes on from what the connection holds."""
    found: list[bool] = []
    begin = SocketConnection.begin

    def watched(connection: Any, call: Any, message: bytes, *more: Any) -> None:
        found.append("previous_response_id" in json.loads(message))
        begin(connection, call, message, *more)

    monkeypatch.setattr(SocketConnection, "begin", watched)
    return found


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
    assert settled(sent[0]) == settled(sent[1])


@pytest.mark.parametrize("scenario", ["reasoning_tool", "parallel_tools"])
def test_a_conversation_over_sockets_on_both_sides(
    gateway: RunningGateway,
    by_socket: RunningGateway,
    simulator: RunningSimulator,
    scenario: str,
    continued: list[bool],
) -> None:
    """Ten turns, in which either side sends only what is new: what the upstream makes of them is
    what the same conversation is by POST, and one connection carries them all."""
    model = f'responses/sim-{scenario}?tool=look&args={{"at":"x"}}'
    more: dict[str, Any] = {"tools": [TOOL], "instructions": "Be terse.", "store": False}
    more["reasoning"] = {"effort": "low", "summary": "auto"}
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
        bodies.append([settled(one.json) for one in simulator.requests if one.method == "POST"])
        used = _connections(simulator)
    assert len(bodies[1]) == 10
    assert bodies[0] == bodies[1]
    assert used == 1
    assert continued == [False] + [True] * 9


def test_a_client_that_leaves_ends_the_call_upstream(
    by_socket: RunningGateway, simulator: RunningSimulator
) -> None:
    """Within a second, by the end of the connection; and its account is free again."""
    body = {"model": SLOW, "input": "hi", "stream": True, "store": False}

    def leave() -> float:
        simulator.app.clear()
        connection = Connection(by_socket.base_url)
        connection.send("POST", "/v1/responses", body, AUTH)
        connection.head()
        simulator.wait_for(lambda: any(one.status == 200 for one in simulator.requests))
        connection.sock.close()
        left = time.monotonic()
        simulator.wait_for(lambda: simulator.last.disconnected)
        until(lambda: not in_flight(by_socket), seconds=SOON)
        return time.monotonic() - left

    assert any(leave() < 1.0 for _ in range(5))
    again = call(by_socket.base_url, "POST", "/v1/responses", {"model": MODEL, "input": "hi"})
    assert again.status == 200


async def test_an_end_before_any_event_is_not_the_accounts(start: Start) -> None:
    """W26: its connections close with 1000 once they were asked, a kept one and fresh ones; W23:
    what a kept one was asked is asked once more. The account is as good as before."""

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        if 2 <= number <= 4:
            peer.writer.write(control_frame(Opcode.CLOSE, (1000).to_bytes(2, "big")))
        else:
            peer.answer(f"resp_{number}")

    async with serving(script) as (server, url):
        config = config_for(url.removesuffix("/v1/responses"))
        upstreams = tuple(replace(one, websocket="on") for one in config.upstreams)
        gateway = start(replace(config, upstreams=upstreams))

        def turns() -> list[tuple[str, int]]:
            found = []
            with opened(gateway) as sock:
                for _ in range(4):
                    found.append((sock.turn("responses/m")[-1]["type"], len(server.messages)))
                    state = gateway.app.pool.state("responses-0")
                    assert not any((state.cooling, state.disabled, state.exhausted))
            return found

        done = "response.completed"
        assert await asyncio.to_thread(turns) == [(done, 1), ("error", 3), ("error", 4), (done, 5)]
        assert not server.posted


@pytest.mark.parametrize("scenario", ["text", "parallel_tools"])
@pytest.mark.parametrize("path", list(BODIES)[:2])
def test_clients_of_other_protocols_go_on_too(
    by_socket: RunningGateway,
    simulator: RunningSimulator,
    path: str,
    scenario: str,
    continued: list[bool],
) -> None:
    """Who sends all of the conversation each time, in another protocol: the upstream is sent what
    is new, and makes of it what it would have been sent."""
    chat = path == "/v1/chat/completions"
    parameters = TOOL["parameters"]
    function = {"name": "look", "description": "Looks."}
    model = f'responses/sim-{scenario}?tool=look&args={{"at":"x"}}'
    body: dict[str, Any] = {"model": model, **BODIES[path], "stream": True}
    said = body["messages"] = list(body["messages"])
    if chat:
        body["tools"] = [{"type": "function", "function": {**function, "parameters": parameters}}]
    else:
        body["tools"] = [{**function, "input_schema": parameters}]
    for turn in range(3):
        answer = call(by_socket.base_url, "POST", path, body)
        assert answer.status == 200, answer.body
        said.extend(_chat_turn(answer.body) if chat else _messages_turn(answer.body))
        said.append({"role": "user", "content": f"once more {turn}"})
    assert continued == [False, True, True]
    whole = simulator.last.json["input"]
    assert [item["content"] for item in whole if item.get("role") == "user"][-1] in (
        "once more 1",
        [{"type": "input_text", "text": "once more 1"}],
    )


def _chat_turn(stream: bytes) -> list[dict[str, Any]]:
    text = ""
    calls: dict[int, dict[str, Any]] = {}
    for _, chunk in events(stream):
        if not isinstance(chunk, dict) or not chunk["choices"]:
            continue
        delta = chunk["choices"][0]["delta"]
        text += delta.get("content") or ""
        for piece in delta.get("tool_calls") or ():
            one = calls.setdefault(piece["index"], {"type": "function", "function": {}})
            one["id"] = piece.get("id") or one["id"]
            for name, value in piece["function"].items():
                one["function"][name] = one["function"].get(name, "") + (value or "")
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = list(calls.values())
    return [
        message,
        *({"role": "tool", "tool_call_id": one["id"], "content": "cat"} for one in calls.values()),
    ]


def _messages_turn(stream: bytes) -> list[dict[str, Any]]:
    blocks: dict[int, dict[str, Any]] = {}
    partial: dict[int, str] = {}
    for name, event in events(stream):
        if name == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif name == "content_block_delta":
            delta, index = event["delta"], event["index"]
            if delta["type"] == "text_delta":
                blocks[index]["text"] += delta["text"]
            else:
                partial[index] = partial.get(index, "") + delta["partial_json"]
    for index, text in partial.items():
        blocks[index]["input"] = json.loads(text)
    turns: list[dict[str, Any]] = [{"role": "assistant", "content": list(blocks.values())}]
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "cat"}
        for block in blocks.values()
        if block["type"] == "tool_use"
    ]
    return [*turns, {"role": "user", "content": results}] if results else turns
