"""Messages requests that the service refuses."""

from __future__ import annotations

from dragoman.lab.simulator.seals import sign_thinking
from tests.simulator.refused import (
    LOOSE,
    MISSING,
    ORGANIZATION,
    PIXEL,
    USER,
    Row,
    closed,
    document,
    result,
    turn,
    use,
)
from tests.simulator.requests import CITY, JsonObject

CITATION = {
    "type": "web_search_result_location",
    "url": "https://example.com/",
    "encrypted_index": "x",
    "cited_text": "x",
}

TEXT = {"type": "text", "text": "x"}
CACHED = {"type": "ephemeral"}
DEFERRED = {"name": "g", "input_schema": CITY, "defer_loading": True}
REFERENCE = {"type": "tool_reference", "tool_name": "g"}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
SEARCHED = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
NOT_ENFORCED: list[tuple[JsonObject, str]] = [
    ({"type": "integer", "minimum": 1}, "For 'integer' type, property 'minimum' is not supported"),
    (
        {"type": "string", "minLength": 1, "maxLength": 2},
        "For 'string' type, properties minLength, maxLength are not supported",
    ),
    ({"type": "array", "minItems": 2}, "'minItems' values other than 0 or 1"),
    ({"type": "object"}, "'additionalProperties' must be explicitly set to false"),
    ({"oneOf": [{"type": "null"}]}, "'oneOf' is not supported"),
    ({"type": "string", "format": "binary"}, "'binary' is not supported"),
]


def said(*blocks: JsonObject) -> JsonObject:
    return {"role": "assistant", "content": list(blocks)}


def with_name(name: str) -> JsonObject:
    return said({**use()["content"][0], "name": name})


def thinking(organization: str = ORGANIZATION) -> JsonObject:
    """A thinking block as the simulator gives it to the keys of an organisation."""
    signature = sign_thinking("hm", organization)
    return {"type": "thinking", "thinking": "hm", "signature": signature}


