"""Signatures of a Google upstream over several turns of clients of other protocols: each is sent
back on its own part."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.library import translate_request

JsonObject = dict[str, Any]
G, C, A, R = "google_generate_content", "openai_chat", "anthropic_messages", "openai_responses"
TURNS = 5
TOOL = {"type": "object", "properties": {"n": {"type": "integer"}}}


def signature(turn: int, place: str) -> str:
    return f"c2lnLXR1cm4{turn}{place}" + "=" * (-len(f"c2lnLXR1cm4{turn}{place}") % 4)


def answer(turn: int) -> JsonObject:
    """The answer of a turn: a thought, two calls at once, of which the first is signed."""
    parts = [
        {"text": f"thought {turn}", "thought": True},
        {
            "functionCall": {"name": "f", "args": {"n": turn}, "id": f"call_{turn}a"},
            "thoughtSignature": signature(turn, "call"),
        },
        {"functionCall": {"name": "f", "args": {}, "id": f"call_{turn}b"}},
    ]
    return {
        "candidates": [
            {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": "gemini-3.8-flash",
        "responseId": f"resp-{turn}",
    }


def streamed(body: JsonObject) -> bytes:
    """The same as a stream: each part in a chunk of its own, the end in another."""
    (candidate,) = body["candidates"]
    chunks = [
        {**body, "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
        for part in candidate["content"]["parts"]
    ]
    end = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}
    chunks.append({**body, "candidates": [end]})
    return b"".join(b"data: %b\r\n\r\n" % json.dumps(chunk).encode() for chunk in chunks)


# --- clients ------------------------------------------------------------------------------------


def chat(history: list[JsonObject]) -> JsonObject:
    tool = {"type": "function", "function": {"name": "f", "parameters": TOOL}}
    return {"model": "m", "messages": history, "tools": [tool]}


def chat_goes_on(history: list[JsonObject], given: JsonObject) -> None:
    message = given["choices"][0]["message"]
    history.append(message)
    history.extend(
        {"role": "tool", "tool_call_id": call["id"], "content": "done"}
        for call in message["tool_calls"]
    )


def messages(history: list[JsonObject]) -> JsonObject:
    return {
        "model": "m",
        "max_tokens": 9000,
        "messages": history,
        "tools": [{"name": "f", "input_schema": TOOL}],
        "thinking": {"type": "adaptive"},
    }


def messages_go_on(history: list[JsonObject], given: JsonObject) -> None:
    history.append({"role": "assistant", "content": given["content"]})
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "done"}
        for block in given["content"]
        if block["type"] == "tool_use"
    ]
    history.append({"role": "user", "content": results})


def responses(history: list[JsonObject]) -> JsonObject:
    return {
        "model": "m",
        "input": history,
        "tools": [{"type": "function", "name": "f", "parameters": TOOL, "strict": False}],
        "include": ["reasoning.encrypted_content"],
        "store": False,
    }


def responses_go_on(history: list[JsonObject], given: JsonObject) -> None:
    history.extend(given["output"])
    history.extend(
        {"type": "function_call_output", "call_id": item["call_id"], "output": "done"}
        for item in given["output"]
        if item["type"] == "function_call"
    )


CLIENTS: dict[
    str,
    tuple[Callable[[list[JsonObject]], JsonObject], Callable[[list[JsonObject], JsonObject], None]],
] = {C: (chat, chat_goes_on), A: (messages, messages_go_on), R: (responses, responses_go_on)}


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", CLIENTS)
def test_signatures_come_back_on_their_calls(client: str, is_stream: bool) -> None:
    asked, goes_on = CLIENTS[client]
    history: list[JsonObject] = [{"role": "user", "content": "go"}]
    for turn in range(TURNS):
        call = translate_request(client, G, json.dumps(asked(history)).encode(), account="one")
        assert not [loss for loss in call.losses if loss.kind.value != "knob"]
        contents = json.loads(call.body)["contents"]
        of_model = [content["parts"] for content in contents if content["role"] == "model"]
        calls = [
            [(part["functionCall"]["id"], part.get("thoughtSignature")) for part in parts]
            for parts in of_model
        ]
        assert calls == [
            [(f"call_{before}a", signature(before, "call")), (f"call_{before}b", None)]
            for before in range(turn)
        ]
        body = answer(turn)
        if is_stream:
            given = call.stream_as_response(streamed(body))
        else:
            given = call.translate_response(json.dumps(body).encode())
        goes_on(history, json.loads(given))
