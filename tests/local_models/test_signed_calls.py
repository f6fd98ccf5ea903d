"""Signatures that a Chat upstream puts on its tool calls come back with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.faults.conftest import Over
from tests.faults.upstream import Upstream, answer, event, is_streamed, streamed
from tests.gateway.clients import PATHS
from tests.gateway.http import call, events
from tests.upstream.servers import Call

KEY = "key-of-a-signer"
SIGNATURE = {"google": {"thought_signature": "c2ln"}}


def signed(where: str) -> dict[str, Any]:
    function: dict[str, Any] = {"name": "f", "arguments": "{}"}
    made = {"index": 0, "id": "call_1", "type": "function", "function": function}
    (made if where == "call" else function)["extra_content"] = SIGNATURE
    return made


def signing(where: str) -> Any:
    base = {"id": "chatcmpl-1", "created": 1, "model": "m"}

    async def handler(call: Call) -> None:
        made = signed(where)
        if is_streamed(call):
            chunks = [
                {"index": 0, "delta": {"role": "assistant", "tool_calls": [made]}},
                {"index": 0, "delta": {}, "finish_reason": "tool_calls"},
            ]
            kind = {"object": "chat.completion.chunk"}
            parts = [event({**base, **kind, "choices": [chunk]}) for chunk in chunks]
            await call.send(streamed([*parts, b"data: [DONE]\n\n"]))
        else:
            message = {"role": "assistant", "content": None, "tool_calls": [made]}
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
            whole = {**base, "object": "chat.completion", "choices": [choice]}
            await call.send(answer(json.dumps(whole).encode()))

    return handler


TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {"type": "function", "name": "f", "parameters": TOOL["input_schema"]}
MESSAGES: dict[str, Any] = {
    "model": "chat/m",
    "max_tokens": 2000,
    "thinking": {"type": "adaptive"},
    "tools": [TOOL],
    "messages": [{"role": "user", "content": "U"}],
}
RESPONSES: dict[str, Any] = {
    "model": "chat/m",
    "include": ["reasoning.encrypted_content"],
    "store": False,
    "tools": [FUNCTION],
    "input": [{"role": "user", "content": "U"}],
}


def blocks_of(stream: bytes) -> list[dict[str, Any]]:
    """The blocks of a streamed message, as a client puts them together."""
    blocks: list[dict[str, Any]] = []
    for _, data in events(stream):
        if data["type"] == "content_block_start":
            blocks.append({**data["content_block"]})
        elif data["type"] == "content_block_delta":
            delta = data["delta"]
            if delta["type"] == "signature_delta":
                blocks[-1]["signature"] = delta["signature"]
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = {}
    return blocks


def second_turn(client: str, told: Any, stream: bool) -> dict[str, Any]:
    if client == "messages":
        blocks = blocks_of(told.body) if stream else told.json["content"]
        result = {"type": "tool_result", "tool_use_id": blocks[-1]["id"], "content": "R"}
        turns = [
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [result]},
        ]
        return {**MESSAGES, "messages": [*MESSAGES["messages"], *turns]}
    output = told.json["output"] if not stream else events(told.body)[-1][1]["response"]["output"]
    made = next(item for item in output if item["type"] == "function_call")
    result = {"type": "function_call_output", "call_id": made["call_id"], "output": "R"}
    return {**RESPONSES, "input": [*RESPONSES["input"], *output, result]}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", ["messages", "responses"])
@pytest.mark.parametrize("where", ["call", "function"])
def test_a_signature_makes_the_round_trip(
    where: str, client: str, stream: bool, over: Over, upstream: Upstream
) -> None:
    gateway = over(KEY)
    upstream.behaviours[KEY] = signing(where)
    first = MESSAGES if client == "messages" else RESPONSES
    told = call(gateway.base_url, "POST", PATHS[client], {**first, "stream": stream})
    assert told.status == 200, told.body
    asked = second_turn(client, told, stream)
    again = call(gateway.base_url, "POST", PATHS[client], asked)
    assert again.status == 200, again.body
    sent = json.loads(upstream.calls[-1].body)["messages"]
    (back,) = sent[1]["tool_calls"]
    holder = back if where == "call" else back["function"]
    assert holder["extra_content"] == SIGNATURE
    assert "reasoning_details" not in sent[1]
