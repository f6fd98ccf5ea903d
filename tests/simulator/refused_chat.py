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
    ({"model": MISSING}, "model", "missing required field"),
    ({"model": ""}, "model", ""),
    ({"messages": MISSING}, "messages", "missing required field"),
    ({"messages": []}, "messages", "Expected `array` of length >= 1"),
    ({"messages": "hi"}, "messages", "Expected `array`, got `str`"),
    ({"messages": ["hi"]}, "messages[0]", "Expected `object`, got `str`"),
    ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role", "'robot'"),
    (
        {"messages": [{"role": ["user"], "content": "hi"}]},
        "messages[0].role",
        "Expected `str`, got `list`",
    ),
    ({"messages": [{"content": "hi"}]}, "messages[0].role", "missing required field"),
    (
        {"messages": [{"role": "system", "content": [{"text": "hi"}]}]},
        "messages[0].content[0].type",
        "missing required field",
    ),
    (
        {"messages": [{"role": "system", "content": [{"type": "", "text": "hi"}]}]},
        "messages[0].content[0].type",
        "the type is empty",
    ),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "missing required field"),
    (
        {"messages": [{"role": "user", "content": 3}]},
        "messages[0].content",
        "Expected `str | array`, got `int`",
    ),
    ({"messages": [{**USER, "mood": 1}]}, "messages[0].mood", "unknown field"),
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
    ({"system": "be nice"}, "system", "unknown field"),
    ({"top_k": 5}, "top_k", "unknown field"),
    ({"max_output_tokens": 5}, "max_output_tokens", "unknown field"),
    ({"temperature": 2.5}, "temperature", "Expected `float` <= 2.0"),
    ({"temperature": "[undefined]"}, "temperature", "Expected `float | null`, got `str`"),
    ({"top_p": True}, "top_p", "Expected `float | null`, got `bool`"),
    ({"max_tokens": 0}, "max_tokens", "Expected `int` >= 1"),
    ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens", "at the same time"),
    ({"n": 0}, "n", "Expected `int` >= 1"),
    ({"stop": ["a"] * 5}, "stop", "Expected `array` of length <= 4"),
    ({"top_logprobs": 2}, "top_logprobs", "logprobs"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "stream"),
    ({"reasoning_effort": "huge"}, "reasoning_effort", "'huge'"),
    ({"modalities": ["text", "audio"]}, "modalities", "audio"),
    ({"metadata": {"a": 1}}, "metadata", "Expected `str`, got `int`"),
    ({"metadata": {"b": "", "a" * 65: ""}}, "metadata", "Expected `str` of length <= 64"),
    ({"temperature": 10**400}, "temperature", ""),
    ({"safety_identifier": "x" * 129}, "safety_identifier", "128"),
    ({"tools": []}, "tools", "Expected `array` of length >= 1"),
    ({"tool_choice": "auto"}, "tool_choice", "only allowed when"),
    ({"parallel_tool_calls": False}, "parallel_tool_calls", "only allowed when"),
    ({"tools": [{"type": "function", "name": "f"}]}, "tools[0].name", "unknown field"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "'web_search'"),
    (
        {"tools": [{"type": "function", "function": {"name": "a b"}}]},
        "tools[0].function.name",
        "Expected `str`",
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
        "missing required field",
    ),
    ({"messages": [{**USER, "name": "a b"}]}, "messages[0].name", "Expected `str`"),
    (
        {"messages": [{"role": "user", "content": []}]},
        "messages[0].content",
        "Expected `array` of length >= 1",
    ),
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
        "Expected `str` of length <= 40",
    ),
    (
        {"messages": [USER, {**chat_call(), "tool_calls": []}]},
        "messages[1].tool_calls",
        "Expected `array` of length >= 1",
    ),
    (
        {"messages": [USER, {**chat_call(), "tool_calls": chat_call()["tool_calls"] * 2}]},
        "messages[1]",
        "Duplicate value for 'tool_call_id'",
    ),
    (
        {"messages": [USER, {"role": "assistant", "function_call": {"name": "f"}}]},
        "messages[1].function_call.arguments",
        "missing required field",
    ),
    (
        {"messages": [USER, {"role": "function", "name": "f"}]},
        "messages[1].content",
        "missing required field",
    ),
    ({"n": 129}, "n", "Expected `int` <= 128"),
    ({"top_logprobs": 21, "logprobs": True}, "top_logprobs", "Expected `int` <= 20"),
    ({"presence_penalty": 3}, "presence_penalty", "Expected `float` <= 2.0"),
    ({"logit_bias": {"5": 101}}, "logit_bias", "Expected `float` <= 100.0"),
    (
        {"metadata": {str(n): "" for n in range(17)}},
        "metadata",
        "Expected `object` of length <= 16",
    ),
    ({"metadata": {"a": "x" * 513}}, "metadata", "Expected `str` of length <= 512"),
    ({"service_tier": "ultrafast"}, "service_tier", "Invalid enum value 'ultrafast'"),
    (
        {"prompt_cache_options": {"ttl": "12h"}},
        "prompt_cache_options.ttl",
        "Invalid enum value '12h'",
    ),
    ({"prediction": {"type": "content"}}, "prediction.content", "missing required field"),
    ({"audio": {"format": "mp4", "voice": "a"}}, "audio.format", "'mp4'"),
    (
        {"web_search_options": {"search_context_size": "huge"}},
        "web_search_options.search_context_size",
        "'huge'",
    ),
    ({"moderation": {"policy": {}}}, "moderation.model", "missing required field"),
    ({"functions": [{}]}, "functions[0].name", "missing required field"),
    ({"function_call": "auto"}, "function_call", "only allowed when"),
    (
        {"tools": [chat_tool()] * 129},
        "tools",
        "Expected `array` of length <= 128",
    ),
    (
        {"tools": [chat_tool(name="f" * 65)]},
        "tools[0].function.name",
        "Expected `str`",
    ),
    (
        {"tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "grammar"}}}]},
        "tools[0].custom.format.grammar",
        "missing required field",
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
