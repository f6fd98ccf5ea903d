"""What an answer repeats of its request is as the client wrote it, on one line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.translation import Call, translate_request
from tests.checkers.framing import frames

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
WHOLE = {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
SHORT = {"type": "function", "name": "g", "parameters": SCHEMA}
CUSTOM = {"type": "custom", "name": "h", "description": "line\nbreak"}
ADDED = {"description": None, "strict": None}

CHUNK = {
    "id": "c",
    "object": "chat.completion.chunk",
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}],
}
ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    ],
}


def _call(indent: str | int | None, **asked: Any) -> Call:
    body = json.dumps({"model": "m", "input": "hi", **asked}, indent=indent)
    return translate_request("openai_responses", "openai_chat", body.encode())


@pytest.mark.parametrize("indent", [None, 2, "\r\n\t"], ids=["one line", "lines", "crlf"])
@pytest.mark.parametrize(
    ("tools", "shown"),
    [
        ([WHOLE], [WHOLE]),
        ([WHOLE, CUSTOM], [WHOLE, CUSTOM]),
        ([WHOLE, SHORT], [WHOLE, SHORT | ADDED]),
        ([], []),
    ],
    ids=["whole", "custom", "short", "none"],
)
def test_tools_and_instructions(
    indent: str | int | None, tools: list[Any], shown: list[Any]
) -> None:
    asked = {"tools": tools, "instructions": "say\nit \u2028 \\ud83d"}
    call = _call(indent, **asked, stream=True)
    stream = call.open_stream()
    written = stream.feed(f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n".encode())
    written += stream.finish()
    found = [json.loads(frame.data) for frame in frames(written)]
    whole = json.loads(_call(indent, **asked).translate_response(json.dumps(ANSWER).encode()))
    for answer in (found[0]["response"], found[-1]["response"], whole):
        assert answer["tools"] == shown
        assert answer["instructions"] == asked["instructions"]
