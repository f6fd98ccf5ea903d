"""Settings and cache marks of a request for a Chat upstream."""

from __future__ import annotations

from collections.abc import Iterable
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
    Extra,
    JsonObject,
    JsonSchema,
    Thinking,
    Turn,
)
from dragoman.protocols.settings import make_capabilities, make_options
from tests.protocols.openai_chat.helpers import (
    CONTENT,
    CONVERTED,
    KNOB,
    REPAIRED,
    SCHEMA,
    Losses,
    assistant,
    check_request,
    user,
    write,
)

MARKS = make_capabilities(prompt_cache_breakpoints=True)
CALL = ToolCall(id="c1", name="f", arguments='{"a":1}', path="call")


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


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({"max_output_tokens": 5}, {"max_completion_tokens": 5}),
        ({"temperature": 0.0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}),
        ({"stop": ("a", "b")}, {"stop": ["a", "b"]}),
        ({"logprobs": True, "top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
        ({"verbosity": "low"}, {"verbosity": "low"}),
        ({"thinking": Thinking(effort="max")}, {"reasoning_effort": "max"}),
        ({"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
        ({"user": "u", "safety_identifier": "s"}, {"user": "u", "safety_identifier": "s"}),
        ({"prompt_cache_key": "k"}, {"prompt_cache_key": "k"}),
        ({"prompt_cache_retention": "24h"}, {"prompt_cache_retention": "24h"}),
        (
            {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}},
            {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}},
        ),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"moderation": {"model": "x"}}, {"moderation": {"model": "x"}}),
        ({"store": False}, {}),
        ({"speed": "standard"}, {}),
        ({"output_format": JsonObject()}, {"response_format": {"type": "json_object"}}),
        (
            {"output_format": JsonSchema(schema=SCHEMA, name="n", description="d", strict=False)},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "n",
                        "description": "d",
                        "schema": SCHEMA,
                        "strict": False,
                    },
                }
            },
        ),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"stream": False, "include_usage": True}, {}),
    ],
)
def test_settings(fields: dict[str, Any], written: dict[str, Any]) -> None:
    """Each in Chat's own name; 0 is a value; usage is always asked for. req: 27, 28, 49, 50"""
    body, losses = write(**fields)
    check_request(body)
    base = {"model": "upstream-model", "messages": [{"role": "user", "content": ""}]}
    assert body == {**base, **written}
    assert losses == set()


@pytest.mark.parametrize(
    ("fields", "capabilities", "written", "losses"),
    [
        ({"max_output_tokens": 5}, {"max_tokens_field": "max_tokens"}, {"max_tokens": 5}, set()),
        (
            {"max_output_tokens": 500},
            {"max_output_tokens": 100},
            {"max_completion_tokens": 100},
            {("max_output_tokens", REPAIRED)},
        ),
        ({"max_output_tokens": 0}, {}, {}, {("max_output_tokens", CONTENT)}),
        (
            {"stop": tuple("abcde")},
            {},
            {"stop": list("abcd")},
            {("stop", CONTENT)},
        ),
        (
            {"temperature": 0.5, "top_p": 1.0},
            {"sampling": False},
            {},
            {("temperature", KNOB)},
        ),
        ({"top_k": 4}, {"top_k": True}, {"top_k": 4}, set()),
        ({"top_k": 4}, {}, {}, {("top_k", KNOB)}),
        ({"top_logprobs": 4}, {}, {}, {("top_logprobs", KNOB)}),
        ({"store": True}, {}, {}, {("store", KNOB)}),
        ({"auto_cache": CacheMark()}, {}, {}, {("auto_cache", KNOB)}),
        ({"service_tier": "ultrafast"}, {}, {}, {("service_tier", KNOB)}),
        ({"speed": "fast"}, {}, {}, {("speed", KNOB)}),
        (
            {"prompt_cache_options": {"ttl": "12h", "prewarm": True}},
            {},
            {},
            {("prompt_cache_options.ttl", KNOB), ("prompt_cache_options.prewarm", KNOB)},
        ),
        (
            {"output_format": JsonSchema(schema=SCHEMA)},
            {"structured_output": False},
            {},
            {("output_format", CONTENT)},
        ),
        ({"stream": True}, {"stream_usage": False}, {"stream": True}, set()),
    ],
)
def test_settings_that_depend_on_the_upstream(
    fields: dict[str, Any],
    capabilities: dict[str, Any],
    written: dict[str, Any],
    losses: Losses,
) -> None:
    body, found = write(capabilities=make_capabilities(**capabilities), **fields)
    base = {"model": "upstream-model", "messages": [{"role": "user", "content": ""}]}
    assert body == {**base, **written}
    assert found == losses


