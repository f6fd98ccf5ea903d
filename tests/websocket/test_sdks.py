"""The vendor's own SDKs over a socket, with every kind of upstream."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import openai
import pytest
from openai.types.responses import ResponseFunctionToolCall

from dragoman.gateway.testing import RunningGateway
from dragoman.simulator.testing import RunningSimulator
from tests.gateway.http import KEY
from tests.matrix.judges import NODE_DIR, find_node
from tests.websocket.client import ENDS
from tests.websocket.test_turns import KINDS, TOOL

TURNS = 10
SETTINGS: dict[str, Any] = {
    "tools": [TOOL],
    "reasoning": {"effort": "low", "summary": "auto"},
    "max_output_tokens": 4000,
    "store": False,
}


def model(kind: str) -> str:
    """Thinks, calls a tool, and then answers."""
    return f'{kind}/sim-reasoning_tool?tool=look&args={{"at":"x"}}'


def check_upstream(simulator: RunningSimulator) -> None:
    """Each turn went upstream once, longer than the one before."""
    sizes = [len(one.body) for one in simulator.requests]
    assert len(sizes) == TURNS
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("kind", KINDS)
def test_openai_python(gateway: RunningGateway, simulator: RunningSimulator, kind: str) -> None:
    """W28: ten turns of tools; an error is an event, after which the socket goes on."""
    client = openai.OpenAI(base_url=gateway.openai_base_url, api_key=KEY)
    given: Any = "look"
    previous: Any = openai.omit
    with client, client.responses.connect() as connection:
        for turn in range(TURNS):
            connection.response.create(
                model=model(kind), input=given, previous_response_id=previous, **SETTINGS
            )
            for event in connection:
                if event.type in ENDS:
                    break
            assert event.type == "response.completed", event
            calls = [
                item for item in event.response.output if isinstance(item, ResponseFunctionToolCall)
            ]
            assert len(calls) == (1 if turn % 2 == 0 else 0)
            given = [
                {"type": "function_call_output", "call_id": call.call_id, "output": "a cat"}
                for call in calls
            ] or f"once more {turn}"
            previous = event.response.id
        check_upstream(simulator)
        connection.response.create(model=model(kind), input="x", previous_response_id="resp_x")
        told = connection.recv()
        assert told.type == "error"
        assert json.loads(told.to_json())["error"]["code"] == "previous_response_not_found"
        connection.response.create(model=f"{kind}/sim-text", input="x")
        while connection.recv().type != "response.completed":
            pass


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


@pytest.mark.parametrize("kind", KINDS)
def test_openai_node(gateway: RunningGateway, simulator: RunningSimulator, kind: str) -> None:
    job = {
        "baseUrl": gateway.openai_base_url,
        "key": KEY,
        "turns": TURNS,
        "body": {"model": model(kind), **SETTINGS},
    }
    finished = subprocess.run(
        [find_node(), "socket.mjs"],
        cwd=NODE_DIR,
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=60,
    )
    told = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [one["type"] for one in told] == ["response.completed"] * TURNS, finished
    check_upstream(simulator)
