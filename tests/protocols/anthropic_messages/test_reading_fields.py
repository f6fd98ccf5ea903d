"""The fields of a client's Messages request, in canonical form."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.blocks import CacheMark, Text
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.requests import (
    FunctionTool,
    HostedTool,
    JsonSchema,
    Request,
    SearchTool,
    Thinking,
    ToolChoice,
    ToolRef,
)
from dragoman.protocols.anthropic_messages.request_reader import read_request
from tests.protocols.anthropic_messages.helpers import (
    CONTENT,
    KNOB,
    NAME,
    SEALER,
    body_of,
    extras,
    read,
    refusal,
)


@pytest.mark.parametrize(
    ("system", "texts"),
    [
        ("Be brief.", ["Be brief."]),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], ["a", "b"]),
        ([], []),
        ("", []),
        (None, []),
        ({"type": "text", "text": "a"}, ["a"]),
    ],
)
def test_system_is_read_with_its_boundaries(system: Any, texts: list[str]) -> None:
    """A string or blocks, never joined. req: 14, 15"""
    assert [text.text for text in read(system=system).instructions] == texts


def test_marks_on_system_blocks_are_kept() -> None:
    """req: 30"""
    block = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert read(system=[block]).instructions == (
        Text(text="a", cache=CacheMark("1h"), path="system[0]"),
    )


def test_the_billing_header_of_claude_code_is_no_prompt() -> None:
    blocks = [{"type": "text", "text": t} for t in ("x-anthropic-billing-header: cch=1;", "S")]
    request = read(system=blocks)
    assert [text.text for text in request.instructions] == ["S"]
    assert extras(request) == {("system[0]", KNOB)}


def test_client_tools() -> None:
    """req: 25"""
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}}
    plain = {"name": "f", "description": "d", "input_schema": schema, "strict": True}
    typed = {
        "type": "custom",
        "name": "g",
        "input_schema": {"type": "object"},
        "defer_loading": True,
        "cache_control": {"type": "ephemeral"},
        "eager_input_streaming": True,
        "allowed_callers": ["direct", "code_execution_20260120"],
        "input_examples": [{"a": 1}],
    }
    request = read(tools=[plain, typed])
    assert request.tools == (
        FunctionTool(name="f", description="d", schema=schema, strict=True, path="tools[0]"),
        FunctionTool(
            name="g", schema={"type": "object"}, deferred=True, cache=CacheMark(), path="tools[1]"
        ),
    )
    names = ("eager_input_streaming", "allowed_callers", "input_examples")
    assert extras(request) == {(f"tools[1].{name}", KNOB) for name in names}


@pytest.mark.parametrize(
    "kind",
    [
        "bash_20250124",
        "text_editor_20250728",
        "memory_20250818",
        "computer_toolset_20260801",
        "browser_toolset_20260801",
        "web_search_20260318",
        "web_fetch_20260318",
        "code_execution_20260521",
        "tool_search_tool_bm25",
        "mcp_toolset",
        "advisor_20260301",
    ],
)
def test_hosted_tools(kind: str) -> None:
    raw = {"type": kind, "name": "n"}
    search = SearchTool(name="web_search") if kind.startswith("web_search") else None
    assert read(tools=[raw]).tools == (
        HostedTool(origin=NAME, type=kind, raw=raw, search=search, path="tools[0]"),
    )


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        ({"type": "auto"}, ToolChoice(mode="auto", path="tool_choice"), None),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            ToolChoice(mode="required", path="tool_choice"),
            False,
        ),
        ({"type": "none"}, ToolChoice(mode="none", path="tool_choice"), None),
        (
            {"type": "tool", "name": "f", "disable_parallel_tool_use": False},
            ToolChoice(mode="tool", tool=ToolRef("f"), path="tool_choice"),
            None,
        ),
    ],
)
def test_tool_choice(choice: dict[str, Any], expected: ToolChoice, parallel: bool | None) -> None:
    """req: 26"""
    request = read(tool_choice=choice)
    assert (request.tool_choice, request.parallel_tool_calls) == (expected, parallel)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"thinking": {"type": "adaptive"}}, Thinking(mode="adaptive")),
        (
            {"thinking": {"type": "adaptive", "display": "omitted"}},
            Thinking(mode="adaptive", display="omitted"),
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 32000, "display": "summarized"}},
            Thinking(mode="enabled", budget=32000, display="summarized"),
        ),
        ({"thinking": {"type": "disabled"}}, Thinking(mode="disabled")),
        ({"thinking": {"type": "between_tools"}}, Thinking(mode="between_tools")),
        ({"output_config": {"effort": "xhigh"}}, Thinking(effort="xhigh")),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
            Thinking(mode="adaptive", effort="low"),
        ),
        ({}, None),
        ({"thinking": None}, None),
    ],
)
def test_thinking(fields: dict[str, Any], expected: Thinking | None) -> None:
    """req: 29"""
    assert read(**fields).thinking == expected


@pytest.mark.parametrize("path", ["output_config.format", "output_format"])
def test_output_formats(path: str) -> None:
    schema = {"type": "object", "properties": {}}
    shape = {"type": "json_schema", "schema": schema}
    fields = {"output_config": {"format": shape}} if "." in path else {"output_format": shape}
    request = read(**fields)
    assert request.output_format == JsonSchema(schema=schema)
    assert request.path_of("output_format") == path
    assert extras(request) == set()


def test_numbers_and_words_of_the_top_level() -> None:
    """Zero is a value, not an absence. req: 27, 28"""
    request = read(
        max_tokens=0,
        temperature=0,
        top_p=0.5,
        top_k=0,
        stop_sequences=["END"],
        stream=True,
        metadata={"user_id": "u"},
        service_tier="standard_only",
        speed="fast",
        cache_control={"type": "ephemeral", "ttl": "1h"},
    )
    assert request.max_output_tokens == 0
    assert (request.temperature, request.top_p, request.top_k) == (0.0, 0.5, 0)
    assert (request.stop, request.stream, request.safety_identifier) == (("END",), True, "u")
    assert (request.service_tier, request.speed) == ("default", "fast")
    assert request.auto_cache == CacheMark("1h")
    assert extras(request) == set()


def test_words_that_ask_for_nothing() -> None:
    request = read(
        stream=False,
        service_tier="auto",
        speed="standard",
        tools=[],
        stop_sequences=None,
        temperature=None,
        mcp_servers=[],
        context_management={"edits": []},
    )
    assert (request.stream, request.service_tier, request.speed) == (False, None, None)
    assert (request.tools, request.stop, request.temperature) == ((), (), None)
    assert extras(request) == set()


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("container", "c", CONTENT),
        ("mcp_servers", [{"type": "url", "name": "n", "url": "https://a.example"}], CONTENT),
        ("fallbacks", [{"model": "x"}], CONTENT),
        ("compaction", {"type": "summarize"}, CONTENT),
        ("context_management", {"edits": [{"type": "clear_thinking_20251015"}]}, KNOB),
        ("inference_geo", "us", KNOB),
        ("diagnostics", {"previous_message_id": None}, KNOB),
        ("safeguards", {"mode": "auto"}, KNOB),
        ("something_new", 1, KNOB),
    ],
)
def test_fields_without_a_home_are_kept(field: str, value: Any, kind: Any) -> None:
    request = read(**{field: value})
    assert extras(request) == {(field, kind)}
    assert request.extras[0].value == value


def test_fields_inside_objects_are_accounted_for() -> None:
    image = {
        "type": "image",
        "source": {"type": "url", "url": "https://a.example", "x": 1},
        "transformations": {"oversized_image": "error"},
    }
    request = read(
        messages=[{"role": "user", "content": [image], "extra": 1}],
        thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop"}},
        output_config={"task_budget": {"type": "tokens", "total": 5}},
        metadata={"team": "x"},
        tool_choice={"type": "auto", "y": 2},
    )
    assert extras(request) == {
        ("messages[0].content[0].source.x", KNOB),
        ("messages[0].content[0].transformations", KNOB),
        ("messages[0].extra", KNOB),
        ("thinking.block_binding", KNOB),
        ("output_config.task_budget", KNOB),
        ("metadata.team", KNOB),
        ("tool_choice.y", KNOB),
    }


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 1}, "model"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": "[undefined]"}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]"),
        ({"system": 5}, "system"),
        ({"system": [{"type": "image"}]}, "system[0].type"),
        ({"temperature": 2}, "temperature"),
        ({"temperature": "[undefined]"}, "temperature"),
        ({"top_k": "x"}, "top_k"),
        ({"stop_sequences": "END"}, "stop_sequences"),
        ({"stop_sequences": ["a", 1]}, "stop_sequences[1]"),
        ({"stream": "yes"}, "stream"),
        ({"metadata": {"user_id": 5}}, "metadata.user_id"),
        ({"service_tier": "gold"}, "service_tier"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tools": [{"name": "f", "input_schema": 5}]}, "tools[0].input_schema"),
        ({"tools": [{"type": "function", "name": "f"}]}, "tools[0].type"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tool_choice": {"type": "all"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"thinking": {"type": "hard"}}, "thinking.type"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"output_config": {"effort": "huge"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "json_object"}}}, "output_config.format.type"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"cache_control": {"type": "forever"}}, "cache_control.type"),
        ({"thread": {"type": "create"}}, "thread"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, Any], path: str) -> None:
    """req: 154"""
    assert refusal(**fields) == path


def test_threads_are_refused_in_the_words_the_sdks_know() -> None:
    """Their tool runner then goes on with whole histories."""
    with pytest.raises(InvalidRequest) as caught:
        read(thread={"type": "create"})
    assert caught.value.fault.details == {"error_code": "thread_unsupported_request"}


def test_counting_needs_no_limit() -> None:
    body = body_of()
    del body["max_tokens"]
    request: Request = read_request(body, SEALER, counting=True)
    assert request.max_output_tokens is None


def test_the_body_is_not_changed() -> None:
    body = body_of(system="S", tools=[{"name": "f", "input_schema": {"type": "object"}}])
    before = repr(body)
    request = read_request(body, SEALER)
    assert repr(body) == before
    assert request.source is body
