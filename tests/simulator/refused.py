"""Wrong requests, one a row: what is set, the field the complaint names, a part of its words."""

from __future__ import annotations

from typing import Any

from dragoman.lab.simulator.accounts import DEFAULT_ORGANIZATION
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

BITMAP = "data:image/bmp;base64,Qk0="
GRAMMAR: JsonObject = {"type": "grammar", "grammar": {"definition": "start: A", "syntax": "ebnf"}}
ORGANIZATION = DEFAULT_ORGANIZATION
"""Who owns the reasoning that a plain key asked for."""

PARAMETERS: list[tuple[JsonObject, str]] = [
    ({}, "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'"),
    ({"type": "object"}, "object schema missing properties"),
    ({"type": "object", "properties": {}, "oneOf": []}, "at the top level"),
    (
        {"type": "object", "properties": {"a": {"type": "array"}}},
        "In context=('properties', 'a'), array schema missing items.",
    ),
    ({"type": "object", "properties": {"a": {"type": "text"}}}, "'text' is not valid under any"),
    ({"type": "object", "properties": {}, "required": True}, "True is not of type 'array'"),
    ({"type": "object", "properties": {"a": {"exclusiveMinimum": True}}}, "not of type 'number'"),
]
"""Schemas that OpenAI refuses as parameters of any function."""

NOT_STRICT: list[tuple[JsonObject, str]] = [
    ({"allOf": []}, "'allOf' is not permitted"),
    ({"oneOf": [{"type": "null"}]}, "'oneOf' is not permitted"),
    ({}, "schema must have a 'type' key"),
    ({"type": "object", "properties": {}}, "'additionalProperties' is required to be supplied"),
    ({"type": "array"}, "array schema missing items"),
    ({"$ref": "#", "default": 1}, "$ref cannot have keywords {'default'}"),
    (
        {"type": "object", "properties": {"b": {}}, "additionalProperties": False},
        "'required' is required to be supplied and to be an array including every key",
    ),
    (
        {"type": "object", "required": ["b"], "additionalProperties": False},
        "Extra required key 'b' supplied",
    ),
]
"""Properties that no strict schema of OpenAI may have."""


def closed(inner: JsonObject) -> JsonObject:
    """A strict object with one property."""
    return {
        "type": "object",
        "properties": {"a": inner},
        "required": ["a"],
        "additionalProperties": False,
    }


def chat_tool(name: str = "f", **fields: Any) -> JsonObject:
    return {"type": "function", "function": {"name": name, **fields}}
