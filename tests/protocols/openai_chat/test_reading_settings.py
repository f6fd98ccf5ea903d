"""Tools and settings of a client's Chat request, in canonical form."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.requests import (
    CustomTool,
    FunctionTool,
    Grammar,
    HostedTool,
    JsonObject,
    JsonSchema,
    SearchTool,
    Thinking,
    ToolChoice,
    ToolRef,
)
from tests.protocols.openai_chat.helpers import (
    CONTENT,
    CONVERTED,
    HI,
    KNOB,
    PNG_URL,
    SCHEMA,
    extras,
    read,
    refusal,
)


class TestTools:
    def test_function_tools(self) -> None:
        """Name, description and schema as given. req: 42"""
        tools = [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "d",
                    "parameters": SCHEMA,
                    "strict": True,
                },
            },
            {"type": "function", "function": {"name": "g", "parameters": None}},
        ]
        assert read(tools=tools).tools == (
            FunctionTool(
                name="f",
                description="d",
                schema=SCHEMA,
                strict=True,
                path="tools[0].function",
            ),
            FunctionTool(name="g", path="tools[1].function"),
        )

    def test_custom_tools(self) -> None:
        """Definitions with and without a grammar. req: 41"""
        grammar = {"syntax": "lark", "definition": "start: X"}
        tools = [
            {"type": "custom", "custom": {"name": "f", "format": {"type": "text"}}},
            {
                "type": "custom",
                "custom": {
                    "name": "g",
                    "description": "d",
                    "format": {"type": "grammar", "grammar": grammar},
                },
            },
        ]
        assert read(tools=tools).tools == (
            CustomTool(name="f", path="tools[0].custom"),
            CustomTool(
                name="g",
                description="d",
                grammar=Grammar("lark", "start: X"),
                path="tools[1].custom",
            ),
        )

    def test_legacy_functions_become_tools(self) -> None:
        request = read(functions=[{"name": "f", "parameters": SCHEMA}], function_call={"name": "f"})
        assert request.tools == (FunctionTool(name="f", schema=SCHEMA, path="functions[0]"),)
        assert request.tool_choice == ToolChoice(
            mode="tool", tool=ToolRef("f"), path="function_call"
        )
        assert extras(request) == {("functions", CONVERTED)}

    def test_web_search_is_a_hosted_tool(self) -> None:
        raw = {"search_context_size": "low"}
        assert read(web_search_options=raw).tools == (
            HostedTool(
                origin="openai_chat",
                type="web_search_options",
                raw=raw,
                search=SearchTool(context_size="low"),
                path="web_search_options",
            ),
        )

    @pytest.mark.parametrize(
        ("given", "choice"),
        [
            ("auto", ToolChoice(mode="auto", path="tool_choice")),
            ("none", ToolChoice(mode="none", path="tool_choice")),
            ("required", ToolChoice(mode="required", path="tool_choice")),
            (
                {"type": "function", "function": {"name": "f"}},
                ToolChoice(mode="tool", tool=ToolRef("f"), path="tool_choice"),
            ),
            (
                {"type": "custom", "custom": {"name": "f"}},
                ToolChoice(mode="tool", tool=ToolRef("f", custom=True), path="tool_choice"),
            ),
            (
                {
                    "type": "allowed_tools",
                    "allowed_tools": {
                        "mode": "required",
                        "tools": [
                            {"type": "function", "function": {"name": "f"}},
                            {"type": "custom", "custom": {"name": "g"}},
                        ],
                    },
                },
                ToolChoice(
                    mode="required",
                    allowed=(ToolRef("f"), ToolRef("g", custom=True)),
                    path="tool_choice",
                ),
            ),
        ],
    )
    def test_choices(self, given: Any, choice: ToolChoice) -> None:
        """All forms of tool_choice. req: 43"""
        assert read(tool_choice=given).tool_choice == choice


@pytest.mark.parametrize(
    ("field", "value", "name", "canonical"),
    [
        ("max_completion_tokens", 5, "max_output_tokens", 5),
        ("max_tokens", 5, "max_output_tokens", 5),
        ("temperature", 0, "temperature", 0.0),
        ("top_p", 0.5, "top_p", 0.5),
        ("top_k", 40, "top_k", 40),
        ("top_k", -1, "top_k", None),
        ("stop", "a", "stop", ("a",)),
        ("stop", ["a", "b"], "stop", ("a", "b")),
        ("logprobs", True, "logprobs", True),
        ("top_logprobs", 2, "top_logprobs", 2),
        ("parallel_tool_calls", False, "parallel_tool_calls", False),
        ("verbosity", "low", "verbosity", "low"),
        ("reasoning_effort", "high", "thinking", Thinking(effort="high")),
        ("stream", True, "stream", True),
        ("stream_options", {"include_usage": True}, "include_usage", True),
        ("metadata", {"a": "b"}, "metadata", {"a": "b"}),
        ("user", "u", "user", "u"),
        ("safety_identifier", "u", "safety_identifier", "u"),
        ("prompt_cache_key", "k", "prompt_cache_key", "k"),
        ("prompt_cache_retention", "24h", "prompt_cache_retention", "24h"),
        (
            "prompt_cache_options",
            {"mode": "explicit"},
            "prompt_cache_options",
            {"mode": "explicit"},
        ),
        ("service_tier", "flex", "service_tier", "flex"),
        ("moderation", {"model": "x"}, "moderation", {"model": "x"}),
        ("store", True, "store", True),
        ("response_format", {"type": "text"}, "output_format", None),
        ("response_format", {"type": "json_object"}, "output_format", JsonObject()),
        (
            "response_format",
            {
                "type": "json_schema",
                "json_schema": {"name": "n", "description": "d", "schema": SCHEMA, "strict": True},
            },
            "output_format",
            JsonSchema(schema=SCHEMA, name="n", description="d", strict=True),
        ),
    ],
)
def test_settings(field: str, value: Any, name: str, canonical: Any) -> None:
    """Each setting has its canonical home; 0 is a value. req: 9, 28"""
    request = read(**{field: value})
    assert getattr(request, name) == canonical
    assert request.extras == ()


def test_the_newer_output_limit_wins() -> None:
    request = read(max_completion_tokens=5, max_tokens=6)
    assert request.max_output_tokens == 5
    assert request.path_of("max_output_tokens") == "max_completion_tokens"
    assert extras(request) == {("max_tokens", KNOB)}
    assert read(max_tokens=6).path_of("max_output_tokens") == "max_tokens"


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("n", 2, CONTENT),
        ("modalities", ["text", "audio"], CONTENT),
        ("audio", {"format": "wav", "voice": "ash"}, CONTENT),
        ("seed", 1, KNOB),
        ("logit_bias", {"1": 2}, KNOB),
        ("frequency_penalty", 0.5, KNOB),
        ("presence_penalty", 0.5, KNOB),
        ("prediction", {"type": "content", "content": "x"}, KNOB),
        ("min_p", 0.1, KNOB),
        ("chat_template_kwargs", {"enable_thinking": False}, KNOB),
        ("reasoning", {"effort": "low"}, KNOB),
        ("something_new", {"a": 1}, KNOB),
    ],
)
def test_fields_without_a_home_are_kept_in_view(field: str, value: Any, kind: Any) -> None:
    """Nothing vanishes; several choices and sound are content. req: 34, 61"""
    assert extras(read(**{field: value})) == {(field, kind)}


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 1},
        {"modalities": ["text"]},
        {"logit_bias": {}},
        {"frequency_penalty": 0},
        {"presence_penalty": 0.0},
        {"stream_options": {"include_obfuscation": False}},
        {"tools": [], "functions": None, "stop": None, "tool_choice": None, "seed": None},
    ],
)
def test_values_that_ask_for_nothing_are_no_loss(fields: dict[str, Any]) -> None:
    assert read(**fields).extras == ()


def test_unknown_fields_anywhere_are_kept_in_view() -> None:
    request = read(
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": PNG_URL, "x": 1}, "y": 2}],
            "z": 3,
        },
        {"role": "assistant", "content": "a", "annotations": [{"type": "url_citation"}]},
        tools=[{"type": "function", "function": {"name": "f", "x": 1}, "cache_control": {}}],
        stream_options={"include_obfuscation": True},
    )
    assert extras(request) == {
        ("messages[0].content[0].image_url.x", KNOB),
        ("messages[0].content[0].y", KNOB),
        ("messages[0].z", KNOB),
        ("messages[1].annotations", KNOB),
        ("tools[0].function.x", KNOB),
        ("tools[0].cache_control", KNOB),
        ("stream_options.include_obfuscation", KNOB),
    }


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 5}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"temperature": "[undefined]"}, "temperature"),
        ({"temperature": 3}, "temperature"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": "[undefined]"}, "n"),
        ({"n": 0}, "n"),
        ({"seed": "x"}, "seed"),
        ({"frequency_penalty": "[undefined]"}, "frequency_penalty"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a", 5]}, "stop[1]"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
            "tools[0].function.parameters",
        ),
        (
            {"tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "x"}}}]},
            "tools[0].custom.format.type",
        ),
        ({"tool_choice": "any"}, "tool_choice"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"function_call": "required"}, "function_call"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"reasoning_effort": "extreme"}, "reasoning_effort"),
        ({"metadata": {"a": 1}}, "metadata.a"),
    ],
)
def test_bad_settings_are_refused_at_the_field(fields: dict[str, Any], path: str) -> None:
    """Wrong types, unknown words and missing fields name themselves. req: 154"""
    body = {"model": "m", "messages": [HI], **fields}
    assert refusal(*[], **body) == path


def test_a_schema_nested_without_end_is_refused() -> None:
    schema: dict[str, Any] = {}
    inner = schema
    for _ in range(100):
        inner["items"] = {}
        inner = inner["items"]
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    assert refusal(tools=[tool]) == "tools[0].function.parameters"
