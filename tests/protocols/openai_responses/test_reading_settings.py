"""The settings of a request become canonical, or are reported under their own names."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.canonical.blocks import Text
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    CustomTool,
    FunctionTool,
    Grammar,
    HostedTool,
    JsonObject,
    JsonSchema,
    Thinking,
    ToolChoice,
    ToolRef,
)
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.machine_tools import MACHINE_TOOLS
from tests.protocols.openai_responses.helpers import (
    CONTENT,
    CONVERTED,
    KNOB,
    body_of,
    extras,
    read,
)

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
F = {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"max_output_tokens": 100}, "max_output_tokens", 100),
        ({"temperature": 0}, "temperature", 0.0),
        ({"top_p": 0.5}, "top_p", 0.5),
        ({"parallel_tool_calls": False}, "parallel_tool_calls", False),
        ({"stream": True}, "stream", True),
        ({"store": False}, "store", False),
        ({"store": True}, "store", True),
        ({"metadata": {"a": "b"}}, "metadata", {"a": "b"}),
        ({"metadata": {}}, "metadata", None),
        ({"user": "u"}, "user", "u"),
        ({"safety_identifier": "u"}, "safety_identifier", "u"),
        ({"prompt_cache_key": "k"}, "prompt_cache_key", "k"),
        ({"prompt_cache_retention": "24h"}, "prompt_cache_retention", "24h"),
        ({"prompt_cache_options": {"ttl": "12h"}}, "prompt_cache_options", {"ttl": "12h"}),
        ({"service_tier": "flex"}, "service_tier", "flex"),
        ({"moderation": {"model": "m"}}, "moderation", {"model": "m"}),
        ({"text": {"verbosity": "low"}}, "verbosity", "low"),
        ({"text": {"format": {"type": "text"}}}, "output_format", None),
        ({"text": {"format": {"type": "json_object"}}}, "output_format", JsonObject()),
        ({"reasoning": {"effort": "high"}}, "thinking", Thinking(effort="high")),
        ({"reasoning": {"summary": "concise"}}, "thinking", Thinking(summary="concise")),
        ({"reasoning": {"generate_summary": "auto"}}, "thinking", Thinking(summary="auto")),
        ({"reasoning": {"effort": None, "summary": None}}, "thinking", None),
    ],
)
def test_settings_have_a_canonical_home(fields: dict[str, Any], name: str, value: Any) -> None:
    """Limits, sampling and the rest, zero included. req: 49, 50"""
    request = read(**fields)
    assert getattr(request, name) == value
    assert extras(request) == {}


def test_instructions_are_kept_apart_from_the_turns() -> None:
    """`instructions` is system text. req: 46"""
    request = read(instructions="be kind")
    assert request.instructions == (Text(text="be kind", path="instructions"),)
    assert [turn.role for turn in request.turns] == ["user"]


def test_a_schema_for_the_answer() -> None:
    form = {
        "type": "json_schema",
        "name": "n",
        "schema": SCHEMA,
        "description": "d",
        "strict": True,
    }
    request = read(text={"format": form})
    assert request.output_format == JsonSchema(
        schema=SCHEMA, name="n", description="d", strict=True
    )
    assert request.path_of("output_format") == "text.format"


def test_explicit_nulls_mean_absent() -> None:
    """llama-index sends every option as null."""
    names = (
        *("instructions", "max_output_tokens", "temperature", "top_p", "tools", "tool_choice"),
        *("parallel_tool_calls", "store", "metadata", "user", "reasoning", "text", "include"),
        *("previous_response_id", "conversation", "prompt", "background", "truncation"),
        *("max_tool_calls", "top_logprobs", "stream", "stream_options", "service_tier"),
        *("prompt_cache_key", "prompt_cache_options", "safety_identifier", "context_management"),
    )
    nothing = read(**dict.fromkeys(names))
    plain = read()
    assert nothing.extras == ()
    for name in plain.__struct_fields__:
        if name != "source":
            assert getattr(nothing, name) == getattr(plain, name)


def test_values_that_ask_for_nothing_are_no_loss() -> None:
    request = read(
        tools=[],
        include=[],
        background=False,
        truncation="disabled",
        context_management=[],
        top_logprobs=0,
        metadata={},
        prompt_cache_options={},
        reasoning={"context": "auto", "mode": "standard"},
        stream_options={"include_obfuscation": False},
        presence_penalty=0,
        frequency_penalty=0.0,
        client_metadata={},
        text={},
    )
    assert extras(request) == {}


@pytest.mark.parametrize(
    ("fields", "path", "kind"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", CONTENT),
        ({"conversation": "conv_1"}, "conversation", CONTENT),
        ({"conversation": {"id": "conv_1"}}, "conversation", CONTENT),
        ({"prompt": {"id": "pmpt_1"}}, "prompt", CONTENT),
        ({"background": True}, "background", CONTENT),
        ({"max_tool_calls": 3}, "max_tool_calls", KNOB),
        ({"truncation": "auto"}, "truncation", KNOB),
        ({"context_management": [{"type": "compaction"}]}, "context_management", KNOB),
        ({"access_programs": {"cyber": "standard"}}, "access_programs", KNOB),
        ({"image": {"context_compression": "enabled"}}, "image", KNOB),
        ({"client_metadata": {"a": "b"}}, "client_metadata", KNOB),
        ({"presence_penalty": 0.5}, "presence_penalty", KNOB),
        (
            {"stream_options": {"include_obfuscation": True}},
            "stream_options.include_obfuscation",
            KNOB,
        ),
        ({"reasoning": {"context": "all_turns"}}, "reasoning.context", KNOB),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode", KNOB),
        ({"include": ["web_search_call.results"]}, "include[0]", KNOB),
        ({"surprise": 1}, "surprise", KNOB),
    ],
)
def test_what_has_no_home_is_reported(fields: dict[str, Any], path: str, kind: LossKind) -> None:
    assert extras(read(**fields)) == {path: kind}


def test_an_unknown_earlier_response_has_its_own_code() -> None:
    (extra,) = read(previous_response_id="resp_1").extras
    assert extra.code == "previous_response_not_found"


def test_input_may_be_missing_when_the_past_is_elsewhere() -> None:
    body = {"model": "m", "previous_response_id": "resp_1"}
    assert read(**{**body, "input": None}).turns == ()


def test_log_probabilities_are_asked_for_by_include() -> None:
    request = read(include=[wire.LOGPROBS, wire.ENCRYPTED_REASONING], top_logprobs=3)
    assert (request.logprobs, request.top_logprobs) == (True, 3)
    assert extras(request) == {}
    assert request.path_of("logprobs") == "include"


def test_warming_the_cache_is_an_output_limit_of_zero() -> None:
    request = read(max_output_tokens=500, prompt_cache_options={"prewarm": True, "ttl": "12h"})
    assert request.max_output_tokens == 0
    assert request.prompt_cache_options == {"ttl": "12h"}
    assert request.path_of("max_output_tokens") == "prompt_cache_options.prewarm"


def test_the_body_is_kept_for_repeating_it() -> None:
    body = body_of(temperature=0.5)
    assert read(temperature=0.5).source == body


class TestTools:
    """Tools are flat here. req: 51"""

    def test_a_function(self) -> None:
        tool = {**F, "description": "d", "strict": True, "defer_loading": True}
        (read_tool,) = read(tools=[tool]).tools
        assert read_tool == FunctionTool(
            name="f", description="d", schema=SCHEMA, strict=True, deferred=True, path="tools[0]"
        )

    @pytest.mark.parametrize("tool", [{"parameters": None, "strict": None}, {}])
    def test_a_function_without_parameters(self, tool: dict[str, Any]) -> None:
        (read_tool,) = read(tools=[{"type": "function", "name": "f", **tool}]).tools
        assert read_tool == FunctionTool(name="f", path="tools[0]")

    def test_a_custom_tool_with_a_grammar(self) -> None:
        form = {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}
        tool = {"type": "custom", "name": "apply_patch", "description": "d", "format": form}
        (read_tool,) = read(tools=[tool]).tools
        assert read_tool == CustomTool(
            name="apply_patch",
            description="d",
            grammar=Grammar("lark", "start: /x/"),
            path="tools[0]",
        )

    def test_free_text_is_no_grammar(self) -> None:
        (tool,) = read(tools=[{"type": "custom", "name": "c", "format": {"type": "text"}}]).tools
        assert tool == CustomTool(name="c", path="tools[0]")

    def test_tools_of_a_namespace_stand_one_by_one(self) -> None:
        inner = [{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}]
        space = {"type": "namespace", "name": "ns", "description": "about", "tools": inner}
        request = read(tools=[space, F])
        assert request.tools == (
            FunctionTool(name="f", namespace="ns", path="tools[0].tools[0]"),
            CustomTool(name="g", namespace="ns", path="tools[0].tools[1]"),
            FunctionTool(name="f", schema=SCHEMA, strict=False, path="tools[1]"),
        )
        assert extras(request) == {"tools[0].description": CONVERTED}

    @pytest.mark.parametrize(
        "kind", sorted({*wire.HOSTED_TOOLS, "web_search_2025_08_26"} - MACHINE_TOOLS)
    )
    def test_tools_of_the_vendor_are_kept_whole(self, kind: str) -> None:
        tool = {"type": kind, "anything": [1]}
        request = read(tools=[tool])
        (found,) = request.tools
        assert isinstance(found, HostedTool)
        assert (found.search is not None) == kind.startswith("web_search")
        assert replace(found, search=None) == HostedTool(
            origin=wire.NAME, type=kind, raw=tool, path="tools[0]"
        )
        assert extras(request) == {}

    @pytest.mark.parametrize(
        ("more", "kind"),
        [
            ({"async": True}, CONTENT),
            ({"output_schema": {"type": "object"}}, KNOB),
            ({"allowed_callers": ["programmatic"]}, KNOB),
        ],
    )
    def test_what_has_no_home_is_reported(self, more: dict[str, Any], kind: LossKind) -> None:
        (name,) = more
        assert extras(read(tools=[{**F, **more}])) == {f"tools[0].{name}": kind}


class TestToolChoice:
    """Every form of `tool_choice`."""

    @pytest.mark.parametrize("word", ["none", "auto", "required"])
    def test_words(self, word: str) -> None:
        choice = read(tools=[F], tool_choice=word).tool_choice
        assert choice is not None
        assert (choice.mode, choice.path) == (word, "tool_choice")

    @pytest.mark.parametrize("word", ["none", "auto"])
    def test_words_without_tools_ask_for_nothing(self, word: str) -> None:
        assert read(tool_choice=word).tool_choice is None
        assert read(tools=[], tool_choice=word).tool_choice is None

    @pytest.mark.parametrize("kind", ["function", "custom"])
    def test_a_named_tool(self, kind: str) -> None:
        choice = read(tools=[F], tool_choice={"type": kind, "name": "f"}).tool_choice
        ref = ToolRef("f", kind == "custom")
        assert choice == ToolChoice(mode="tool", tool=ref, path="tool_choice")

    def test_a_named_tool_of_a_namespace_is_found(self) -> None:
        space = {"type": "namespace", "name": "ns", "description": "", "tools": [F]}
        choice = read(tools=[space], tool_choice={"type": "function", "name": "f"}).tool_choice
        assert choice is not None
        assert choice.tool == ToolRef("f", False, "ns")

    @pytest.mark.parametrize("mode", ["auto", "required"])
    def test_allowed_tools(self, mode: str) -> None:
        allowed = [{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}]
        value = {"type": "allowed_tools", "mode": mode, "tools": allowed}
        choice = read(tools=[F], tool_choice=value).tool_choice
        assert choice is not None
        assert choice.mode == mode
        assert choice.allowed == (ToolRef("f"), ToolRef("g", True))

    def test_hosted_tools_among_the_allowed_are_reported(self) -> None:
        allowed = [{"type": "function", "name": "f"}, {"type": "mcp", "server_label": "x"}]
        value = {"type": "allowed_tools", "mode": "auto", "tools": allowed}
        request = read(tools=[F], tool_choice=value)
        assert request.tool_choice is not None
        assert request.tool_choice.allowed == (ToolRef("f"),)
        assert extras(request) == {"tool_choice.tools[1]": KNOB}

    @pytest.mark.parametrize(
        "value",
        [
            *({"type": kind} for kind in ("file_search", "web_search_preview", "computer_use")),
            *({"type": kind} for kind in ("apply_patch", "shell", "programmatic_tool_calling")),
            {"type": "mcp", "server_label": "x", "name": "y"},
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "image_generation"}]},
        ],
    )
    def test_forcing_a_hosted_tool_is_lost_content(self, value: dict[str, Any]) -> None:
        request = read(tools=[F], tool_choice=value)
        assert request.tool_choice is None
        assert extras(request) == {"tool_choice": CONTENT}
