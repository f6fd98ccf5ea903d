"""The simulator over WebSocket, as the vendor serves it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from tests.websocket.client import ENDS, Socket, answer_id, text_of


@pytest.fixture
def sock(simulator: RunningSimulator) -> Iterator[Socket]:
    simulator.app.clear()
    with Socket(simulator.base_url) as sock:
        yield sock


def test_a_conversation(sock: Socket, simulator: RunningSimulator) -> None:
    """What is not stored is remembered: upstream bodies are whole, and checked as by POST."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    tool = {"type": "function", "name": "look", "parameters": schema, "strict": False}
    more: dict[str, Any] = {"tools": [tool], "include": ["reasoning.encrypted_content"]}
    more["reasoning"] = {"effort": "low", "summary": "auto"}
    given: Any = "look"
    for turn in range(4):
        found = sock.turn("sim-reasoning_tool?tool=look&args={}", given, **more)
        more["previous_response_id"] = answer_id(found)
        calls = [
            item for item in found[-1]["response"]["output"] if item["type"] == "function_call"
        ]
        assert len(calls) == (turn % 2 == 0)
        given = [
            {"type": "function_call_output", "call_id": call["call_id"], "output": "x"}
            for call in calls
        ] or "once more"
    assert len(simulator.last.json["input"]) > 7
    assert simulator.last.header("upgrade") == "websocket"


def test_the_vendors_sdk(simulator: RunningSimulator) -> None:
    client = openai.OpenAI(base_url=simulator.openai_base_url, api_key="sk-sim-me")
    with client, client.responses.connect() as connection:
        connection.response.create(model="sim-text", input="hi", store=False)
        kinds = []
        for event in connection:
            kinds.append(event.type)
            if event.type in ENDS:
                break
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


def test_lanes_and_their_limits(sock: Socket) -> None:
    sock.create("sim-text?text=slow&first_ms=300", stream_id="a")
    sock.create("sim-text?text=quick", stream_id="b")
    assert [sock.events()[-1]["stream_id"] for _ in range(2)] == ["b", "a"]
    for number in range(30):
        assert answer_id(sock.turn("sim-text", stream_id=f"lane{number}"))
    for name, code in (("x y", "invalid_stream_id"), ("c", "websocket_stream_limit_reached")):
        [told] = sock.turn("sim-text", stream_id=name)
        assert (told["status"], told["error"]["code"]) == (400, code)


def test_prewarming(sock: Socket, simulator: RunningSimulator) -> None:
    found = sock.turn("sim-text", "hello", generate=False)
    assert [event["type"] for event in found] == ["response.created", "response.completed"]
    assert found[-1]["response"]["output"] == []
    assert text_of(sock.turn("sim-text?text=a", [], previous_response_id=answer_id(found))) == "a"
    assert simulator.last.json["input"][0]["content"] == "hello"


def test_steering(sock: Socket, simulator: RunningSimulator) -> None:
    """The response ends early, and another goes on from it."""
    sock.create("sim-text?words=50&delay_ms=50")
    begun = sock.event()["response"]["id"]
    sock.send({"type": "response.steer", "previous_response_id": begun, "input": "quick"})
    found = sock.events()
    kinds = [event["type"] for event in found]
    assert "response.steer.accepted" in kinds
    assert found[-1]["response"]["incomplete_details"] == {"reason": "steered"}
    created = sock.event()
    assert created["type"] == "response.created"
    assert created["response"]["previous_response_id"] == begun
    assert sock.events()[-1]["type"] == "response.completed"
    assert simulator.last.json["input"][-1]["content"] == "quick"
    sock.send({"type": "response.steer", "previous_response_id": "resp_x", "input": "quick"})
    assert sock.event()["error"]["code"] == "response_not_found"


def test_errors_and_faults(sock: Socket, simulator: RunningSimulator) -> None:
    [told] = sock.turn("sim-error?status=429&retry_after=7")
    assert (told["status"], told["headers"]["retry-after"]) == (429, "7")
    [told] = sock.turn("sim-text", previous_response_id="resp_x")
    assert told["error"]["code"] == "previous_response_not_found"
    assert sock.turn("sim-text?fault=error_in_stream&after=4")[-1]["type"] == "response.failed"
    sock.send("{")
    assert sock.event()["status"] == 400
    assert answer_id(sock.turn("sim-text"))
    sock.create("sim-text?fault=truncate&after=4")
    assert sock.closed().code == 1011
    with Socket(simulator.base_url) as other:
        other.create("sim-text?fault=reset&after=4")
        assert other.closed().code == 1006


def test_a_message_of_sixteen_megabytes(sock: Socket) -> None:
    sock.create("sim-text", "x" * (16 * 1024 * 1024))
    assert sock.event()["status"] == 413
    assert sock.closed().code == 1009


def test_its_age(simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator.app, "socket_seconds", 0.1)
    with Socket(simulator.base_url) as sock:
        time.sleep(0.2)
        [told] = sock.turn("sim-text")
        assert told["error"]["code"] == "websocket_connection_limit_reached"
        assert sock.closed().code == 1001
