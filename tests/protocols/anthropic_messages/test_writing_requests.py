"""A request for a Messages upstream: content, tools and the fields of the top level."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import MessageCreateParams
from pydantic import TypeAdapter

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    CacheMark,
    Document,
    FileId,
    Foreign,
    ForeignCitation,
    Image,
    Nested,
    Opaque,
    PlainText,
    Reasoning,
    Refusal,
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
    Url,
    UrlCitation,
)
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
    ToolChoice,
    ToolRef,
    Turn,
)
from tests.protocols.anthropic_messages.helpers import (
    CONTENT,
    CONVERTED,
    DEFAULTS,
    KNOB,
    OLD_VERSION,
    REPAIRED,
    request_of,
    write,
)

NAME = "anthropic_messages"
PNG = "iVBORw0KGgo="
HI = Turn(role="user", blocks=(Text(text="hi"),))
F = FunctionTool(name="f", schema={"type": "object", "properties": {}}, path="tools[0]")
_PARAMS: TypeAdapter[Any] = TypeAdapter(MessageCreateParams)


def user(*blocks: Block, **options: Any) -> tuple[Any, set[tuple[str, LossKind]]]:
    """The content of one user message, and the losses."""
    body, losses = write(request_of(Turn(role="user", blocks=(*blocks, Text(text="."))), **options))
    (message,) = body["messages"]
    return message["content"][:-1], losses


def assistant(*blocks: Block, options: Options = DEFAULTS) -> tuple[Any, set[tuple[str, LossKind]]]:
    """The content of one assistant message in a conversation, and the losses."""
    turn = Turn(role="assistant", blocks=(*blocks, Text(text=".")))
    body, losses = write(request_of(HI, turn, HI), options)
    return body["messages"][1]["content"][:-1], losses


def test_the_smallest_request() -> None:
    """The output limit is always there. req: 27"""
    body, losses = write(request_of(HI))
    assert body == {
        "model": "upstream-model",
        "max_tokens": 16384,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }
    assert losses == set()
    _PARAMS.validate_python(body)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            Image(source=Url("https://a.example/i.png"), detail="auto"),
            {"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}},
        ),
        (
            Image(source=Base64("image/jpg", PNG)),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/jpeg", "data": PNG},
            },
        ),
        (
            Image(source=FileId("file_1", "anthropic")),
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        ),
        (
            Document(source=Base64("application/pdf", PNG), title="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PNG},
                "title": "a.pdf",
            },
        ),
        (
            Document(source=Base64("text/markdown; charset=utf-8", "w6k="), citations=True),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "é"},
                "citations": {"enabled": True},
            },
        ),
        (
            Document(source=PlainText("t"), context="c"),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "t"},
                "context": "c",
            },
        ),
        (
            Document(source=Url("https://a.example/x.pdf")),
            {"type": "document", "source": {"type": "url", "url": "https://a.example/x.pdf"}},
        ),
        (
            Document(source=Nested((Text(text="t"),))),
            {
                "type": "document",
                "source": {"type": "content", "content": [{"type": "text", "text": "t"}]},
            },
        ),
        (
            SearchResult(source="s", title="t", content=(Text(text="c"),)),
            {
                "type": "search_result",
                "source": "s",
                "title": "t",
                "content": [{"type": "text", "text": "c"}],
            },
        ),
        (
            Foreign(origin=NAME, type="container_upload", raw={"type": "container_upload"}),
            {"type": "container_upload"},
        ),
    ],
)
def test_user_content(block: Block, expected: Any) -> None:
    """req: 33, 44"""
    assert user(block) == ([expected], set())


@pytest.mark.parametrize(
    "block",
    [
        Image(source=Base64("image/tiff", PNG), path="p"),
        Image(source=FileId("file-1", "openai"), path="p"),
        Document(source=FileId("file-1", "openai"), path="p"),
        Document(source=Base64("application/zip", PNG), path="p"),
        Document(source=Base64("text/plain", "/w=="), path="p"),
        Audio(data="x", format="wav", path="p"),
        Foreign(origin="openai_responses", type="computer_call_output", raw={}, path="p"),
    ],
)
def test_user_content_that_cannot_be_carried_is_lost_content(block: Block) -> None:
    """It is never dropped without a word; the default policy refuses it. req: 34"""
    assert user(block) == ([], {("p", CONTENT)})


def test_smaller_losses_of_content() -> None:
    image = Image(source=Url("https://a.example/i.png"), detail="high", path="image")
    fallback = Foreign(origin="openai_responses", type="x", raw={}, loss=KNOB, path="foreign")
    content, losses = user(image, fallback, Text(text=" \n", path="blank"), Text(text=""))
    assert len(content) == 1
    assert losses == {("image", KNOB), ("foreign", KNOB), ("blank", REPAIRED)}


def test_images_where_the_upstream_takes_none() -> None:
    turn = Turn(role="user", blocks=(Image(source=Url("https://a.example"), path="p"),))
    _, losses = write(request_of(turn, HI), capabilities=Capabilities(images=False))
    assert losses == {("p", CONTENT)}


@pytest.mark.parametrize("old", [True, False])
def test_media_of_the_assistant(old: bool) -> None:
    turn = Turn(role="assistant", blocks=(Image(source=Url("https://a.example"), path="p"),))
    body, losses = write(
        request_of(HI, turn, HI), capabilities=OLD_VERSION if old else Capabilities()
    )
    assert losses == (set() if old else {("p", CONTENT)})
    assert len(body["messages"]) == (3 if old else 1)


@pytest.mark.parametrize(
    ("block", "expected", "losses"),
    [
        (Refusal(text="No.", path="p"), [{"type": "text", "text": "No."}], {("p", CONVERTED)}),
        (
            Reasoning(parts=("t",), opaque=Opaque(NAME, "SIG"), path="p"),
            [{"type": "thinking", "thinking": "t", "signature": "SIG"}],
            set(),
        ),
        (
            Reasoning(opaque=Opaque(NAME, "SIG"), path="p"),
            [{"type": "thinking", "thinking": "", "signature": "SIG"}],
            set(),
        ),
        (
            Reasoning(redacted=True, opaque=Opaque(NAME, "D"), path="p"),
            [{"type": "redacted_thinking", "data": "D"}],
            set(),
        ),
        (Reasoning(parts=("t",), path="p"), [], {("p", KNOB)}),
        (Reasoning(opaque=Opaque("openai_responses", "E"), path="p"), [], {("p", KNOB)}),
        (Reasoning(parts=("t",), opaque=Opaque("marker", "x"), path="p"), [], {("p", KNOB)}),
        (Reasoning(path="p"), [], set()),
        (
            Text(text="t", annotations=(UrlCitation(url="https://a.example"),), path="p"),
            [{"type": "text", "text": "t"}],
            {("p", KNOB)},
        ),
        (
            Text(text="t", annotations=(ForeignCitation(NAME, {"type": "page_location"}),)),
            [{"type": "text", "text": "t", "citations": [{"type": "page_location"}]}],
            set(),
        ),
        (
            Text(text="t", phase="commentary", path="input[2].content[0]"),
            [{"type": "text", "text": "t"}],
            {("input[2]", KNOB)},
        ),
    ],
)
def test_assistant_content(block: Block, expected: Any, losses: Any) -> None:
    assert assistant(block) == (expected, losses)


def calls(*blocks: ToolCall | ToolResult, **options: Any) -> tuple[list[Any], Any]:
    """The messages of a tool loop of these calls and results."""
    made = Turn(role="assistant", blocks=tuple(b for b in blocks if isinstance(b, ToolCall)))
    given = Turn(role="user", blocks=tuple(b for b in blocks if isinstance(b, ToolResult)))
    body, losses = write(request_of(HI, made, given, tools=(F,)), **options)
    return body["messages"], losses


def test_tool_calls_and_results() -> None:
    """Same id and name, parsed arguments, results in a user message. req: 35, 37, 38, 42"""
    messages, losses = calls(
        ToolCall(id="call_1", name="f", arguments='{"a": [1]}'),
        ToolCall(id="call_2", name="f", arguments=""),
        ToolResult(call_id="call_1", content=(Text(text="r1"),)),
        ToolResult(call_id="call_2"),
    )
    assert losses == set()
    assert messages[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": [1]}},
                {"type": "tool_use", "id": "call_2", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "r1"},
                {"type": "tool_result", "tool_use_id": "call_2"},
            ],
        },
    ]


def test_is_error_is_never_invented() -> None:
    """req: 39"""
    messages, _ = calls(
        ToolCall(id="a", name="f", arguments="{}"),
        ToolCall(id="b", name="f", arguments="{}"),
        ToolResult(call_id="a", content=(Text(text="Error: failed"),)),
        ToolResult(call_id="b", is_error=True),
    )
    first, second = messages[2]["content"]
    assert "is_error" not in first
    assert second["is_error"] is True


def test_tool_results_with_more_than_text() -> None:
    image = Image(source=Url("https://a.example"))
    messages, losses = calls(
        ToolCall(id="a", name="f", arguments="{}"),
        ToolResult(call_id="a", content=(Text(text="t"), image, ToolReference(name="g"))),
    )
    assert losses == set()
    assert messages[2]["content"][0]["content"] == [
        {"type": "text", "text": "t"},
        {"type": "image", "source": {"type": "url", "url": "https://a.example"}},
        {"type": "tool_reference", "tool_name": "g"},
    ]


def test_ids_the_service_refuses_are_replaced_alike() -> None:
    messages, _ = calls(
        ToolCall(id="functions.f:0", name="f", arguments="{}"),
        ToolResult(call_id="functions.f:0"),
    )
    made, given = messages[1]["content"][0]["id"], messages[2]["content"][0]["tool_use_id"]
    assert made == given != "functions.f:0"


@pytest.mark.parametrize("arguments", ['{"a":', "[1]", "null", '"x"', "nothing"])
@pytest.mark.parametrize(
    ("option", "expected", "loss"),
    [("wrap", None, CONVERTED), ("empty", {}, CONVERTED), ("error", None, CONTENT)],
)
def test_invalid_arguments(arguments: str, option: Any, expected: Any, loss: LossKind) -> None:
    """They never become an empty object in silence. req: 36"""
    messages, losses = calls(
        ToolCall(id="a", name="f", arguments=arguments, path="p"),
        ToolResult(call_id="a"),
        options=Options(invalid_tool_arguments=option),
    )
    assert losses == {("p", loss)}
    found = messages[1]["content"][0]["input"]
    assert found == ({"invalid_arguments": arguments} if expected is None else expected)


CUSTOM = CustomTool(
    name="patch", description="Edits.", grammar=Grammar("lark", "start: X"), path="tools[0]"
)


def test_custom_tools_are_emulated() -> None:
    """A function with one string, the grammar in its description."""
    call = ToolCall(id="a", name="patch", arguments="*** free\ntext", custom=True)
    body, losses = write(
        request_of(
            HI,
            Turn(role="assistant", blocks=(call,)),
            Turn(role="user", blocks=(ToolResult(call_id="a", custom=True),)),
            tools=(CUSTOM,),
            tool_choice=ToolChoice(mode="tool", tool=ToolRef("patch", custom=True)),
        )
    )
    assert losses == {("tools[0]", CONVERTED)}
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
        Options(custom_tools="reject"),
    )
    assert losses == {("tools[0]", CONTENT), ("call", CONTENT), ("tool_choice", CONTENT)}


@pytest.mark.parametrize(
    ("schema", "expected", "losses"),
    [
        (None, {"type": "object", "properties": {}}, set()),
        ({}, {"type": "object", "properties": {}}, set()),
        ({"properties": {"a": {}}}, {"properties": {"a": {}}, "type": "object"}, set()),
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


def test_function_tools() -> None:
    tools = (
        FunctionTool(name="a", description="d", schema={"type": "object"}, strict=True),
        FunctionTool(name="b", schema={"type": "object"}, strict=False, deferred=True),
        FunctionTool(name="n", namespace="ns", schema={"type": "object"}, cache=CacheMark()),
    )
    body, losses = write(request_of(HI, tools=tools))
    schema = {"type": "object"}
    assert body["tools"] == [
        {"name": "a", "description": "d", "input_schema": schema, "strict": True},
        {"name": "b", "input_schema": schema, "defer_loading": True},
        {"name": "ns__n", "input_schema": schema, "cache_control": {"type": "ephemeral"}},
    ]
    assert losses == set()
    _PARAMS.validate_python(body)


def test_strict_where_the_upstream_does_not_know_it() -> None:
    tool = FunctionTool(name="a", strict=True, path="t")
    body, losses = write(
        request_of(HI, tools=(tool,)), capabilities=Capabilities(strict_tools=False)
    )
    assert "strict" not in body["tools"][0]
    assert losses == {("t", KNOB)}


def test_tools_stay_callable_without_a_tool_search() -> None:
    """Deferred tools are offered at once if nothing upstream could find them."""
    search = HostedTool(origin="openai_responses", type="tool_search", raw={}, path="search")
    hidden = FunctionTool(name="a", deferred=True, path="a")
    body, losses = write(request_of(HI, tools=(search, hidden, F)))
    assert not any("defer_loading" in tool for tool in body["tools"])
    assert losses == {("search", KNOB), ("a", KNOB)}
    body, losses = write(request_of(HI, tools=(hidden,)))
    assert "defer_loading" not in body["tools"][0]
    assert losses == {("a", KNOB)}


@pytest.mark.parametrize(("option", "loss"), [("drop", KNOB), ("reject", CONTENT)])
def test_hosted_tools_of_another_vendor(option: Any, loss: LossKind) -> None:
    hosted = HostedTool(origin="openai_responses", type="web_search", raw={}, path="t")
    body, losses = write(request_of(HI, tools=(hosted,)), Options(hosted_tools=option))
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
        (
            ToolChoice(mode="required"),
            False,
            {"type": "any", "disable_parallel_tool_use": True},
        ),
        (
            ToolChoice(mode="tool", tool=ToolRef("f")),
            None,
            {"type": "tool", "name": "f"},
        ),
    ],
)
def test_tool_choice(choice: ToolChoice | None, parallel: bool | None, expected: Any) -> None:
    """req: 43"""
    request = request_of(HI, tools=(F,), tool_choice=choice, parallel_tool_calls=parallel)
    body, losses = write(request)
    assert body.get("tool_choice") == expected
    assert losses == set()
    _PARAMS.validate_python(body)


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


@pytest.mark.parametrize(
    ("asked", "most", "expected", "losses"),
    [
        (None, None, 16384, set()),
        (None, 4096, 4096, set()),
        (100, None, 100, set()),
        (0, None, 0, set()),
        (100_000, 8192, 8192, {("max_completion_tokens", KNOB)}),
    ],
)
def test_output_limits(asked: int | None, most: int | None, expected: int, losses: Any) -> None:
    paths = {"max_output_tokens": "max_completion_tokens"}
    body, found = write(
        request_of(HI, max_output_tokens=asked, paths=paths),
        capabilities=Capabilities(max_output_tokens=most),
    )
    assert (body["max_tokens"], found) == (expected, losses)


@pytest.mark.parametrize(
    ("fields", "capabilities", "expected", "losses"),
    [
        ({"temperature": 0.5, "top_p": 0.5, "top_k": 3}, OLD_VERSION, None, set()),
        ({"temperature": 0.0}, OLD_VERSION, None, set()),
        ({"temperature": 1.7}, OLD_VERSION, {"temperature": 1.0}, {("temperature", KNOB)}),
        ({"temperature": 1.0, "top_p": 1.0}, Capabilities(), {}, set()),
        (
            {"temperature": 0.0, "top_p": 0.5, "top_k": 3},
            Capabilities(),
            {},
            {("temperature", KNOB), ("top_p", KNOB), ("top_k", KNOB)},
        ),
    ],
)
def test_sampling(fields: Any, capabilities: Capabilities, expected: Any, losses: Any) -> None:
    """Only the older API version takes it. req: 28"""
    body, found = write(request_of(HI, **fields), capabilities=capabilities)
    kept = {name: body[name] for name in ("temperature", "top_p", "top_k") if name in body}
    assert kept == (fields if expected is None else expected)
    assert found == losses


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("shape", "capabilities", "expected", "losses"),
    [
        (JsonSchema(schema=SCHEMA, name="output", strict=True), Capabilities(), SCHEMA, set()),
        (
            JsonSchema(schema=SCHEMA, name="n", description="d"),
            Capabilities(),
            {"title": "n", "description": "d", **SCHEMA},
            set(),
        ),
        (
            JsonSchema(schema={**SCHEMA, "title": "n"}, name="n"),
            Capabilities(),
            {**SCHEMA, "title": "n"},
            set(),
        ),
        (
            JsonSchema(schema={**SCHEMA, "title": "t"}, name="n"),
            Capabilities(),
            {**SCHEMA, "title": "t"},
            {("response_format", KNOB)},
        ),
        (
            JsonSchema(schema=SCHEMA, strict=False),
            Capabilities(),
            SCHEMA,
            {("response_format", KNOB)},
        ),
        (
            JsonSchema(schema=SCHEMA),
            Capabilities(structured_output=False),
            None,
            {("response_format", CONTENT)},
        ),
        (JsonObject(), Capabilities(), None, {("response_format", KNOB)}),
    ],
)
def test_output_formats(shape: Any, capabilities: Any, expected: Any, losses: Any) -> None:
    request = request_of(HI, output_format=shape, paths={"output_format": "response_format"})
    body, found = write(request, capabilities=capabilities)
    written = {"format": {"type": "json_schema", "schema": expected}} if expected else None
    assert body.get("output_config") == written
    assert found == losses
    assert SCHEMA == {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("fields", "expected", "losses"),
    [
        ({"stop": ("END", " \n")}, {"stop_sequences": ["END"]}, {("stop", KNOB)}),
        ({"stop": ("",)}, {}, {("stop", KNOB)}),
        ({"safety_identifier": "s"}, {"metadata": {"user_id": "s"}}, set()),
        ({"user": "u"}, {"metadata": {"user_id": "u"}}, set()),
        (
            {"safety_identifier": "s", "user": "u"},
            {"metadata": {"user_id": "s"}},
            {("user", KNOB)},
        ),
        ({"service_tier": "auto"}, {"service_tier": "auto"}, set()),
        ({"service_tier": "default"}, {"service_tier": "standard_only"}, set()),
        ({"service_tier": "flex"}, {}, {("service_tier", KNOB)}),
        ({"service_tier": "priority"}, {}, {("service_tier", KNOB)}),
        ({"speed": "fast"}, {"speed": "fast"}, set()),
        ({"stream": True, "include_usage": True}, {"stream": True}, set()),
        ({"logprobs": True}, {}, {("logprobs", CONTENT)}),
        (
            {"logprobs": True, "top_logprobs": 2},
            {},
            {("logprobs", CONTENT), ("top_logprobs", CONTENT)},
        ),
        ({"top_logprobs": 0}, {}, set()),
        ({"verbosity": "low"}, {}, {("verbosity", KNOB)}),
        ({"verbosity": "medium"}, {}, set()),
        ({"metadata": {"a": "b"}}, {}, {("metadata", KNOB)}),
        ({"metadata": {}}, {}, set()),
        ({"prompt_cache_key": "k"}, {}, {("prompt_cache_key", KNOB)}),
        ({"prompt_cache_retention": "24h"}, {}, {("prompt_cache_retention", KNOB)}),
        ({"prompt_cache_options": {"mode": "implicit"}}, {}, set()),
        ({"prompt_cache_options": {"mode": "explicit"}}, {}, {("prompt_cache_options", KNOB)}),
        ({"moderation": {"model": "x"}}, {}, {("moderation", KNOB)}),
        ({"store": True}, {}, {("store", KNOB)}),
        ({"store": False}, {}, set()),
    ],
)
def test_other_fields(fields: dict[str, Any], expected: Any, losses: Any) -> None:
    body, found = write(request_of(HI, **fields))
    rest = {name: body[name] for name in body.keys() - {"model", "max_tokens", "messages"}}
    assert (rest, found) == (expected, losses)
    _PARAMS.validate_python(body)


def test_fast_tiers_can_become_speed() -> None:
    body, losses = write(request_of(HI, service_tier="priority"), Options(map_fast=True))
    assert (body["speed"], losses) == ("fast", set())


def test_extras_of_the_client_are_reported_as_they_are() -> None:
    """req: 40"""
    request = request_of(
        HI,
        extras=(
            Extra("messages[1].role", "function", CONTENT, "legacy function messages"),
            Extra("seed", 5, KNOB),
        ),
    )
    assert write(request)[1] == {("messages[1].role", CONTENT), ("seed", KNOB)}


@pytest.mark.parametrize(
    ("ttl", "half_hour", "expected", "lossy"),
    [
        (None, "5m", {"type": "ephemeral"}, False),
        (None, "1h", {"type": "ephemeral", "ttl": "1h"}, False),
        ("5m", "5m", {"type": "ephemeral", "ttl": "5m"}, False),
        ("1h", "5m", {"type": "ephemeral", "ttl": "1h"}, False),
        ("30m", "5m", {"type": "ephemeral", "ttl": "5m"}, True),
        ("30m", "1h", {"type": "ephemeral", "ttl": "1h"}, True),
        ("12h", "5m", {"type": "ephemeral", "ttl": "1h"}, True),
    ],
)
def test_cache_lifetimes(ttl: str | None, half_hour: Any, expected: Any, lossy: bool) -> None:
    turn = Turn(role="user", blocks=(Text(text="t", cache=CacheMark(ttl), path="p"),))
    body, losses = write(request_of(turn), capabilities=Capabilities(cache_ttl_30m_as=half_hour))
    assert body["messages"][0]["content"][0]["cache_control"] == expected
    assert losses == ({("p", KNOB)} if lossy else set())


def test_at_most_four_cache_marks_and_the_last_ones() -> None:
    texts = tuple(
        Text(text=str(n), cache=CacheMark(), path=f"messages[0].content[{n}]") for n in range(3)
    )
    system = Text(text="s", cache=CacheMark(), path="system[0]")
    tool = FunctionTool(name="f", cache=CacheMark(), path="tools[0]")
    turn = Turn(role="user", blocks=texts)
    request = request_of(turn, tools=(tool,), instructions=(system,), auto_cache=CacheMark())
    body, losses = write(request)
    marked = [block["text"] for block in body["messages"][0]["content"] if "cache_control" in block]
    assert marked == ["0", "1", "2"]
    assert body["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in body["tools"][0]
    assert body["system"] == "s"
    assert losses == {("tools[0]", KNOB), ("system[0]", KNOB)}


def test_no_cache_mark_outlives_one_before_it() -> None:
    system = Text(text="s", cache=CacheMark("5m"))
    turn = Turn(role="user", blocks=(Text(text="t", cache=CacheMark("1h"), path="p"),))
    body, losses = write(request_of(turn, instructions=(system,)))
    assert body["messages"][0]["content"][0]["cache_control"]["ttl"] == "5m"
    assert losses == {("p", KNOB)}


def test_caching_unasked() -> None:
    caches = Capabilities(auto_cache=True)
    assert "cache_control" in write(request_of(HI), capabilities=caches)[0]
    explicit = request_of(HI, prompt_cache_options={"mode": "explicit"})
    assert "cache_control" not in write(explicit, capabilities=caches)[0]


def test_everything_at_once_is_valid_for_the_sdk() -> None:
    turn = Turn(
        role="user",
        blocks=(
            Text(text="t", cache=CacheMark("1h")),
            Image(source=Base64("image/png", PNG)),
            Document(source=Base64("application/pdf", PNG), title="x"),
        ),
    )
    body, _ = write(
        request_of(
            turn,
            instructions=(Text(text="s"), Text(text="s2")),
            tools=(F, CUSTOM),
            tool_choice=ToolChoice(mode="auto"),
            stop=("x",),
            safety_identifier="u",
            output_format=JsonSchema(schema=SCHEMA),
            service_tier="default",
            stream=True,
        )
    )
    _PARAMS.validate_python(body)
