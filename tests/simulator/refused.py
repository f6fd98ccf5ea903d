"""Wrong requests, one a row: what is set, the field the complaint names, a part of its words."""

from __future__ import annotations

from typing import Any

from tests.simulator.requests import JsonObject

MISSING = object()
"""Set to this, a field is left out."""

USER: JsonObject = {"role": "user", "content": "hi"}
PIXEL = "iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0xLjQK"
LOOSE: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}}


def chat_call(call_id: str = "call_1") -> JsonObject:
    function = {"name": "f", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def use(call_id: str = "toolu_1") -> JsonObject:
    block = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
    return {"role": "assistant", "content": [block]}


def result(call_id: str = "toolu_1", **more: Any) -> JsonObject:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "ok", **more}


def turn(*blocks: JsonObject) -> JsonObject:
    return {"role": "user", "content": list(blocks)}


def document(source: JsonObject) -> JsonObject:
    return {"type": "document", "source": source}


CALL: JsonObject = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT: JsonObject = {"type": "function_call_output", "call_id": "c", "output": "ok"}
TOOL_RESULT: JsonObject = {"role": "tool", "tool_call_id": "call_1", "content": "ok"}

Row = tuple[JsonObject, str, str]
"""Fields, OpenAI's `param` or how Anthropic's message begins, a part of the message."""