MESSAGES_ROWS: list[Row] = [
    ({"model": MISSING}, "model", "missing required field"),
    ({"max_tokens": MISSING}, "max_tokens", "missing required field"),
    ({"max_tokens": None}, "max_tokens", "Expected `int`, got `null`"),
    ({"messages": [{"role": {}, "content": "x"}]}, "messages.0.role", "Expected `str`, got `dict`"),
    ({"system": [{"text": "x"}]}, "system.0.type", "missing required field"),
    (
        {"system": [{"type": "text", "text": "x", "cache_control": {"ttl": "5m"}}]},
        "system.0.cache_control.type",
        "missing required field",
    ),
    (
        {"messages": [USER, use(), turn(result(content=[{**REFERENCE, "tool_name": []}]))]},
        "messages.2.content.0.content.0.tool_name",
        "Expected `str`, got `array`",
    ),
    ({"messages": [turn({"type": "compaction"})]}, "messages.0.content.0", "'compaction'"),
    ({"messages": []}, "messages", "at least one"),
    (
        {"messages": [{"role": "developer", "content": "x"}]},
        "messages.0.role",
        "Invalid value 'developer'",
    ),
    ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", "first message"),
    ({"messages": [{"role": "user", "content": ""}]}, "messages.0.content", "non-empty"),
    ({"messages": [{"role": "user", "content": []}]}, "messages.0.content", "non-empty"),
    ({"messages": [{**USER, "name": "x"}]}, "messages.0.name", "unknown field"),
    ({"messages": [turn({"type": "text", "text": " "})]}, "messages.0.content.0", "non-whitespace"),
    (
        {"messages": [turn({"type": "image_url"})]},
        "messages.0.content.0.type",
        "Invalid value 'image_url'",
    ),
    (
        {"messages": [turn({"type": "text", "text": "x", "detail": "low"})]},
        "messages.0.content.0.detail",
        "unknown field",
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
        "messages.0.content.0.source.media_type",
        "Invalid enum value 'image/bmp'",
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
        "Invalid enum value 'text/csv'",
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
        "Invalid value 'document'",
    ),
    ({"messages": [USER, use()]}, "messages.1", "toolu_1"),
    ({"messages": [USER, use(), USER]}, "messages.2", "toolu_1"),
    (
        {"messages": [USER, use("a.b"), turn(result("a.b"))]},
        "messages.1.content.0.id",
        "Expected `str`",
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
    ({"n": 1}, "n", "unknown field"),
    ({"context_management": {}}, "context_management", "The field is not known here"),
    ({"metadata": {"a": "b"}}, "metadata.a", "unknown field"),
    ({"stop_sequences": [" "]}, "stop_sequences.0", "non-whitespace"),
    ({"system": [{"type": "text", "text": ""}]}, "system.0", "non-empty"),
    (
        {"thinking": {"type": "enabled", "budget_tokens": 100}},
        "thinking.budget_tokens",
        "Expected `int` >= 1024",
    ),
    ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, "max_tokens", "greater"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens", "missing required field"),
    (
        {
            "thinking": {"type": "adaptive"},
            "tools": [{"name": "f", "input_schema": CITY}],
            "tool_choice": {"type": "any"},
        },
        "thinking",
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
    ({"output_config": {"effort": "none"}}, "output_config.effort", "Invalid enum value 'none'"),
    ({"tools": [{"name": "f"}]}, "tools.0.custom.input_schema", "missing required field"),
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
    ({"tools": [{"name": "a b", "input_schema": CITY}]}, "tools.0.custom.name", "Expected `str`"),
    (
        {"tools": [{"name": "f", "parameters": CITY}]},
        "tools.0.custom.parameters",
        "unknown field",
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
        "tool_choice.name",
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
    (
        {"messages": [{"role": "user", "content": "  "}]},
        "messages.0.content",
        "non-whitespace text",
    ),
    ({"messages": [turn({"type": "text", "text": ""})]}, "messages.0.content.0", "be non-empty"),
    (
        {"messages": [USER, use(), turn({"type": "text", "text": "so"}), turn(result())]},
        "messages.3.content.0",
        "come first",
    ),
    (
        {"messages": [USER, with_name("a.b"), turn(result())]},
        "messages.1.content.0.name",
        "Expected `str`",
    ),
    (
        {"messages": [USER, use(), turn(result(is_error=True, content=[IMAGE]))]},
        "messages.2.content.0",
        "must be type `text` if `is_error` is true",
    ),
    (
        {"messages": [USER, use(), turn(result(content=[REFERENCE]))]},
        "messages.2.content.0",
        "not found in available tools",
    ),
    (
        {"messages": [turn({"type": "image", "source": {"type": "url", "url": "http://x/a.png"}})]},
        "messages.0.content.0.source.url",
        "Only HTTPS",
    ),
    (
        {"messages": [USER, said({"type": "thinking", "thinking": "x", "signature": ""}), USER]},
        "messages.1.content.0",
        "Invalid `signature` in `thinking` block",
    ),
    (
        {"messages": [USER, said(thinking("organization-b"), TEXT), USER]},
        "messages.1.content.0",
        "Invalid `signature` in `thinking` block",
    ),
    (
        {"messages": [USER, said({"type": "redacted_thinking", "data": "abc"}, TEXT), USER]},
        "messages.1.content.0",
        "Invalid `data`",
    ),
    (
        {"messages": [USER, said(TEXT, thinking()), USER]},
        "messages.1",
        "The final block in an assistant message cannot be `thinking`",
    ),
    (
        {"messages": [USER, said({**TEXT, "citations": [{"type": "url_citation"}]}), USER]},
        "messages.1.content.0.citations.0.type",
        "Invalid value 'url_citation'",
    ),
    (
        {"messages": [USER, said(SEARCHED), USER]},
        "messages.1.content.0",
        "corresponding `server_tool_use` block",
    ),
    (
        {"messages": [USER, {"role": "assistant", "content": "so "}]},
        "messages",
        "trailing whitespace",
    ),
    (
        {
            "messages": [USER, {"role": "assistant", "content": "so"}],
            "thinking": {"type": "adaptive"},
        },
        "messages.1",
        "must end with a user message",
    ),
    (
        {
            "messages": [USER, {"role": "assistant", "content": "so"}],
            "output_config": {"format": {"type": "json_schema", "schema": closed({})}},
        },
        "messages.1",
        "structured outputs",
    ),
    (
        {"thinking": {"type": "enabled", "budget_tokens": 4096}, "max_tokens": 4096},
        "max_tokens",
        "greater than `thinking.budget_tokens`",
    ),
    ({"thinking": {"type": "disabled", "display": "omitted"}}, "thinking.display", "unknown field"),
    ({"thinking": {"type": "on"}}, "thinking.type", "Invalid value 'on'"),
    ({"top_p": 0.5}, "top_p", "removed in API version 2026-10-21"),
    ({"metadata": {"user_id": "x" * 513}}, "metadata.user_id", "Expected `str` of length <= 512"),
    ({"service_tier": "priority"}, "service_tier", "Invalid enum value 'priority'"),
    ({"container": {"skill": []}}, "container.skill", "unknown field"),
    (
        {"output_config": {"task_budget": {}}},
        "output_config.task_budget",
        "The field is not known here",
    ),
    ({"system": [{"type": "image"}]}, "system.0.type", "Invalid value 'image'"),
    ({"max_tokens": -1}, "max_tokens", "Expected `int` >= 0"),
    (
        {"tools": [{"name": "f" * 129, "input_schema": CITY}]},
        "tools.0.custom.name",
        "Expected `str`",
    ),
    ({"tools": [{"type": "bash_1"}]}, "tools.0", "Input tag 'bash_1'"),
    (
        {"tools": [{"type": "bash_20250124", "name": "bash", "timeout": 5}]},
        "tools.0.bash_20250124.timeout",
        "unknown field",
    ),
    (
        {"tools": [{"name": "f", "input_schema": CITY, "defer_loading": True}]},
        "tools",
        "defer_loading=false",
    ),
    (
        {"tools": [{"name": "f", "input_schema": CITY}, {**DEFERRED, "cache_control": CACHED}]},
        "tools.1",
        "cannot use prompt caching",
    ),
    (
        {"tools": [{"name": "f", "input_schema": {**CITY, "anyOf": []}}]},
        "tools.0.custom.input_schema",
        "does not support oneOf, allOf, or anyOf at the top level",
    ),
    (
        {"tools": [{"name": "f", "input_schema": {"type": "object", "required": True}}]},
        "tools.0.custom.input_schema",
        "draft 2020-12",
    ),
    (
        {"tools": [{"name": "f", "input_schema": {"type": "object", "properties": {"a b": {}}}}]},
        "tools.0.custom.input_schema.properties",
        "Property keys should match pattern",
    ),
    (
        {"tools": [{"name": "f", "input_schema": LOOSE, "strict": True}]},
        "tools.0.custom.input_schema",
        "'additionalProperties' must be explicitly set to false",
    ),
    *(
        (
            {"output_config": {"format": {"type": "json_schema", "schema": closed(schema)}}},
            "output_config.format.schema",
            words,
        )
        for schema, words in NOT_ENFORCED
    ),
    (
        {
            "system": [
                {**TEXT, "cache_control": CACHED},
                {**TEXT, "cache_control": {**CACHED, "ttl": "1h"}},
            ]
        },
        "a ttl='1h'",
        "must not come after",
    ),
    (
        {"system": [{**TEXT, "cache_control": {"type": "ephemeral", "ttl": "2h"}}]},
        "system.0.cache_control.ttl",
        "Invalid enum value '2h'",
    ),
]
