"""Bad input is refused at the field at fault."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.errors import InvalidRequest
from dragoman.protocols.openai_responses import CODEC
from tests.protocols.openai_responses.helpers import SEALER, JsonObject, body_of

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": ""}
TOOL = {"type": "function", "name": "f"}


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def part(**fields: Any) -> JsonObject:
    return {"input": [{"role": "user", "content": [fields]}]}


def item(**fields: Any) -> JsonObject:
    return {"input": [fields]}


BAD: list[tuple[JsonObject, str]] = [
    ({"model": None}, "model"),
    ({"model": ""}, "model"),
    ({"model": 5}, "model"),
    ({"input": None}, "input"),
    ({"input": []}, "input"),
    ({"input": 5}, "input"),
    ({"input": ["hi"]}, "input[0]"),
    ({"instructions": 5}, "instructions"),
    ({"stream": "yes"}, "stream"),
    ({"temperature": "[undefined]"}, "temperature"),
    ({"temperature": 3}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": -1}, "top_p"),
    ({"max_output_tokens": "[undefined]"}, "max_output_tokens"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"top_logprobs": "[undefined]"}, "top_logprobs"),
    ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
    ({"metadata": {"a": 1}}, "metadata.a"),
    ({"metadata": []}, "metadata"),
    ({"include": "all"}, "include"),
    ({"include": [1]}, "include[0]"),
    ({"stream_options": []}, "stream_options"),
    ({"reasoning": "high"}, "reasoning"),
    ({"reasoning": {"effort": "extreme"}}, "reasoning.effort"),
    ({"reasoning": {"summary": "long"}}, "reasoning.summary"),
    ({"text": {"format": {}}}, "text.format.type"),
    ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
    ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
    ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
    ({"text": {"verbosity": "loud"}}, "text.verbosity"),
    (item(content="hi"), "input[0].type"),
    (item(type="message", content="hi"), "input[0].role"),
    (item(role="tool", content="hi"), "input[0].role"),
    (item(role="user"), "input[0].content"),
    (item(role="user", content=5), "input[0].content"),
    (item(role="user", content=["hi"]), "input[0].content[0]"),
    (item(role="user", content=[{}]), "input[0].content[0].type"),
    (item(type="telepathy"), "input[0].type"),
    (part(type="telepathy"), "input[0].content[0].type"),
    (part(type="input_text"), "input[0].content[0].text"),
    (part(type="input_text", text=5), "input[0].content[0].text"),
    (part(type="input_image"), "input[0].content[0].image_url"),
    (part(type="input_image", image_url={"url": "x"}), "input[0].content[0].image_url"),
    (part(type="input_image", image_url="ftp://x"), "input[0].content[0].image_url"),
    (part(type="input_image", image_url="data:image/png,x"), "input[0].content[0].image_url"),
    (
        part(type="input_image", image_url="data:image/png;base64,not base64"),
        "input[0].content[0].image_url",
    ),
    (part(type="input_image", image_url="data:;base64,aGk="), "input[0].content[0].image_url"),
    (part(type="input_image", file_id="f", detail="huge"), "input[0].content[0].detail"),
    (part(type="input_file"), "input[0].content[0].file_data"),
    (part(type="input_file", file_data="***"), "input[0].content[0].file_data"),
    (part(type="input_file", file_data=""), "input[0].content[0].file_data"),
    (part(type="input_file", file_url="/etc/passwd"), "input[0].content[0].file_url"),
    (
        part(type="input_text", text="a", prompt_cache_breakpoint={"mode": "often"}),
        "input[0].content[0].prompt_cache_breakpoint.mode",
    ),
    (part(type="output_text", text="a", annotations=["x"]), "input[0].content[0].annotations[0]"),
    (item(**{**CALL, "call_id": None}), "input[0].call_id"),
    (item(**{**CALL, "call_id": ""}), "input[0].call_id"),
    (item(**{**CALL, "name": None}), "input[0].name"),
    (item(**{**CALL, "arguments": {"a": 1}}), "input[0].arguments"),
    (item(type="custom_tool_call", call_id="c", name="g"), "input[0].input"),
    (item(**{**OUTPUT, "call_id": None}), "input[0].call_id"),
    (item(**{**OUTPUT, "output": None}), "input[0].output"),
    (item(**{**OUTPUT, "output": 0}), "input[0].output"),
    (item(**{**OUTPUT, "output": {}}), "input[0].output"),
    (item(**{**OUTPUT, "output": [{"type": "x"}]}), "input[0].output[0].type"),
    (item(type="reasoning", summary="s"), "input[0].summary"),
    (item(type="reasoning", summary=["s"]), "input[0].summary[0].text"),
    (item(type="reasoning", summary=[], encrypted_content=5), "input[0].encrypted_content"),
    (item(type="web_search_call", action=deep(99)), "input[0]"),
    ({"tools": {}}, "tools"),
    ({"tools": ["f"]}, "tools[0]"),
    ({"tools": [{}]}, "tools[0].type"),
    ({"tools": [{"type": "functoin", "name": "f"}]}, "tools[0].type"),
    ({"tools": [{"type": "function"}]}, "tools[0].name"),
    ({"tools": [{"type": "function", "name": ""}]}, "tools[0].name"),
    ({"tools": [{**TOOL, "parameters": "x"}]}, "tools[0].parameters"),
    ({"tools": [{**TOOL, "parameters": deep(99)}]}, "tools[0].parameters"),
    ({"tools": [{**TOOL, "strict": "yes"}]}, "tools[0].strict"),
    (
        {"tools": [{"type": "custom", "name": "g", "format": {"type": "grammar"}}]},
        "tools[0].format.syntax",
    ),
    (
        {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}]},
        "tools[0].tools[0].type",
    ),
    ({"tool_choice": "any"}, "tool_choice"),
    ({"tool_choice": 5}, "tool_choice"),
    ({"tool_choice": {"type": "telepathy"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "function"}}, "tool_choice.name"),
    ({"tool_choice": {"type": "allowed_tools", "mode": "maybe", "tools": []}}, "tool_choice.mode"),
    (
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "x"}]}},
        "tool_choice.tools[0].type",
    ),
]


@pytest.mark.parametrize(("fields", "path"), BAD, ids=[path + repr(f)[:40] for f, path in BAD])
def test_the_field_at_fault_is_named(fields: JsonObject, path: str) -> None:
    """A 400 that names the field, before anything is sent. req: 152, 154"""
    with pytest.raises(InvalidRequest) as raised:
        CODEC.translate.read_request(body_of(**fields), SEALER)
    assert raised.value.fault.param == path
