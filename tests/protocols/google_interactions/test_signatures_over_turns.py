"""The signatures of thoughts come back, each before the call that followed it, over turns of
whatever client."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dragoman.jsontext import decode
from dragoman.protocols.base import to_json
from tests.library import translate_request

NAME = "google_interactions"
TURNS = 5
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def signature(turn: int) -> str:
    return base64.b64encode(b"signature %d" % turn).decode()


def call_of(turn: int) -> dict[str, Any]:
    return {"type": "function_call", "id": f"c{turn}", "name": "find", "arguments": {"a": turn}}


def answer_of(turn: int) -> dict[str, Any]:
    """The upstream's answer of a turn: a thought, some words, a call."""
    summary = [{"type": "text", "text": f"T{turn}"}]
    return {
        "id": "v1_x",
        "object": "interaction",
        "model": "m",
        "status": "requires_action",
        "steps": [
            {"type": "thought", "signature": signature(turn), "summary": summary},
            {"type": "model_output", "content": [{"type": "text", "text": "Wait."}]},
            call_of(turn),
        ],
        "usage": {"total_input_tokens": 7, "total_output_tokens": 5, "total_thought_tokens": 2},
    }


def _chat(answer: Any, call: str) -> list[Any]:
    result = {"role": "tool", "tool_call_id": call, "content": "found"}
    return [answer["choices"][0]["message"], result]


def _messages(answer: Any, call: str) -> list[Any]:
    result = {"type": "tool_result", "tool_use_id": call, "content": "found"}
    return [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [result]},
    ]


def _responses(answer: Any, call: str) -> list[Any]:
    return [
        *answer["output"],
        {"type": "function_call_output", "call_id": call, "output": "found"},
    ]


def _google(answer: Any, call: str) -> list[Any]:
    response = {"functionResponse": {"id": call, "name": "find", "response": {"output": "found"}}}
    return [answer["candidates"][0]["content"], {"role": "user", "parts": [response]}]


CLIENTS: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "find", "parameters": SCHEMA}}],
    },
    "anthropic_messages": {
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": "find", "input_schema": SCHEMA}],
    },
    "openai_responses": {
        "input": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "name": "find", "parameters": SCHEMA}],
    },
    "google_generate_content": {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "tools": [{"functionDeclarations": [{"name": "find", "parameters": SCHEMA}]}],
    },
}
NEXT = {
    "openai_chat": ("messages", _chat),
    "anthropic_messages": ("messages", _messages),
    "openai_responses": ("input", _responses),
    "google_generate_content": ("contents", _google),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_signatures_come_back_before_their_calls(client: str) -> None:
    turns, following = NEXT[client]
    body = {"model": "m", **CLIENTS[client]}
    for turn in range(TURNS):
        call = translate_request(client, NAME, to_json(body))
        answer = decode(call.translate_response(to_json(answer_of(turn))))
        body = {**body, turns: [*body[turns], *following(answer, f"c{turn}")]}
    sent = decode(translate_request(client, NAME, to_json(body)).body)["input"]
    told = [step for step in sent if step["type"] in ("thought", "function_call")]
    for turn in range(TURNS):
        thought, made = told[2 * turn : 2 * turn + 2]
        assert (thought["signature"], made) == (signature(turn), call_of(turn))
    assert len(told) == 2 * TURNS
