"""Wrong requests, one a row: what is set, the field the complaint names, a part of its words."""

from __future__ import annotations

from typing import Any

from tests.simulator.requests import CITY, JsonObject

MISSING = object()
"""Set to this, a field is left out."""

USER: JsonObject = {"role": "user", "content": "hi"}
PIXEL = "iVBORw0KGgo="
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

CHAT_ROWS: list[Row] = [
    ({"model": MISSING}, "model", "Missing required parameter"),
    ({"model": ""}, "model", ""),
    ({"messages": MISSING}, "messages", "Missing required parameter"),
    ({"messages": []}, "messages", "empty array"),
    ({"messages": "hi"}, "messages", "expected an array"),
    ({"messages": ["hi"]}, "messages[0]", "expected an object"),
    ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role", "'robot'"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "Missing"),
    ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content", "expected an array"),
    ({"messages": [{**USER, "mood": 1}]}, "messages[0].mood", "Unknown parameter"),
    ({"messages": [turn({"type": "image"})]}, "messages[0].content[0].type", "'image'"),
    (
        {"messages": [turn({"type": "image_url", "image_url": {"url": "data:;base64,!"}})]},
        "messages[0].content[0].image_url.url",
        "data URL",
    ),
    (
        {"messages": [turn({"type": "file", "file": {"file_data": PIXEL}})]},
        "messages[0].content[0].file",
        "filename",
    ),
    ({"messages": [USER, {"role": "assistant", "content": None}]}, "messages[1]", "got null"),
    ({"messages": [USER, chat_call()]}, "messages", "call_1"),
    ({"messages": [USER, chat_call(), USER]}, "messages", "call_1"),
    ({"messages": [USER, TOOL_RESULT]}, "messages[1].role", "preceding"),
    (
        {"messages": [USER, chat_call(), {**TOOL_RESULT, "tool_call_id": "other"}]},
        "messages[2].role",
        "preceding",
    ),
    (
        {"messages": [USER, chat_call(), {**TOOL_RESULT, "content": [{"type": "image_url"}]}]},
        "messages[2].content[0].type",
        "'image_url'",
    ),
    ({"system": "be nice"}, "system", "Unknown parameter"),
    ({"top_k": 5}, "top_k", "Unknown parameter"),
    ({"max_output_tokens": 5}, "max_output_tokens", "Unknown parameter"),
    ({"temperature": 2.5}, "temperature", "at most 2"),
    ({"temperature": "[undefined]"}, "temperature", "expected a decimal number"),
    ({"top_p": True}, "top_p", "expected a decimal number"),
    ({"max_tokens": 0}, "max_tokens", "at least 1"),
    ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens", "at the same time"),
    ({"n": 0}, "n", "at least 1"),
    ({"stop": ["a"] * 5}, "stop", "at most 4"),
    ({"top_logprobs": 2}, "top_logprobs", "logprobs"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "stream"),
    ({"reasoning_effort": "huge"}, "reasoning_effort", "'huge'"),
    ({"modalities": ["text", "audio"]}, "modalities", "audio"),
    ({"metadata": {"a": 1}}, "metadata.a", "expected a string"),
    ({"safety_identifier": "x" * 129}, "safety_identifier", "128"),
    ({"tools": []}, "tools", "empty array"),
    ({"tool_choice": "auto"}, "tool_choice", "only allowed when"),
    ({"parallel_tool_calls": False}, "parallel_tool_calls", "only allowed when"),
    ({"tools": [{"type": "function", "name": "f"}]}, "tools[0].function", "Missing"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "'web_search'"),
    (
        {"tools": [{"type": "function", "function": {"name": "a b"}}]},
        "tools[0].function.name",
        "pattern",
    ),
    (
        {
            "tools": [
                {"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}
            ]
        },
        "tools[0].function.parameters",
        "object",
    ),
    (
        {
            "tools": [
                {"type": "function", "function": {"name": "f", "strict": True, "parameters": LOOSE}}
            ]
        },
        "tools[0].function.parameters",
        "additionalProperties",
    ),
    (
        {
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "tool_choice": {"type": "function", "function": {"name": "g"}},
        },
        "tool_choice.function.name",
        "not found",
    ),
    (
        {
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "tool_choice": {"type": "tool", "name": "f"},
        },
        "tool_choice.type",
        "'tool'",
    ),
    ({"response_format": {"type": "json_object"}}, "messages", "json"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
        "response_format.json_schema.name",
        "Missing",
    ),
]

MESSAGES_ROWS: list[Row] = [
    ({"model": MISSING}, "model", "Field required"),
    ({"max_tokens": MISSING}, "max_tokens", "Field required"),
    ({"messages": []}, "messages", "at least one"),
    ({"messages": [{"role": "developer", "content": "x"}]}, "messages.0.role", "'developer'"),
    ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", "first message"),
    ({"messages": [{"role": "user", "content": ""}]}, "messages.0.content", "non-empty"),
    ({"messages": [{"role": "user", "content": []}]}, "messages.0.content", "non-empty"),
    ({"messages": [{**USER, "name": "x"}]}, "messages.0.name", "Extra inputs"),
    ({"messages": [turn({"type": "text", "text": " "})]}, "messages.0.content.0", "non-empty"),
    ({"messages": [turn({"type": "image_url"})]}, "messages.0.content.0.type", "'image_url'"),
    (
        {"messages": [turn({"type": "text", "text": "x", "detail": "low"})]},
        "messages.0.content.0.detail",
        "Extra inputs",
    ),
    (
        {"messages": [turn({"type": "text", "text": "x", "citations": [{}]})]},
        "messages.0.content.0.citations",
        "not permitted",
    ),
    (
        {
            "messages": [
                turn(
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/bmp", "data": PIXEL},
                    }
                )
            ]
        },
        "messages.0.content.0.source.media_type",
        "image/bmp",
    ),
    (
        {
            "messages": [
                turn(
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "%%"},
                    }
                )
            ]
        },
        "messages.0.content.0.source.data",
        "base64",
    ),
    (
        {
            "messages": [
                turn(document({"type": "base64", "media_type": "text/csv", "data": "YQ=="}))
            ]
        },
        "messages.0.content.0.source.media_type",
        "text/csv",
    ),
    (
        {
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "content": [
                        document({"type": "text", "media_type": "text/plain", "data": "x"})
                    ],
                },
            ]
        },
        "messages.1.content.0.type",
        "'document'",
    ),
    ({"messages": [USER, use()]}, "messages.1", "toolu_1"),
    ({"messages": [USER, use(), USER]}, "messages.2", "toolu_1"),
    (
        {"messages": [USER, use("a.b"), turn(result("a.b"))]},
        "messages.1.content.0.id",
        "pattern",
    ),
    ({"messages": [turn(result())]}, "messages.0.content.0", "unexpected"),
    (
        {"messages": [USER, use(), turn({"type": "text", "text": "so"}, result())]},
        "messages.2.content.1",
        "come first",
    ),
    (
        {"messages": [USER, use(), turn(result(), result())]},
        "messages.2.content.1",
        "single result",
    ),
    (
        {"messages": [USER, use(), turn(result()), use(), turn(result())]},
        "messages.3.content.0.id",
        "unique",
    ),
    (
        {"messages": [USER, use(), turn(result(content=[{"type": "text", "text": ""}]))]},
        "messages.2.content.0.content.0",
        "non-empty",
    ),
    (
        {"messages": [{"role": "system", "content": "x"}, USER]},
        "messages",
        "first message",
    ),
    (
        {"messages": [USER, {"role": "system", "content": "x"}, USER]},
        "messages.1",
        "directly follow a user turn",
    ),
    (
        {
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "content": [{"type": "thinking", "thinking": "x", "signature": "abc"}],
                },
                USER,
            ]
        },
        "messages.1.content.0",
        "signature",
    ),
    ({"temperature": 1}, "temperature", "removed"),
    ({"top_k": 5}, "top_k", "removed"),
    ({"n": 1}, "n", "Extra inputs"),
    ({"context_management": {}}, "context_management", "Extra inputs"),
    ({"metadata": {"a": "b"}}, "metadata.a", "Extra inputs"),
    ({"stop_sequences": [" "]}, "stop_sequences.0", "non-whitespace"),
    ({"system": [{"type": "text", "text": ""}]}, "system.0", "non-empty"),
    ({"thinking": {"type": "enabled", "budget_tokens": 100}}, "thinking.budget_tokens", "1024"),
    ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, "`max_tokens`", "greater"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens", "Field required"),
    (
        {
            "thinking": {"type": "adaptive"},
            "tools": [{"name": "f", "input_schema": CITY}],
            "tool_choice": {"type": "any"},
        },
        "Thinking",
        "forces tool use",
    ),
    (
        {
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "messages": [USER, use(), turn(result())],
        },
        "messages.1.content",
        "must start with a thinking block",
    ),
    ({"output_config": {"effort": "none"}}, "output_config.effort", "'none'"),
    ({"tools": [{"name": "f"}]}, "tools.0.input_schema", "Field required"),
    ({"tools": [{"name": "f", "input_schema": {}}]}, "tools.0.input_schema.type", "Field required"),
    (
        {"tools": [{"name": "f", "input_schema": {"type": "array"}}]},
        "tools.0.input_schema.type",
        "'array'",
    ),
    ({"tools": [{"name": "a b", "input_schema": CITY}]}, "tools.0.name", "pattern"),
    ({"tools": [{"name": "f", "parameters": CITY}]}, "tools.0.input_schema", "Field required"),
    (
        {"tools": [{"type": "function", "name": "f", "input_schema": CITY}]},
        "tools.0.type",
        "'function'",
    ),
    (
        {"tools": [{"name": "f", "input_schema": CITY}, {"name": "f", "input_schema": CITY}]},
        "tools",
        "unique",
    ),
    ({"tool_choice": {"type": "auto"}}, "tool_choice", "providing tools"),
    (
        {
            "tools": [{"name": "f", "input_schema": CITY}],
            "tool_choice": {"type": "tool", "name": "g"},
        },
        "Tool 'g'",
        "not found",
    ),
    (
        {"tools": [{"name": "f", "input_schema": CITY}], "tool_choice": {"type": "required"}},
        "tool_choice.type",
        "'required'",
    ),
    (
        {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5},
        "",
        "A maximum of 4",
    ),
]

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
    ({"max_output_tokens": 15}, "max_output_tokens", "at least 16"),
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
    ({"text": {"format": {"type": "json_object"}}}, "text.format", "json"),
    (
        {"text": {"format": {"type": "json_schema", "json_schema": {}}}},
        "text.format.name",
        "Missing",
    ),
]
