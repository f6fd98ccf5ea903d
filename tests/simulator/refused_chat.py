"""Chat Completions requests that the service refuses."""

from __future__ import annotations

from tests.simulator.refused import (
    BITMAP,
    GRAMMAR,
    LOOSE,
    MISSING,
    NOT_STRICT,
    PARAMETERS,
    PDF,
    PIXEL,
    TOOL_RESULT,
    USER,
    Row,
    chat_call,
    chat_tool,
    closed,
    turn,
)

WAVE = {"data": "%", "format": "wav"}

CHAT_ROWS: list[Row] = [
    ({"model": MISSING}, "model", "Missing required parameter"),
    ({"model": ""}, "model", ""),
    ({"messages": MISSING}, "messages", "Missing required parameter"),
    ({"messages": []}, "messages", "empty array"),
    ({"messages": "hi"}, "messages", "expected an array"),
    ({"messages": ["hi"]}, "messages[0]", "expected an object"),
    ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role", "'robot'"),
    ({"messages": [{"role": ["user"], "content": "hi"}]}, "messages[0].role", "got an array"),
    ({"messages": [{"content": "hi"}]}, "messages[0].role", "Missing"),
    (
        {"messages": [{"role": "system", "content": [{"text": "hi"}]}]},
        "messages[0].content[0].type",
        "Missing",
    ),
    (
        {"messages": [{"role": "system", "content": [{"type": "", "text": "hi"}]}]},
        "messages[0].content[0].type",
        "the type is empty",
    ),
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
        {"messages": [turn({"type": "file", "file": {"file_data": PDF}})]},
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
    ({"temperature": 2.5}, "temperature", "decimal above maximum value. Expected a value <= 2"),
    ({"temperature": "[undefined]"}, "temperature", "expected a decimal number"),
    ({"top_p": True}, "top_p", "expected a decimal number"),
    ({"max_tokens": 0}, "max_tokens", "integer below minimum value"),
    ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens", "at the same time"),
    ({"n": 0}, "n", "Expected a value >= 1"),
    ({"stop": ["a"] * 5}, "stop", "array too long. Expected an array with maximum length 4"),
    ({"top_logprobs": 2}, "top_logprobs", "logprobs"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "stream"),
    ({"reasoning_effort": "huge"}, "reasoning_effort", "'huge'"),
    ({"modalities": ["text", "audio"]}, "modalities", "audio"),
    ({"metadata": {"a": 1}}, "metadata.a", "expected a string"),
    ({"metadata": {"b": "", "a" * 65: ""}}, "metadata", "maximum length 64, but got a string with"),
    ({"temperature": 10**400}, "temperature", ""),
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
    ({"messages": [{**USER, "name": "a b"}]}, "messages[0].name", "pattern"),
    ({"messages": [{"role": "user", "content": []}]}, "messages[0].content", "empty array"),
    (
        {"messages": [turn({"type": "image_url", "image_url": {"url": "ftp://x/a.png"}})]},
        "messages[0].content[0].image_url.url",
        "valid URL",
    ),
    (
        {"messages": [turn({"type": "image_url", "image_url": {"url": BITMAP}})]},
        "messages[0].content[0].image_url.url",
        "unsupported MIME type 'image/bmp'",
    ),
    (
        {"messages": [turn({"type": "file", "file": {"file_data": PIXEL, "filename": "a.pdf"}})]},
        "messages[0].content[0].file.file_data",
        "data URL",
    ),
    (
        {"messages": [turn({"type": "input_audio", "input_audio": WAVE})]},
        "messages[0].content[0].input_audio.data",
        "base64",
    ),
    (
        {"messages": [USER, chat_call("c" * 41)]},
        "messages[1].tool_calls[0].id",
        "maximum length 40, but got a string with length 41",
    ),
    (
        {"messages": [USER, {**chat_call(), "tool_calls": []}]},
        "messages[1].tool_calls",
        "empty array",
    ),
    (
        {"messages": [USER, {**chat_call(), "tool_calls": chat_call()["tool_calls"] * 2}]},
        "messages[1]",
        "Duplicate value for 'tool_call_id'",
    ),
    (
        {"messages": [USER, {"role": "assistant", "function_call": {"name": "f"}}]},
        "messages[1].function_call.arguments",
        "Missing",
    ),
    ({"messages": [USER, {"role": "function", "name": "f"}]}, "messages[1].content", "Missing"),
    ({"n": 129}, "n", "above maximum value"),
    ({"top_logprobs": 21, "logprobs": True}, "top_logprobs", "Expected a value <= 20"),
    ({"presence_penalty": 3}, "presence_penalty", "decimal above maximum"),
    ({"logit_bias": {"5": 101}}, "logit_bias.5", "<= 100"),
    ({"metadata": {str(n): "" for n in range(17)}}, "metadata", "too many properties"),
    ({"metadata": {"a": "x" * 513}}, "metadata.a", "maximum length 512"),
    ({"service_tier": "ultrafast"}, "service_tier", "'priority'"),
    ({"prompt_cache_options": {"ttl": "12h"}}, "prompt_cache_options.ttl", "'30m'"),
    ({"prediction": {"type": "content"}}, "prediction.content", "Missing"),
    ({"audio": {"format": "mp4", "voice": "a"}}, "audio.format", "'mp4'"),
    (
        {"web_search_options": {"search_context_size": "huge"}},
        "web_search_options.search_context_size",
        "'huge'",
    ),
    ({"moderation": {"policy": {}}}, "moderation.model", "Missing"),
    ({"functions": [{}]}, "functions[0].name", "Missing"),
    ({"function_call": "auto"}, "function_call", "only allowed when"),
    (
        {"tools": [chat_tool()] * 129},
        "tools",
        "maximum length 128",
    ),
    (
        {"tools": [chat_tool(name="f" * 65)]},
        "tools[0].function.name",
        "does not match pattern",
    ),
    (
        {"tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "grammar"}}}]},
        "tools[0].custom.format.grammar",
        "Missing",
    ),
    (
        {"tools": [{"type": "custom", "custom": {"name": "f", "format": GRAMMAR}}]},
        "tools[0].custom.format.grammar.syntax",
        "'ebnf'",
    ),
    *(
        ({"tools": [chat_tool(parameters=schema)]}, "tools[0].function.parameters", words)
        for schema, words in PARAMETERS
    ),
    *(
        (
            {"tools": [chat_tool(parameters=closed(schema), strict=True)]},
            "tools[0].function.parameters",
            words,
        )
        for schema, words in NOT_STRICT
    ),
    *(
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "strict": True, "schema": closed(schema)},
                }
            },
            "response_format.json_schema.schema",
            words,
        )
        for schema, words in NOT_STRICT
    ),
]
