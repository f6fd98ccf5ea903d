"""Messages requests that the service refuses."""

from __future__ import annotations

from tests.simulator.refused import (
    MISSING,
    PIXEL,
    USER,
    Row,
    document,
    result,
    turn,
    use,
)
from tests.simulator.requests import CITY

CITATION = {
    "type": "web_search_result_location",
    "url": "https://example.com/",
    "encrypted_index": "x",
    "cited_text": "x",
}

MESSAGES_ROWS: list[Row] = [
    ({"model": MISSING}, "model", "Field required"),
    ({"max_tokens": MISSING}, "max_tokens", "Field required"),
    ({"messages": []}, "messages", "at least one"),
    (
        {"messages": [{"role": "developer", "content": "x"}]},
        "messages.0.role",
        "'assistant' or 'system'",
    ),
    ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", "first message"),
    ({"messages": [{"role": "user", "content": ""}]}, "messages.0.content", "non-empty"),
    ({"messages": [{"role": "user", "content": []}]}, "messages.0.content", "non-empty"),
    ({"messages": [{**USER, "name": "x"}]}, "messages.0.name", "Extra inputs"),
    ({"messages": [turn({"type": "text", "text": " "})]}, "messages.0.content.0", "non-whitespace"),
    ({"messages": [turn({"type": "image_url"})]}, "messages.0.content.0", "Input tag 'image_url'"),
    (
        {"messages": [turn({"type": "text", "text": "x", "detail": "low"})]},
        "messages.0.content.0.text.detail",
        "Extra inputs",
    ),
    (
        {"messages": [turn({"type": "text", "text": "x", "citations": [CITATION]})]},
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
        "messages.0.content.0.image.source.base64.media_type",
        "'image/jpeg'",
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
        "messages.0.content.0.image.source.base64.data",
        "base64",
    ),
    (
        {
            "messages": [
                turn(document({"type": "base64", "media_type": "text/csv", "data": "YQ=="}))
            ]
        },
        "messages.0.content.0.document.source.base64.media_type",
        "'application/pdf'",
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
        "messages.1.content.0",
        "Input tag 'document'",
    ),
    ({"messages": [USER, use()]}, "messages.1", "toolu_1"),
    ({"messages": [USER, use(), USER]}, "messages.2", "toolu_1"),
    (
        {"messages": [USER, use("a.b"), turn(result("a.b"))]},
        "messages.1.content.0.tool_use.id",
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
        "messages.2.content.0.tool_result.content.0",
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
    (
        {"thinking": {"type": "enabled", "budget_tokens": 100}},
        "thinking.enabled.budget_tokens",
        "1024",
    ),
    ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, "`max_tokens`", "greater"),
    ({"thinking": {"type": "enabled"}}, "thinking.enabled.budget_tokens", "Field required"),
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
    ({"output_config": {"effort": "none"}}, "output_config.effort", "'xhigh' or 'max'"),
    ({"tools": [{"name": "f"}]}, "tools.0.custom.input_schema", "Field required"),
    (
        {"tools": [{"name": "f", "input_schema": {}}]},
        "tools.0.custom.input_schema.type",
        "Field required",
    ),
    (
        {"tools": [{"name": "f", "input_schema": {"type": "array"}}]},
        "tools.0.custom.input_schema.type",
        "'object'",
    ),
    ({"tools": [{"name": "a b", "input_schema": CITY}]}, "tools.0.custom.name", "pattern"),
    (
        {"tools": [{"name": "f", "parameters": CITY}]},
        "tools.0.custom.input_schema",
        "Field required",
    ),
    (
        {"tools": [{"type": "function", "name": "f", "input_schema": CITY}]},
        "tools.0",
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
        "tool_choice",
        "'required'",
    ),
    (
        {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5},
        "",
        "A maximum of 4",
    ),
]
