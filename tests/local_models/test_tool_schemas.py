"""Schemas of tools that one vendor takes and another refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.conftest import Over
from tests.faults.upstream import Upstream, answer, event, is_streamed, streamed
from tests.gateway.clients import PATHS
from tests.gateway.http import call, events
from tests.tables.cells import message_end, message_start, tool_block
from tests.upstream.servers import Call

KEY = "key-of-a-strict-vendor"
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
LONG = "x" * 65
AB = {"a": TEXT, "b": TEXT}

SCHEMAS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "anyOf of required": (
        {"type": "object", "properties": AB, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"a", "b"},
    ),
    "oneOf of objects": (
        {
            "oneOf": [
                {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
                {"type": "object", "properties": {"b": WHOLE}, "required": ["b"]},
            ]
        },
        {"a", "b"},
    ),
    "allOf of references": (
        {
            "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": WHOLE}, "required": ["b"]}],
            "$defs": {"A": {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}},
        },
        {"a", "b"},
    ),
    "a reference": (
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"a": TEXT}}}},
        {"a"},
    ),
    "a reference to itself": ({"$ref": "#"}, set()),
    "not": (
        {"type": "object", "properties": AB, "not": {"required": ["a", "b"]}},
        {"a", "b"},
    ),
    "draft 4": (
        {
            "type": "object",
            "properties": {"a": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}},
        },
        {"a"},
    ),
    "a list of items": (
        {
            "type": "object",
            "properties": {"a": {"type": "array", "items": [TEXT, WHOLE], "minItems": 2}},
        },
        {"a"},
    ),
}
NAMES = {
    "type": "object",
    "properties": {
        "$top": WHOLE,
        "plain": {"type": "object", "properties": {"filter[id]": TEXT}, "required": ["filter[id]"]},
        "名前": TEXT,
        LONG: TEXT,
    },
    "required": ["$top"],
}
ARGUMENTS = {"$top": 1, "plain": {"filter[id]": "x"}, "名前": "y", LONG: "z"}


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from nodes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


def check(schema: dict[str, Any], vendor: str) -> None:
    """The rules of the vendors."""
    assert schema["type"] == "object"
    assert schema.keys().isdisjoint({"anyOf", "oneOf", "allOf", "not", "$ref"})
    for node in nodes(schema):
        assert not isinstance(node.get("exclusiveMinimum"), bool)
        assert not isinstance(node.get("items"), list)
        if vendor == "messages" and isinstance(node.get("properties"), dict):
            for name in node["properties"]:
                assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)
            assert set(node.get("required", ())) <= node["properties"].keys()


def asked(client: str, target: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"model": f"{target}/m", **more}
    hi = [{"role": "user", "content": "hi"}]
    if client == "messages":
        tool = {"name": "f", "input_schema": schema}
        return {"max_tokens": 99, "messages": hi, "tools": [tool], **body}
    if client == "chat":
        function = {"type": "function", "function": {"name": "f", "parameters": schema}}
        return {"messages": hi, "tools": [function], **body}
    return {"input": hi, "tools": [{"type": "function", "name": "f", "parameters": schema}], **body}


def sent_schema(upstream: Upstream) -> dict[str, Any]:
    (tool,) = json.loads(upstream.calls[-1].body)["tools"]
    found = tool.get("input_schema") or tool.get("parameters") or tool["function"]["parameters"]
    assert isinstance(found, dict)
    return found


PAIRS = [(client, target) for client in PATHS for target in PATHS if client != target]


@pytest.mark.parametrize(("client", "target"), PAIRS)
@pytest.mark.parametrize("name", SCHEMAS)
def test_the_upstream_takes_the_schema(
    name: str, client: str, target: str, over: Over, upstream: Upstream
) -> None:
    schema, properties = SCHEMAS[name]
    gateway = over(KEY)
    told = call(gateway.base_url, "POST", PATHS[client], asked(client, target, schema))
    assert told.status == 200, told.body
    found = sent_schema(upstream)
    check(found, target)
    assert set(found["properties"]) == properties
    assert "converted" in told.headers["x-dragoman-losses"]


def calling(arguments: str) -> Any:
    async def handler(call: Call) -> None:
        schema = json.loads(call.body)["tools"][0]["input_schema"]
        top, plain, name, long = schema["properties"]
        (inner,) = schema["properties"][plain]["properties"]
        made = {top: 1, plain: {inner: "x"}, name: "y", long: "z"}
        if is_streamed(call):
            text = json.dumps(made)
            pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
            made_block = tool_block(0, 1, *pieces, name="f")
            parts = [message_start(), *made_block, *message_end("tool_use")]
            await call.send(streamed([event(part) for part in parts]))
        else:
            block = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": made}
            whole = {**message_start()["message"], "content": [block], "stop_reason": "tool_use"}
            await call.send(answer(json.dumps(whole).encode()))

    return handler


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_properties_have_legal_names_upstream_alone(
    client: str, stream: bool, over: Over, upstream: Upstream
) -> None:
    gateway = over(KEY)
    upstream.behaviours[KEY] = calling("")
    body = asked(client, "messages", NAMES, stream=stream)
    told = call(gateway.base_url, "POST", PATHS[client], body)
    assert told.status == 200, told.body
    check(sent_schema(upstream), "messages")
    assert json.loads(arguments_of(client, told, stream)) == ARGUMENTS
    history = with_call(client, body)
    again = call(gateway.base_url, "POST", PATHS[client], history)
    assert again.status == 200, again.body
    sent = json.loads(upstream.calls[-1].body)["messages"]
    (made,) = [b for m in sent for b in m["content"] if b["type"] == "tool_use"]
    assert made["input"].keys() == sent_schema(upstream)["properties"].keys()


def arguments_of(client: str, told: Any, stream: bool) -> str:
    if client == "chat":
        if not stream:
            return str(told.json["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
        return "".join(
            piece["function"].get("arguments", "")
            for _, data in events(told.body)
            if data != "[DONE]"
            for choice in data["choices"]
            for piece in choice["delta"].get("tool_calls", ())
        )
    output = events(told.body)[-1][1]["response"]["output"] if stream else told.json["output"]
    return str(next(item["arguments"] for item in output if item["type"] == "function_call"))


def with_call(client: str, body: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(ARGUMENTS)
    if client == "chat":
        made = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": text}}
        turns = [
            {"role": "assistant", "tool_calls": [made]},
            {"role": "tool", "tool_call_id": "c1", "content": "R"},
        ]
        return {**body, "messages": [*body["messages"], *turns]}
    items = [
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": text},
        {"type": "function_call_output", "call_id": "c1", "output": "R"},
    ]
    return {**body, "input": [*body["input"], *items]}
