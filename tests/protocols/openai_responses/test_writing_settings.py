"""Canonical settings become a Responses request; what the upstream cannot do is reported."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.blocks import CacheMark, ForeignCitation, Text
from dragoman.canonical.losses import LossKind
from dragoman.canonical.options import Capabilities, Options
from dragoman.canonical.requests import (
    CustomTool,
    Extra,
    FunctionTool,
    Grammar,
    HostedTool,
    JsonObject,
    JsonSchema,
    Request,
    Thinking,
    ToolChoice,
    ToolRef,
)
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.settings import make_capabilities, make_options
from tests.protocols.openai_responses.helpers import (
    CONTENT,
    CONVERTED,
    DEFAULTS,
    KNOB,
    MODERN,
    REPAIRED,
    Written,
    user,
    write,
)

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**SCHEMA, "required": ["a"], "additionalProperties": False}
F = FunctionTool(name="f", description="d", schema=SCHEMA, path="tools[0]")
HIDDEN = make_options(show_reasoning="never")


def settings(
    options: Options = DEFAULTS, capabilities: Capabilities = MODERN, **fields: Any
) -> Written:
    return write(user(Text(text="hi")), options=options, capabilities=capabilities, **fields)


def test_the_least_request() -> None:
    """Defaults that differ between the protocols are explicit."""
    written = settings()
    assert written.body == {
        "model": "upstream-model",
        "input": [{"type": "message", "role": "user", "content": "hi"}],
        "store": False,
    }
    assert written.losses == {}


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"max_output_tokens": 100}, "max_output_tokens", 100),
        ({"temperature": 0.0}, "temperature", 0.0),
        ({"top_p": 0.5}, "top_p", 0.5),
        ({"store": True}, "store", True),
        ({"metadata": {"a": "b"}}, "metadata", {"a": "b"}),
        ({"user": "u"}, "user", "u"),
        ({"safety_identifier": "u"}, "safety_identifier", "u"),
        ({"prompt_cache_key": "k"}, "prompt_cache_key", "k"),
        ({"prompt_cache_retention": "24h"}, "prompt_cache_retention", "24h"),
        (
            {"prompt_cache_options": {"mode": "explicit"}},
            "prompt_cache_options",
            {"mode": "explicit"},
        ),
        ({"max_output_tokens": 0}, "prompt_cache_options", {"prewarm": True}),
        ({"service_tier": "flex"}, "service_tier", "flex"),
        ({"moderation": {"model": "m"}}, "moderation", {"model": "m"}),
        ({"verbosity": "low"}, "text", {"verbosity": "low"}),
        ({"output_format": JsonObject()}, "text", {"format": {"type": "json_object"}}),
        ({"stream": True}, "stream_options", {"include_obfuscation": False}),
        ({"logprobs": True, "top_logprobs": 3}, "top_logprobs", 3),
        (
            {"logprobs": True},
            "include",
            ["message.output_text.logprobs"],
        ),
        ({"speed": "standard"}, "store", False),
    ],
)
def test_settings_are_carried(fields: dict[str, Any], name: str, value: Any) -> None:
    """Zero is a value. req: 50"""
    written = settings(**fields)
    assert written.body[name] == value
    assert written.losses == {}


@pytest.mark.parametrize(
    ("fields", "path", "kind"),
    [
        ({"stop": ("END",)}, "stop", CONTENT),
        ({"top_k": 5}, "top_k", KNOB),
        ({"speed": "fast"}, "speed", KNOB),
        ({"auto_cache": CacheMark()}, "auto_cache", KNOB),
        ({"top_logprobs": 3}, "top_logprobs", KNOB),
        ({"max_output_tokens": 5}, "max_output_tokens", REPAIRED),
        ({"user": "u" * 129}, "user", CONVERTED),
        ({"safety_identifier": "u" * 129}, "safety_identifier", CONVERTED),
    ],
)
def test_what_does_not_arrive_is_reported(
    fields: dict[str, Any], path: str, kind: LossKind
) -> None:
    assert settings(**fields).losses == {path: kind}
    renamed = settings(**fields, paths={path: f"their.{path}"})
    assert renamed.losses == {f"their.{path}": kind}


def test_small_limits_are_raised_and_large_ones_fitted() -> None:
    assert settings(max_output_tokens=5).body["max_output_tokens"] == 16
    fitted = settings(
        max_output_tokens=9000, capabilities=make_capabilities(max_output_tokens=4096)
    )
    assert fitted.body["max_output_tokens"] == 4096
    assert fitted.losses == {"max_output_tokens": REPAIRED}


def test_long_user_ids_are_hashed_alike_every_time() -> None:
    first, second = (settings(safety_identifier="u" * 200).body["safety_identifier"] for _ in "ab")
    assert first == second
    assert len(first) == 64


def test_stop_sequences_can_be_dropped_by_choice() -> None:
    written = settings(stop=("END",), options=make_options(stop_on_responses="drop"))
    assert written.losses == {"stop": KNOB}


def test_sampling_is_dropped_for_models_that_take_none() -> None:
    """1 is what a model does unasked."""
    for value, losses in ((0.5, {"temperature": KNOB, "top_p": KNOB}), (1.0, {})):
        capabilities = make_capabilities(sampling=False)
        written = settings(temperature=value, top_p=value, capabilities=capabilities)
        assert written.body.keys().isdisjoint({"temperature", "top_p"})
        assert written.losses == losses


def test_speed_can_become_a_tier() -> None:
    written = settings(speed="fast", options=make_options(map_fast=True))
    assert written.body["service_tier"] == "fast"
    assert written.losses == {}


@pytest.mark.parametrize(
    ("thinking", "options", "asked"),
    [
        (None, DEFAULTS, False),
        (Thinking(effort="high"), DEFAULTS, False),
        (Thinking(mode="disabled"), DEFAULTS, False),
        (Thinking(mode="adaptive"), DEFAULTS, True),
        (Thinking(mode="enabled", budget=2048), DEFAULTS, True),
        (Thinking(mode="adaptive"), HIDDEN, False),
        (None, make_options(show_reasoning="always"), True),
        (Thinking(effort="high"), make_options(reasoning_details=True), True),
    ],
)
def test_encrypted_reasoning_is_asked_for_clients_that_can_send_it_back(
    thinking: Thinking | None, options: Options, asked: bool
) -> None:
    """A model that does not reason refuses to be asked."""
    body = settings(thinking=thinking, options=options).body
    assert body.get("include") == (["reasoning.encrypted_content"] if asked else None)
    unable = make_capabilities(encrypted_reasoning=False)
    assert "include" not in settings(thinking=thinking, options=options, capabilities=unable).body


def test_extras_are_reported_as_they_are() -> None:
    extra = Extra("seed", 5, KNOB)
    gone = Extra("previous_response_id", "r", CONTENT, "gone", "previous_response_not_found")
    assert settings(extras=(extra, gone)).losses == {"seed": KNOB, "previous_response_id": CONTENT}


class TestInstructions:
    """System text given apart from the turns."""

    def test_one_string(self) -> None:
        texts = (Text(text="a"), Text(text="b"))
        written = settings(instructions=texts)
        assert written.body["instructions"] == "a\n\nb"
        assert written.losses == {}

    def test_marked_blocks_become_a_developer_message(self) -> None:
        texts = (Text(text="a"), Text(text="b", cache=CacheMark(), path="system[1]"))
        written = settings(
            instructions=texts, capabilities=make_capabilities(prompt_cache_breakpoints=True)
        )
        assert "instructions" not in written.body
        assert written.input[0] == {
            "type": "message",
            "role": "developer",
            "content": [
                {"type": "input_text", "text": "a"},
                {
                    "type": "input_text",
                    "text": "b",
                    "prompt_cache_breakpoint": {"mode": "explicit"},
                },
            ],
        }
        assert written.losses == {}
        assert settings(instructions=texts).losses == {"system[1]": KNOB}

    def test_citations_in_them_are_reported(self) -> None:
        cited = Text(text="a", annotations=(ForeignCitation("x", {}),), path="system[0]")
        assert settings(instructions=(cited,)).losses == {"system[0]": KNOB}


class TestTools:
    """Tools are flat here. req: 51"""

    def test_strict_is_explicit(self) -> None:
        """Left out, it would mean strict if possible."""
        assert settings(tools=(F,)).body["tools"] == [
            {
                "type": "function",
                "name": "f",
                "description": "d",
                "parameters": SCHEMA,
                "strict": False,
            }
        ]

    def test_strict_where_the_upstream_knows_no_such_thing(self) -> None:
        tool = FunctionTool(name="f", schema=SCHEMA, strict=True, path="tools[0]")
        written = settings(tools=(tool,), capabilities=make_capabilities(strict_tools=False))
        assert "strict" not in written.body["tools"][0]
        assert written.losses == {"tools[0].strict": KNOB}

    @pytest.mark.parametrize(
        ("schema", "strict"),
        [(CLOSED, True), (None, True), (SCHEMA, False), ({**CLOSED, "allOf": []}, False)],
    )
    def test_strict_only_where_the_service_takes_it(self, schema: Any, strict: bool) -> None:
        """Other services enforce schemas that this one answers with a 400."""
        written = settings(tools=(FunctionTool(name="f", schema=schema, strict=True, path="t"),))
        assert written.body["tools"][0]["strict"] is strict
        assert written.losses == ({} if strict else {"t.strict": KNOB})

    @pytest.mark.parametrize(
        ("schema", "written", "losses"),
        [
            (None, {"type": "object", "properties": {}}, {}),
            ({"properties": {}}, {"type": "object", "properties": {}}, {"tools[0]": REPAIRED}),
            (
                {"type": "object", "$defs": {}},
                {"type": "object", "$defs": {}, "properties": {}},
                {},
            ),
        ],
    )
    def test_schemas_are_objects(self, schema: Any, written: Any, losses: Any) -> None:
        found = settings(tools=(FunctionTool(name="f", schema=schema, path="tools[0]"),))
        assert found.body["tools"][0]["parameters"] == written
        assert found.losses == losses

    def test_custom_tools_are_native(self) -> None:
        tool = CustomTool(name="g", description="d", grammar=Grammar("lark", "start: /x/"))
        written = settings(tools=(tool, CustomTool(name="h")))
        assert written.body["tools"] == [
            {
                "type": "custom",
                "name": "g",
                "description": "d",
                "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"},
            },
            {"type": "custom", "name": "h"},
        ]
        assert written.losses == {}

    def test_namespaces_are_native(self) -> None:
        tools = (
            FunctionTool(name="a", namespace="ns"),
            F,
            CustomTool(name="b", namespace="ns"),
        )
        written = settings(tools=tools)
        space, function = written.body["tools"]
        assert function["name"] == "f"
        assert (space["type"], space["name"]) == ("namespace", "ns")
        assert [tool["name"] for tool in space["tools"]] == ["a", "b"]

    def test_long_names_are_shortened(self) -> None:
        (tool,) = settings(tools=(FunctionTool(name="n" * 100),)).body["tools"]
        assert len(tool["name"]) == 64

    def test_deferred_tools_are_offered_unless_they_can_be_searched(self) -> None:
        deferred = FunctionTool(name="f", schema=SCHEMA, deferred=True, path="tools[0]")
        alone = settings(tools=(deferred,))
        assert "defer_loading" not in alone.body["tools"][0]
        assert alone.losses == {"tools[0].defer_loading": KNOB}
        search = HostedTool(origin=wire.NAME, type="tool_search", raw={"type": "tool_search"})
        found = settings(tools=(deferred, search))
        assert found.body["tools"][0]["defer_loading"] is True
        assert found.losses == {}

    @pytest.mark.parametrize(("choice", "kind"), [("drop", KNOB), ("reject", CONTENT)])
    def test_tools_of_another_vendor(self, choice: Any, kind: LossKind) -> None:
        tool = HostedTool(origin="anthropic_messages", type="web_search", raw={}, path="tools[1]")
        written = settings(tools=(F, tool), options=make_options(hosted_tools=choice))
        assert len(written.body["tools"]) == 1
        assert written.losses == {"tools[1]": kind}

    def test_cache_marks_on_tools_are_reported(self) -> None:
        tool = FunctionTool(name="f", schema=SCHEMA, cache=CacheMark(), path="tools[0]")
        assert settings(tools=(tool,)).losses == {"tools[0].cache_control": KNOB}

    @pytest.mark.parametrize(
        ("choice", "written"),
        [
            (ToolChoice(mode="auto"), "auto"),
            (ToolChoice(mode="none"), "none"),
            (ToolChoice(mode="required"), "required"),
            (ToolChoice(mode="tool", tool=ToolRef("f")), {"type": "function", "name": "f"}),
            (ToolChoice(mode="tool", tool=ToolRef("g", True)), {"type": "custom", "name": "g"}),
            (
                ToolChoice(mode="required", allowed=(ToolRef("f"), ToolRef("g", True))),
                {
                    "type": "allowed_tools",
                    "mode": "required",
                    "tools": [
                        {"type": "function", "name": "f"},
                        {"type": "custom", "name": "g"},
                    ],
                },
            ),
        ],
    )
    def test_choices(self, choice: ToolChoice, written: Any) -> None:
        body = settings(tools=(F, CustomTool(name="g")), tool_choice=choice).body
        assert body["tool_choice"] == written

    @pytest.mark.parametrize(
        ("mode", "lost"), [("auto", False), ("none", False), ("required", True)]
    )
    def test_choices_without_tools(self, mode: Any, lost: bool) -> None:
        choice = ToolChoice(mode=mode, path="tool_choice")
        written = settings(tool_choice=choice, parallel_tool_calls=True)
        assert written.body.keys().isdisjoint({"tools", "tool_choice", "parallel_tool_calls"})
        assert written.losses == ({"tool_choice": CONTENT} if lost else {})

    @pytest.mark.parametrize(
        ("choice", "written"),
        [
            (ToolChoice(mode="tool", tool=ToolRef("web_search"), path="tool_choice"), None),
            (ToolChoice(mode="auto", allowed=(ToolRef("x"),), path="tool_choice"), None),
            (
                ToolChoice(mode="auto", allowed=(ToolRef("x"), ToolRef("f")), path="tool_choice"),
                {
                    "type": "allowed_tools",
                    "mode": "auto",
                    "tools": [{"type": "function", "name": "f"}],
                },
            ),
        ],
    )
    def test_a_choice_of_what_is_not_offered(self, choice: ToolChoice, written: Any) -> None:
        hosted = HostedTool(origin="anthropic_messages", type="web_search", raw={}, path="tools[1]")
        found = settings(tools=(F, hosted), tool_choice=choice)
        assert found.body.get("tool_choice") == written
        assert found.losses == {"tools[1]": KNOB, "tool_choice": CONTENT}

    def test_parallel_calls(self) -> None:
        assert settings(tools=(F,), parallel_tool_calls=False).body["parallel_tool_calls"] is False


class TestOutputFormat:
    """Schemas for the answer."""

    def test_all_of_it(self) -> None:
        form = JsonSchema(schema=SCHEMA, name="n", description="d", strict=False)
        assert settings(output_format=form).body["text"]["format"] == {
            "type": "json_schema",
            "name": "n",
            "schema": SCHEMA,
            "description": "d",
            "strict": False,
        }

    def test_the_service_decides_when_the_client_left_it_open(self) -> None:
        form = JsonSchema(schema=SCHEMA, name="n")
        assert "strict" not in settings(output_format=form).body["text"]["format"]

    @pytest.mark.parametrize(("schema", "strict"), [(CLOSED, True), (SCHEMA, False)])
    def test_a_schema_without_a_name_is_strict_if_it_can_be(
        self, schema: Any, strict: bool
    ) -> None:
        written = settings(output_format=JsonSchema(schema=schema))
        form = written.body["text"]["format"]
        assert (form["name"], form["strict"]) == ("output", strict)
        assert written.losses == ({} if strict else {"output_format": CONVERTED})

    def test_upstreams_without_schemas(self) -> None:
        form = JsonSchema(schema=SCHEMA, name="n")
        written = settings(
            output_format=form, capabilities=make_capabilities(structured_output=False)
        )
        assert "text" not in written.body
        assert written.losses == {"output_format": CONTENT}


class TestThinking:
    """Effort, budgets and summaries."""

    @pytest.mark.parametrize(
        ("thinking", "reasoning", "lost"),
        [
            (Thinking(effort="high"), {"effort": "high", "summary": "auto"}, None),
            (Thinking(effort="none"), {"effort": "none"}, None),
            (
                Thinking(effort="low", summary="detailed"),
                {"effort": "low", "summary": "detailed"},
                None,
            ),
            (Thinking(mode="adaptive"), {"summary": "auto"}, None),
            (Thinking(mode="adaptive", display="omitted"), None, None),
            (Thinking(mode="adaptive", display="summarized"), {"summary": "auto"}, None),
            (Thinking(mode="adaptive", display="updates"), {"summary": "auto"}, KNOB),
            (Thinking(mode="disabled"), {"effort": "none"}, None),
            (Thinking(mode="between_tools"), {"effort": "none"}, CONVERTED),
            (
                Thinking(mode="enabled", budget=2048),
                {"effort": "low", "summary": "auto"},
                CONVERTED,
            ),
            (
                Thinking(mode="enabled", budget=2049),
                {"effort": "medium", "summary": "auto"},
                CONVERTED,
            ),
            (
                Thinking(mode="enabled", budget=12289),
                {"effort": "high", "summary": "auto"},
                CONVERTED,
            ),
            (
                Thinking(mode="enabled", budget=32769),
                {"effort": "xhigh", "summary": "auto"},
                CONVERTED,
            ),
            (
                Thinking(mode="enabled", budget=99, effort="max"),
                {"effort": "max", "summary": "auto"},
                None,
            ),
        ],
    )
    def test_wishes(self, thinking: Thinking, reasoning: Any, lost: LossKind | None) -> None:
        written = settings(thinking=thinking)
        assert written.body.get("reasoning") == reasoning
        assert written.losses == ({"thinking": lost} if lost else {})

    def test_no_summary_where_reasoning_is_not_shown(self) -> None:
        written = settings(thinking=Thinking(effort="high"), options=HIDDEN)
        assert written.body["reasoning"] == {"effort": "high"}

    @pytest.mark.parametrize(
        ("known", "effort", "found"),
        [
            (("low", "medium", "high"), "max", "high"),
            (("low", "medium", "high"), "none", "low"),
            (("none", "high"), "medium", "high"),
            ((), "high", None),
        ],
    )
    def test_unknown_efforts_become_the_nearest_lower_one(
        self, known: tuple[str, ...], effort: str, found: str | None
    ) -> None:
        written = settings(
            thinking=Thinking(effort=effort),
            options=HIDDEN,
            capabilities=make_capabilities(efforts=known),
        )
        assert written.body.get("reasoning", {}).get("effort") == found
        assert written.losses == {"thinking": CONVERTED if found else KNOB}


def test_the_request_is_not_changed() -> None:
    schema: dict[str, Any] = {"properties": {}}
    options = {"mode": "explicit"}
    request = Request(
        model="m",
        turns=(user(Text(text="hi")),),
        tools=(FunctionTool(name="f", schema=schema),),
        prompt_cache_options=options,
        max_output_tokens=0,
    )
    Written(request)
    assert (schema, options) == ({"properties": {}}, {"mode": "explicit"})