STRICT_SCHEMA = {**SCHEMA, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (STRICT_SCHEMA, True),
        (SCHEMA, False),
        ({**STRICT_SCHEMA, "required": []}, False),
        ({**STRICT_SCHEMA, "allOf": []}, False),
        ({"anyOf": [STRICT_SCHEMA]}, False),
        ({**STRICT_SCHEMA, "properties": {"a": {"type": "array", "items": SCHEMA}}}, False),
        ({**STRICT_SCHEMA, "properties": {"a": {"anyOf": [STRICT_SCHEMA]}}}, True),
        ({**STRICT_SCHEMA, "$defs": {"x": SCHEMA}}, False),
        ({**STRICT_SCHEMA, "properties": {"a": {"type": ["object", "null"]}}}, False),
    ],
)
def test_a_format_without_a_name_is_strict_if_its_schema_can_be(schema: Any, strict: bool) -> None:
    """Messages always enforces the schema; here only the strict subset can be."""
    body, losses = write(output_format=JsonSchema(schema=schema))
    written = body["response_format"]["json_schema"]
    assert written == {"name": "output", "schema": schema, "strict": strict}
    assert losses == (set() if strict else {("output_format", CONVERTED)})


@pytest.mark.parametrize(
    ("thinking", "capabilities", "written", "lost"),
    [
        (Thinking(), {}, {}, None),
        (Thinking(mode="adaptive"), {}, {}, None),
        (Thinking(summary="auto"), {}, {}, None),
        (Thinking(display="omitted", effort="low"), {}, {"reasoning_effort": "low"}, None),
        (Thinking(display="updates", effort="low"), {}, {"reasoning_effort": "low"}, KNOB),
        (Thinking(mode="adaptive"), {"effort": "none"}, {}, KNOB),
        (Thinking(mode="adaptive"), {"effort": "enable_thinking"}, {}, KNOB),
        (Thinking(mode="enabled", budget=9), {"effort": "none"}, {}, KNOB),
        (
            Thinking(mode="between_tools"),
            {"effort": "enable_thinking"},
            {"enable_thinking": False},
            CONVERTED,
        ),
        (Thinking(mode="adaptive", effort="low"), {}, {"reasoning_effort": "low"}, None),
        (Thinking(mode="disabled"), {}, {"reasoning_effort": "none"}, None),
        (Thinking(mode="between_tools"), {}, {"reasoning_effort": "none"}, CONVERTED),
        (Thinking(mode="enabled", budget=2048), {}, {"reasoning_effort": "low"}, CONVERTED),
        (Thinking(mode="enabled", budget=12288), {}, {"reasoning_effort": "medium"}, CONVERTED),
        (Thinking(mode="enabled", budget=32768), {}, {"reasoning_effort": "high"}, CONVERTED),
        (Thinking(mode="enabled", budget=32769), {}, {"reasoning_effort": "xhigh"}, CONVERTED),
        (
            Thinking(effort="max"),
            {"efforts": ("low", "high")},
            {"reasoning_effort": "high"},
            CONVERTED,
        ),
        (
            Thinking(effort="none"),
            {"efforts": ("minimal", "high")},
            {"reasoning_effort": "minimal"},
            CONVERTED,
        ),
        (
            Thinking(effort="minimal"),
            {"efforts": ("none", "low")},
            {"reasoning_effort": "low"},
            CONVERTED,
        ),
        (Thinking(effort="low"), {"efforts": ()}, {}, KNOB),
        (Thinking(effort="low"), {"effort": "none"}, {}, KNOB),
        (
            Thinking(effort="none"),
            {"effort": "chat_template_kwargs"},
            {"chat_template_kwargs": {"enable_thinking": False}},
            None,
        ),
        (
            Thinking(effort="high"),
            {"effort": "chat_template_kwargs"},
            {"chat_template_kwargs": {"enable_thinking": True}},
            CONVERTED,
        ),
        (
            Thinking(mode="disabled"),
            {"effort": "enable_thinking"},
            {"enable_thinking": False},
            None,
        ),
    ],
)
def test_thinking(
    thinking: Thinking, capabilities: dict[str, Any], written: dict[str, Any], lost: LossKind | None
) -> None:
    """How much to think, in the upstream's way of saying it. req: 29"""
    body, losses = write(thinking=thinking, capabilities=make_capabilities(**capabilities))
    base = {"model": "upstream-model", "messages": [{"role": "user", "content": ""}]}
    assert body == {**base, **written}
    assert losses == ({("thinking", lost)} if lost else set())


