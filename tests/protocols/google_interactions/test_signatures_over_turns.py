"""The signature of a thought comes back before the call that followed it, whatever the client."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.jsontext import decode
from dragoman.protocols.base import to_json
from tests.library import translate_request

NAME = "google_interactions"
SIGNED = "c2lnLW9uZQ=="
CALL = {"type": "function_call", "id": "c1", "name": "find", "arguments": {"a": 1}}
ANSWER = {
    "id": "v1_x",
    "object": "interaction",
    "model": "m",
    "status": "requires_action",
    "steps": [
        {"type": "thought", "signature": SIGNED, "summary": [{"type": "text", "text": "T"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "Wait."}]},
        CALL,
    ],
    "usage": {"total_input_tokens": 7, "total_output_tokens": 5, "total_thought_tokens": 2},
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def _chat(answer: Any) -> dict[str, Any]:
    result = {"role": "tool", "tool_call_id": "c1", "content": "found"}
    return {
        "messages": [*CLIENTS["openai_chat"]["messages"], answer["choices"][0]["message"], result]
    }


def _messages(answer: Any) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "found"}
    turns = [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [result]},
    ]
    return {"messages": [*CLIENTS["anthropic_messages"]["messages"], *turns]}


def _responses(answer: Any) -> dict[str, Any]:
    result = {"type": "function_call_output", "call_id": "c1", "output": "found"}
    return {"input": [*CLIENTS["openai_responses"]["input"], *answer["output"], result]}


def _google(answer: Any) -> dict[str, Any]:
    response = {"functionResponse": {"id": "c1", "name": "find", "response": {"output": "found"}}}
    turns = [answer["candidates"][0]["content"], {"role": "user", "parts": [response]}]
    return {"contents": [*CLIENTS["google_generate_content"]["contents"], *turns]}


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
    "openai_chat": _chat,
    "anthropic_messages": _messages,
    "openai_responses": _responses,
    "google_generate_content": _google,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_signature_comes_back_before_its_call(client: str) -> None:
    first = {"model": "m", **CLIENTS[client]}
    call = translate_request(client, NAME, to_json(first))
    answer = decode(call.translate_response(to_json(ANSWER)))
    later = {**first, **NEXT[client](answer)}
    sent = decode(translate_request(client, NAME, to_json(later)).body)["input"]
    signed = [step for step in sent if step["type"] == "thought"]
    assert [step["signature"] for step in signed] == [SIGNED]
    assert sent.index(signed[0]) < sent.index(CALL)
