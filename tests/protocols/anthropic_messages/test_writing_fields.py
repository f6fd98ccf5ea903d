"""The fields of a request for a Messages upstream."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.blocks import Base64, CacheMark, Document, Image, Text
from dragoman.canonical.options import Capabilities
from dragoman.canonical.requests import Extra, JsonObject, JsonSchema, ToolChoice, Turn
from dragoman.protocols.settings import make_capabilities, make_options
from tests.protocols.anthropic_messages.helpers import (
    CONTENT,
    CONVERTED,
    KNOB,
    OLD_VERSION,
    REPAIRED,
    request_of,
    write,
)
from tests.protocols.anthropic_messages.requests import CUSTOM, HI, PARAMS, PNG, F


def test_the_smallest_request() -> None:
    """The output limit is always there. req: 27"""
    body, losses = write(request_of(HI))
    assert body == {
        "model": "upstream-model",
        "max_tokens": 16384,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }
    assert losses == set()
    PARAMS.validate_python(body)


@pytest.mark.parametrize(
    ("asked", "most", "expected", "losses"),
    [
        (None, None, 16384, set()),
        (None, 4096, 4096, set()),
        (100, None, 100, set()),
        (0, None, 0, set()),
        (100_000, 8192, 8192, {("max_completion_tokens", REPAIRED)}),
    ],
)
def test_output_limits(asked: int | None, most: int | None, expected: int, losses: Any) -> None:
    paths = {"max_output_tokens": "max_completion_tokens"}
    body, found = write(
        request_of(HI, max_output_tokens=asked, paths=paths),
        capabilities=make_capabilities(max_output_tokens=most),
    )
    assert (body["max_tokens"], found) == (expected, losses)


@pytest.mark.parametrize(
    ("fields", "capabilities", "expected", "losses"),
    [
        ({"temperature": 0.5, "top_p": 0.5, "top_k": 3}, OLD_VERSION, None, set()),
        ({"temperature": 0.0}, OLD_VERSION, None, set()),
        ({"temperature": 1.7}, OLD_VERSION, {"temperature": 1.0}, {("temperature", REPAIRED)}),
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


OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
SCHEMA = {**OPEN, "additionalProperties": False}


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
        (JsonSchema(schema=OPEN), Capabilities(), SCHEMA, {("response_format", CONVERTED)}),
        (
            JsonSchema(schema=SCHEMA),
            make_capabilities(structured_output=False),
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
    assert OPEN == {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("fields", "expected", "losses"),
    [
        ({"stop": ("END", " \n")}, {"stop_sequences": ["END"]}, {("stop", KNOB)}),
        ({"stop": ("",)}, {}, {("stop", KNOB)}),
        ({"safety_identifier": "s"}, {"metadata": {"user_id": "s"}}, set()),
        ({"user": "u"}, {"metadata": {"user_id": "u"}}, set()),
        ({"safety_identifier": "s", "user": "u"}, {"metadata": {"user_id": "s"}}, {("user", KNOB)}),
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
    PARAMS.validate_python(body)


def test_fast_tiers_can_become_speed() -> None:
    body, losses = write(request_of(HI, service_tier="priority"), make_options(map_fast=True))
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
    PARAMS.validate_python(body)
