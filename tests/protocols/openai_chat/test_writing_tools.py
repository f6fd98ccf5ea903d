"""Tools and the choice among them, for a Chat upstream."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.blocks import (
    CacheMark,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    CustomTool,
    FunctionTool,
    Grammar,
    HostedTool,
    ToolChoice,
    ToolRef,
    Turn,
)
from dragoman.protocols.settings import make_capabilities, make_options
from tests.protocols.openai_chat.helpers import (
    CONTENT,
    CONVERTED,
    KNOB,
    REPAIRED,
    SCHEMA,
    STRICT,
    Losses,
    assistant,
    check_request,
    read,
    user,
    write,
)

NATIVE = make_capabilities(custom_tools_native=True)


def text(value: str, **fields: Any) -> Text:
    """A text block with a path."""
    return Text(text=value, path="t", **fields)


def messages(*turns: Turn, **fields: Any) -> list[Any]:
    """The messages of a request that loses nothing."""
    body, losses = write(*turns, **fields)
    assert losses == set()
    check_request(body)
    written: list[Any] = body["messages"]
    return written


# --- custom tools ---------------------------------------------------------------------------------


PATCH = CustomTool(
    name="patch", description="Edit.", grammar=Grammar("lark", "start: X"), path="tools[0]"
)
PATCHED = ToolCall(id="c1", name="patch", arguments="*** Begin", custom=True, path="call")
PATCH_RESULT = ToolResult(call_id="c1", content=(Text(text="ok"),), custom=True, path="r")


def test_a_custom_tool_is_emulated_by_a_function() -> None:
    body, losses = write(assistant(PATCHED), user(PATCH_RESULT), tools=(PATCH,))
    function = body["tools"][0]["function"]
    assert function["name"] == "patch"
    assert function["parameters"]["required"] == ["input"]
    assert function["parameters"]["properties"]["input"]["type"] == "string"
    assert "Edit." in function["description"]
    assert "start: X" in function["description"]
    assert body["messages"][0]["tool_calls"][0] == {
        "id": "c1",
        "type": "function",
        "function": {"name": "patch", "arguments": '{"input":"*** Begin"}'},
    }
    assert losses == {("tools[0]", CONVERTED), ("call", CONVERTED)}


def test_a_custom_tool_is_sent_as_it_is_where_it_is_known() -> None:
    choice = ToolChoice(mode="tool", tool=ToolRef("patch", custom=True))
    body, losses = write(
        assistant(PATCHED),
        user(PATCH_RESULT),
        tools=(PATCH,),
        tool_choice=choice,
        capabilities=NATIVE,
    )
    check_request(body)
    assert body["tools"][0]["custom"] == {
        "name": "patch",
        "description": "Edit.",
        "format": {
            "type": "grammar",
            "grammar": {"syntax": "lark", "definition": "start: X"},
        },
    }
    assert body["messages"][0]["tool_calls"][0] == {
        "id": "c1",
        "type": "custom",
        "custom": {"name": "patch", "input": "*** Begin"},
    }
    assert body["tool_choice"] == {"type": "custom", "custom": {"name": "patch"}}
    assert losses == set()


def test_custom_tools_can_be_rejected() -> None:
    reject = make_options(custom_tools="reject")
    body, losses = write(assistant(PATCHED), user(PATCH_RESULT), tools=(PATCH,), options=reject)
    assert "tools" not in body
    assert losses == {("tools[0]", CONTENT), ("call", CONTENT)}


# --- tools ----------------------------------------------------------------------------------------


def test_function_tools() -> None:
    """Nested under `function`. req: 25, 51"""
    tool = FunctionTool(name="f", description="d", schema=STRICT, strict=True)
    body, losses = write(tools=(tool,), parallel_tool_calls=False)
    check_request(body)
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": STRICT, "strict": True},
        }
    ]
    assert body["parallel_tool_calls"] is False
    assert losses == set()


@pytest.mark.parametrize(
    ("schema", "strict"), [(STRICT, True), (None, True), (SCHEMA, False), ({}, True)]
)
def test_strict_only_where_the_service_takes_it(schema: Any, strict: bool) -> None:
    """Other services enforce schemas that this one answers with a 400."""
    tool = FunctionTool(name="f", schema=schema, strict=True, path="t")
    body, losses = write(tools=(tool,))
    assert body["tools"][0]["function"]["strict"] is strict
    assert (("t.strict", KNOB) in losses) is not strict


@pytest.mark.parametrize(
    ("schema", "written", "losses"),
    [
        (None, {"type": "object", "properties": {}}, set()),
        ({"type": "object"}, {"type": "object", "properties": {}}, set()),
        (
            {"properties": {"a": {}}},
            {"properties": {"a": {}}, "type": "object"},
            {("tools[0]", REPAIRED)},
        ),
    ],
)
def test_schemas_are_completed(schema: Any, written: Any, losses: Losses) -> None:
    body, found = write(tools=(FunctionTool(name="f", schema=schema, path="tools[0]"),))
    assert body["tools"][0]["function"]["parameters"] == written
    assert found == losses


def test_what_a_tool_declaration_cannot_carry_is_reported() -> None:
    """Marks and flags without a place upstream. req: 30"""
    tool = FunctionTool(
        name="f",
        schema=SCHEMA,
        strict=True,
        deferred=True,
        cache=CacheMark(),
        path="tools[0]",
    )
    body, losses = write(tools=(tool,), capabilities=make_capabilities(strict_tools=False))
    assert body["tools"][0]["function"] == {"name": "f", "parameters": SCHEMA}
    assert losses == {
        ("tools[0].strict", KNOB),
        ("tools[0].defer_loading", KNOB),
        ("tools[0].cache_control", KNOB),
    }


def test_namespaces_are_flattened() -> None:
    tool = FunctionTool(name="f", namespace="ns", schema=SCHEMA)
    call = ToolCall(id="c1", name="f", namespace="ns", arguments="{}")
    choice = ToolChoice(mode="tool", tool=ToolRef("f", namespace="ns"))
    body, losses = write(
        assistant(call), user(ToolResult(call_id="c1")), tools=(tool,), tool_choice=choice
    )
    assert body["tools"][0]["function"]["name"] == "ns__f"
    assert body["messages"][0]["tool_calls"][0]["function"]["name"] == "ns__f"
    assert body["tool_choice"]["function"]["name"] == "ns__f"
    assert losses == set()


@pytest.mark.parametrize(("option", "kind"), [("drop", KNOB), ("reject", CONTENT)])
def test_hosted_tools_are_left_out(option: Any, kind: LossKind) -> None:
    tool = HostedTool(origin="openai_responses", type="web_search", raw={}, path="tools[0]")
    body, losses = write(tools=(tool,), options=make_options(hosted_tools=option))
    assert "tools" not in body
    assert losses == {("tools[0]", kind)}


def test_the_vendors_own_search_is_kept() -> None:
    body, losses = write(tools=read(web_search_options={"search_context_size": "low"}).tools)
    assert body["web_search_options"] == {"search_context_size": "low"}
    assert losses == set()


TOOLS = (FunctionTool(name="f", schema=SCHEMA), FunctionTool(name="g", schema=SCHEMA))


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        (ToolChoice(mode="auto"), "auto"),
        (ToolChoice(mode="none"), "none"),
        (ToolChoice(mode="required"), "required"),
        (
            ToolChoice(mode="tool", tool=ToolRef("f")),
            {"type": "function", "function": {"name": "f"}},
        ),
        (
            ToolChoice(mode="required", allowed=(ToolRef("g"),)),
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "g"}}],
                },
            },
        ),
    ],
)
def test_tool_choices(choice: ToolChoice, written: Any) -> None:
    """All modes in Chat's words. req: 26"""
    body, losses = write(tools=TOOLS, tool_choice=choice)
    check_request(body)
    assert body["tool_choice"] == written
    assert losses == set()


def test_a_choice_without_tools_is_not_sent() -> None:
    required = ToolChoice(mode="required", path="tool_choice")
    body, losses = write(tool_choice=required, parallel_tool_calls=True)
    assert "tool_choice" not in body
    assert "parallel_tool_calls" not in body
    assert losses == {("tool_choice", CONTENT)}
    assert write(tool_choice=ToolChoice(mode="auto"))[1] == set()


def test_a_choice_of_a_tool_that_is_not_offered_is_lost_content() -> None:
    choice = ToolChoice(mode="tool", tool=ToolRef("web_search"), path="tool_choice")
    body, losses = write(tools=TOOLS, tool_choice=choice)
    assert "tool_choice" not in body
    assert losses == {("tool_choice", CONTENT)}