def test_a_long_user_id_is_hashed() -> None:
    """Deterministically, so that the user stays the same user."""
    first, losses = write(safety_identifier="x" * 129)
    second, _ = write(safety_identifier="x" * 129)
    assert len(first["safety_identifier"]) == 64
    assert first == second
    assert losses == {("safety_identifier", CONVERTED)}


def test_fast_can_be_mapped() -> None:
    body, losses = write(speed="fast", options=make_options(map_fast=True))
    assert body["service_tier"] == "fast"
    assert losses == set()


def test_losses_are_told_in_the_clients_words() -> None:
    paths = {"max_output_tokens": "max_tokens", "stop": "stop_sequences"}
    losses = write(max_output_tokens=0, stop=tuple("abcde"), paths=paths)[1]
    assert losses == {("max_tokens", CONTENT), ("stop_sequences", CONTENT)}


def test_extras_of_the_client_are_losses() -> None:
    extra = Extra("container", "x", CONTENT, code="previous_response_not_found")
    assert write(extras=(extra,))[1] == {("container", CONTENT)}


# --- caching --------------------------------------------------------------------------------------


def marks(content: Iterable[Any]) -> list[Any]:
    """The cache marks on parts."""
    return [part.get("prompt_cache_breakpoint") for part in content]


@pytest.mark.parametrize(
    ("ttl", "mark", "losses"),
    [
        (None, {"mode": "explicit"}, set()),
        ("30m", {"mode": "explicit", "ttl": "30m"}, set()),
        ("12h", {"mode": "explicit", "ttl": "12h"}, set()),
        ("5m", {"mode": "explicit"}, {("t", KNOB)}),
        ("1h", {"mode": "explicit"}, {("t", KNOB)}),
    ],
)
def test_cache_marks_where_the_upstream_takes_them(ttl: Any, mark: Any, losses: Losses) -> None:
    body, found = write(user(text("a", cache=CacheMark(ttl))), capabilities=MARKS)
    check_request(body)
    assert marks(body["messages"][0]["content"]) == [mark]
    assert found == losses


def test_cache_marks_are_stripped_elsewhere() -> None:
    """From system texts, blocks and results alike. req: 30"""
    mark = CacheMark()
    call = ToolCall(id="c1", name="f", arguments="{}", cache=mark, path="call")
    body, losses = write(
        user(Text(text="a", cache=mark, path="u")),
        assistant(call),
        user(ToolResult(call_id="c1", content=(text("r"),), cache=mark, path="r")),
        instructions=(Text(text="s", cache=mark, path="system[0]"),),
    )
    assert [message["content"] for message in body["messages"]] == ["s", "a", None, "r"]
    assert losses == {("system[0]", KNOB), ("u", KNOB), ("call", KNOB), ("r", KNOB)}


def test_only_the_last_four_marks_are_sent() -> None:
    texts = [Text(text=str(n), cache=CacheMark(), path=f"t{n}") for n in range(6)]
    body, losses = write(user(*texts), capabilities=MARKS)
    kept = [mark is not None for mark in marks(body["messages"][0]["content"])]
    assert kept == [False, False, True, True, True, True]
    assert losses == {("t0", KNOB), ("t1", KNOB)}


def test_a_mark_on_a_result_stands_on_its_last_text() -> None:
    result = ToolResult(call_id="c1", content=(text("a"), text("b")), cache=CacheMark())
    body, losses = write(assistant(CALL), user(result), capabilities=MARKS)
    assert marks(body["messages"][1]["content"]) == [None, {"mode": "explicit"}]
    assert losses == set()
