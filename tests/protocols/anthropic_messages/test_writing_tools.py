"""Tools of a request for a Messages upstream."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.blocks import CacheMark, ToolCall, ToolResult
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import FunctionTool, HostedTool, ToolChoice, ToolRef, Turn
from dragoman.protocols.settings import make_capabilities, make_options
from tests.protocols.anthropic_messages.helpers import (
    CONTENT,
    CONVERTED,
    KNOB,
    NAME,
    REPAIRED,
    request_of,
    write,
)
from tests.protocols.anthropic_messages.requests import CUSTOM, HI, PARAMS, F


def test_custom_tools_are_emulated() -> None:
    """A function with one string, the grammar in its description."""
    call = ToolCall(id="a", name="patch", arguments="*** free\ntext", custom=True, path="call")
    body, losses = write(
        request_of(
            HI,
            Turn(role="assistant", blocks=(call,)),
            Turn(role="user", blocks=(ToolResult(call_id="a", custom=True),)),
            tools=(CUSTOM,),
            tool_choice=ToolChoice(mode="tool", tool=ToolRef("patch", custom=True)),
        )
    )
    assert losses == {("tools[0]", CONVERTED), ("call", CONVERTED)}
    (tool,) = body["tools"]
    assert tool["input_schema"]["required"] == ["input"]
    assert tool["description"].startswith("Edits.")
    assert "start: X" in tool["description"]
    assert body["messages"][1]["content"][0]["input"] == {"input": "*** free\ntext"}
    assert body["tool_choice"] == {"type": "tool", "name": "patch"}


def test_custom_tools_can_be_rejected() -> None:
    """Definitions, choices and calls. req: 41"""
    call = ToolCall(id="a", name="patch", arguments="x", custom=True, path="call")
    _, losses = write(
        request_of(
            HI,
            Turn(role="assistant", blocks=(call,)),
            Turn(role="user", blocks=(ToolResult(call_id="a", custom=True),)),
            tools=(CUSTOM, F),
            tool_choice=ToolChoice(
                mode="tool", tool=ToolRef("patch", custom=True), path="tool_choice"
            ),
        ),
        make_options(custom_tools="reject"),
    )
    assert losses == {("tools[0]", CONTENT), ("call", CONTENT), ("tool_choice", CONTENT)}


@pytest.mark.parametrize(
    ("schema", "expected", "losses"),
    [
        (None, {"type": "object", "properties": {}}, set()),
        ({}, {"type": "object", "properties": {}}, set()),
        (
            {"properties": {"a": {}}},
            {"properties": {"a": {}}, "type": "object"},
            {("t", REPAIRED)},
        ),
        ({"type": "string"}, {"type": "object"}, {("t", REPAIRED)}),
        (
            {"type": "object", "$defs": {"A": {}}, "properties": {"a": {"$ref": "#/$defs/A"}}},
            {"type": "object", "$defs": {"A": {}}, "properties": {"a": {"$ref": "#/$defs/A"}}},
            set(),
        ),
    ],
)
def test_schemas_are_objects(schema: Any, expected: Any, losses: Any) -> None:
    body, found = write(request_of(HI, tools=(FunctionTool(name="f", schema=schema, path="t"),)))
    assert body["tools"] == [{"name": "f", "input_schema": expected}]
    assert found == losses


CLOSED = {"type": "object", "additionalProperties": False}


def test_function_tools() -> None:
    tools = (
        FunctionTool(name="a", description="d", schema=CLOSED, strict=True),
        FunctionTool(name="b", schema={"type": "object"}, strict=False, deferred=True),
        FunctionTool(name="n", namespace="ns", schema={"type": "object"}, cache=CacheMark()),
    )
    body, losses = write(request_of(HI, tools=tools))
    schema = {"type": "object"}
    assert body["tools"] == [
        {"name": "a", "description": "d", "input_schema": CLOSED, "strict": True},
        {"name": "b", "input_schema": schema, "defer_loading": True},
        {"name": "ns__n", "input_schema": schema, "cache_control": {"type": "ephemeral"}},
    ]
    assert losses == set()
    PARAMS.validate_python(body)


@pytest.mark.parametrize(
    "schema",
    [{"type": "object"}, {**CLOSED, "properties": {"n": {"type": "string", "minLength": 2}}}],
)
def test_strict_where_the_service_would_refuse_the_schema(schema: Any) -> None:
    tool = FunctionTool(name="a", schema=schema, strict=True, path="t")
    body, losses = write(request_of(HI, tools=(tool,)))
    assert body["tools"] == [{"name": "a", "input_schema": schema}]
    assert losses == {("t.strict", KNOB)}


def test_a_strict_tool_without_arguments() -> None:
    body, losses = write(request_of(HI, tools=(FunctionTool(name="a", strict=True),)))
    assert body["tools"] == [
        {"name": "a", "input_schema": {**CLOSED, "properties": {}}, "strict": True}
    ]
    assert losses == set()


def test_strict_where_the_upstream_does_not_know_it() -> None:
    tool = FunctionTool(name="a", strict=True, path="t")
    body, losses = write(
        request_of(HI, tools=(tool,)), capabilities=make_capabilities(strict_tools=False)
    )
    assert "strict" not in body["tools"][0]
    assert losses == {("t.strict", KNOB)}


def test_tools_stay_callable_without_a_tool_search() -> None:
    """Deferred tools are offered at once if nothing upstream could find them."""
    search = HostedTool(origin="openai_responses", type="tool_search", raw={}, path="search")
    hidden = FunctionTool(name="a", deferred=True, path="a")
    body, losses = write(request_of(HI, tools=(search, hidden, F)))
    assert not any("defer_loading" in tool for tool in body["tools"])
    assert losses == {("search", KNOB), ("a.defer_loading", KNOB)}
    body, losses = write(request_of(HI, tools=(hidden,)))
    assert "defer_loading" not in body["tools"][0]
    assert losses == {("a.defer_loading", KNOB)}


@pytest.mark.parametrize(("option", "loss"), [("drop", KNOB), ("reject", CONTENT)])
def test_hosted_tools_of_another_vendor(option: Any, loss: LossKind) -> None:
    hosted = HostedTool(origin="openai_responses", type="web_search", raw={}, path="t")
    body, losses = write(request_of(HI, tools=(hosted,)), make_options(hosted_tools=option))
    assert "tools" not in body
    assert losses == {("t", loss)}


def test_hosted_tools_of_this_vendor_pass() -> None:
    raw = {"type": "web_search_20260318", "name": "web_search", "max_uses": 2}
    hosted = HostedTool(origin=NAME, type="web_search_20260318", raw=raw)
    assert write(request_of(HI, tools=(hosted,)))[0]["tools"] == [raw]


def test_a_name_declared_twice_is_declared_once() -> None:
    body, losses = write(request_of(HI, tools=(F, FunctionTool(name="f", path="tools[1]"))))
    assert len(body["tools"]) == 1
    assert losses == {("tools[1]", REPAIRED)}


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice(mode="auto"), None, {"type": "auto"}),
        (ToolChoice(mode="none"), False, {"type": "none"}),
        (ToolChoice(mode="required"), False, {"type": "any", "disable_parallel_tool_use": True}),
        (ToolChoice(mode="tool", tool=ToolRef("f")), None, {"type": "tool", "name": "f"}),
    ],
)
def test_tool_choice(choice: ToolChoice | None, parallel: bool | None, expected: Any) -> None:
    """req: 43"""
    request = request_of(HI, tools=(F,), tool_choice=choice, parallel_tool_calls=parallel)
    body, losses = write(request)
    assert body.get("tool_choice") == expected
    assert losses == set()
    PARAMS.validate_python(body)


@pytest.mark.parametrize(
    ("choice", "losses"),
    [
        (ToolChoice(mode="auto", path="c"), set()),
        (ToolChoice(mode="none", path="c"), set()),
        (ToolChoice(mode="required", path="c"), {("c", CONTENT)}),
    ],
)
def test_no_choice_without_tools(choice: ToolChoice, losses: Any) -> None:
    body, found = write(request_of(HI, tool_choice=choice, parallel_tool_calls=False))
    assert "tool_choice" not in body
    assert found == losses


def test_allowed_tools_filter_the_tools() -> None:
    choice = ToolChoice(mode="required", allowed=(ToolRef("g", namespace="ns"),), path="c")
    tools = (F, FunctionTool(name="g", namespace="ns"), FunctionTool(name="g"))
    body, losses = write(request_of(HI, tools=tools, tool_choice=choice))
    assert [tool["name"] for tool in body["tools"]] == ["ns__g"]
    assert body["tool_choice"] == {"type": "any"}
    assert losses == {("c", CONVERTED)}
