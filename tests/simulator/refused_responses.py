"""Responses requests that the service refuses."""

from __future__ import annotations

from tests.simulator.refused import (
    CALL,
    LOOSE,
    MISSING,
    OUTPUT,
    USER,
    Row,
)
from tests.simulator.requests import CITY

RESPONSES_ROWS: list[Row] = [
    ({"model": MISSING}, "model", "Missing required parameter"),
    ({"input": MISSING}, "", "'input'"),
    ({"input": 3}, "input", "expected an array"),
    ({"input": [{"type": "thought"}]}, "input[0].type", "'thought'"),
    ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role", "'tool'"),
    (
        {"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        "input[0].content[0].type",
        "'text'",
    ),
    (
        {"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]},
        "input[0].content[0].type",
        "'input_text'",
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
        "input[0].content[0]",
        "image_url",
    ),
    ({"input": [{**USER, "tool_calls": []}]}, "input[0].tool_calls", "Unknown parameter"),
    ({"input": [CALL]}, "input", "No tool output found for function call c"),
    ({"input": [OUTPUT]}, "input[0]", "No tool call found"),
    ({"input": [{**CALL, "id": "call_1"}, OUTPUT]}, "input[0].id", "begins with 'fc'"),
    ({"input": [{**CALL, "call_id": "c" * 65}]}, "input[0].call_id", "64"),
    ({"input": [{"type": "item_reference", "id": "rs_1"}]}, "input[0].id", "not found"),
    (
        {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}, USER]},
        "input[0]",
        "not found",
    ),
    ({"previous_response_id": "resp_none"}, "previous_response_id", "not found"),
    ({"messages": [USER]}, "messages", "Unknown parameter"),
    ({"stop": ["x"]}, "stop", "Unknown parameter"),
    ({"seed": 1}, "seed", "Unknown parameter"),
    ({"n": 2}, "n", "Unknown parameter"),
    ({"max_tokens": 99}, "max_tokens", "Unknown parameter"),
    ({"response_format": {"type": "text"}}, "response_format", "Unknown parameter"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "stream"),
    ({"max_output_tokens": 15}, "max_output_tokens", "Expected a value >= 16"),
    ({"include": ["everything"]}, "include[0]", "'everything'"),
    ({"background": True}, "background", "background"),
    ({"conversation": "conv_1"}, "conversation", "no such"),
    ({"reasoning": {"summary": "long"}}, "reasoning.summary", "'long'"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools[0].name", "Missing"),
    ({"tools": [{"name": "f", "input_schema": CITY}]}, "tools[0].type", "Missing"),
    (
        {"tools": [{"type": "function", "name": "f", "strict": True, "parameters": LOOSE}]},
        "tools[0].parameters",
        "additionalProperties",
    ),
    ({"tool_choice": "required"}, "tool_choice", "must be specified"),
    ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice.name", "not found"),
    ({"text": {"format": {"type": "json_object"}}}, "input", "json"),
    (
        {"text": {"format": {"type": "json_schema", "json_schema": {}}}},
        "text.format.name",
        "Missing",
    ),
]
