"""Requests of Responses clients, and requests for Responses upstreams: requirements 45 to 53."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.errors import InvalidRequest
from dragoman.protocols.settings import make_capabilities, make_options
from tests.requirements.cells import (
    CHAT,
    MESSAGES,
    RESPONSES,
    WEATHER,
    Json,
    asking,
    calling,
    function_call,
    sent,
)

PNG = "data:image/png;base64,iVBORw0KGgo="


def messages(value: Any, **how: Any) -> list[Json]:
    """The messages that a Chat upstream receives for this input."""
    made: list[Json] = sent(RESPONSES, CHAT, asking(RESPONSES, input=value), **how)["messages"]
    return made


def part(value: str, kind: str = "input_text") -> Json:
    return {"type": kind, "text": value}


def test_a_string_is_one_user_message() -> None:
    """req: 45"""
    assert messages("Hi") == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_are_the_first_message(role: Any) -> None:
    """In the role that the upstream knows. req: 46"""
    asked = asking(RESPONSES, instructions="Be brief.")
    body = sent(RESPONSES, CHAT, asked, capabilities=make_capabilities(system_role=role))
    assert body["messages"] == [
        {"role": role, "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]


@pytest.mark.parametrize("typed", [{}, {"type": "message"}])
def test_items_with_a_role_are_messages(typed: Json) -> None:
    """With and without a type; a string stays one. req: 47"""
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
    ]
    assert messages([{**turn, **typed} for turn in turns]) == turns


@pytest.mark.parametrize("kind", ["input_text", "output_text", "text"])
def test_text_parts(kind: str) -> None:
    """All three names; parts keep their boundaries, which a line feed would blur. req: 48"""
    one, two = part("one", kind), part("two", kind)
    assert messages([{"role": "user", "content": [one]}]) == [{"role": "user", "content": "one"}]
    expected = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert messages([{"role": "user", "content": [one, two]}])[0]["content"] == expected


def test_images_are_not_dropped() -> None:
    """Nor is an image without any text. req: 48"""
    image = {"type": "input_image", "image_url": PNG, "detail": "high"}
    shown = {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}
    words = {"type": "text", "text": "What?"}
    assert messages([{"role": "user", "content": [part("What?"), image]}])[0]["content"] == [
        words,
        shown,
    ]
    assert messages([{"role": "user", "content": [image]}])[0]["content"] == [shown]


def test_an_item_that_says_nothing_gives_no_message() -> None:
    """req: 48"""
    empty = [{"role": "user", "content": []}, {"role": "assistant", "content": []}]
    assert messages([*empty, {"role": "user", "content": "Hi"}]) == [
        {"role": "user", "content": "Hi"}
    ]


def test_the_output_limit() -> None:
    """Only a Messages upstream must be given one, so only there is a default, of 16384: the 4096
    of contract 000 would cut models that think. req: 49"""
    asked = asking(RESPONSES, max_output_tokens=77)
    older = make_capabilities(max_tokens_field="max_tokens")
    assert sent(RESPONSES, CHAT, asked)["max_completion_tokens"] == 77
    assert sent(RESPONSES, CHAT, asked, capabilities=older)["max_tokens"] == 77
    assert sent(RESPONSES, MESSAGES, asked)["max_tokens"] == 77
    silent = asking(RESPONSES)
    assert not {"max_tokens", "max_completion_tokens"} & sent(RESPONSES, CHAT, silent).keys()
    assert sent(RESPONSES, MESSAGES, silent)["max_tokens"] == 16384
    seed = make_options(default_max_tokens=4096)
    assert sent(RESPONSES, MESSAGES, silent, options=seed)["max_tokens"] == 4096


@pytest.mark.parametrize("value", [0, 0.7])
def test_sampling(value: float) -> None:
    """req: 50"""
    body = sent(RESPONSES, CHAT, asking(RESPONSES, temperature=value, top_p=value))
    assert (body["temperature"], body["top_p"]) == (value, value)


FLAT = {"type": "function", "name": "look", "description": "Looks.", "parameters": WEATHER}
NESTED = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": WEATHER},
}


def test_tools_are_reshaped() -> None:
    """Flat on one side, nested on the other; strict only where the client asked for it. req: 51"""
    body = sent(RESPONSES, CHAT, asking(RESPONSES, tools=[FLAT]))
    assert body["tools"] == [NESTED]
    strict = {"name": "look", "parameters": {**WEATHER, "additionalProperties": False}}
    asked = asking(RESPONSES, tools=[{"type": "function", **strict, "strict": True}])
    body = sent(RESPONSES, CHAT, asked)
    assert body["tools"] == [{"type": "function", "function": {**strict, "strict": True}}]
    body = sent(CHAT, RESPONSES, asking(CHAT, tools=[NESTED]))
    assert body["tools"] == [{**FLAT, "strict": False}]


@pytest.mark.parametrize(
    ("flat", "nested"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ("none", "none"),
        (
            {"type": "function", "name": "look"},
            {"type": "function", "function": {"name": "look"}},
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "look"}],
            },
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "look"}}],
                },
            },
        ),
    ],
)
def test_the_choice_of_tools_is_reshaped(flat: Any, nested: Any) -> None:
    """Both ways. req: 51"""
    body = sent(RESPONSES, CHAT, asking(RESPONSES, tools=[FLAT], tool_choice=flat))
    assert body["tool_choice"] == nested
    body = sent(CHAT, RESPONSES, asking(CHAT, tools=[NESTED], tool_choice=nested))
    assert body["tool_choice"] == flat


LOOP = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": [part("Looking.", "output_text")]},
    {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"n":1}'},
    {"type": "function_call", "call_id": "call_2", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "one"},
    {"type": "function_call_output", "call_id": "call_2", "output": [part("two")]},
]


def test_calls_and_outputs_are_items() -> None:
    """Items of one assistant turn are one message. req: 51"""
    assert messages(LOOP) == [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [function_call(1, "look", '{"n":1}'), function_call(2, "look", "{}")],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "one"},
        {"role": "tool", "tool_call_id": "call_2", "content": "two"},
    ]


def test_an_unknown_item_is_refused_by_name() -> None:
    """Nothing is skipped because it was not understood. req: 51"""
    with pytest.raises(InvalidRequest) as caught:
        messages([{"role": "user", "content": "Hi"}, {"type": "riddle"}])
    assert caught.value.fault.param == "input[1].type"


def anthropic_loop(**flags: Any) -> Json:
    used = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"n": 1, "at": ["é"]}}
    found = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "No such file", **flags}
    return asking(
        MESSAGES,
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "text", "text": "Looking."}, used]},
            {"role": "user", "content": [found]},
        ],
    )


@pytest.mark.parametrize("flags", [{}, {"is_error": False}, {"is_error": True}])
def test_a_result_is_a_completed_output(flags: Json) -> None:
    """A failed tool gave a whole output; incomplete would mean that it was cut. An item without a
    status counts as completed. req: 52"""
    call = calling(MESSAGES, RESPONSES, anthropic_loop(**flags))
    output = json.loads(call.body)["input"][-1]
    assert output.pop("status", "completed") == "completed"
    assert output == {
        "type": "function_call_output",
        "call_id": "toolu_1",
        "output": "No such file",
    }
    assert len(call.losses) == (1 if flags.get("is_error") else 0)


def test_a_call_is_an_item() -> None:
    """The id becomes the call id, the input its JSON text; the item has no id of its own, for
    nothing is stored under it. req: 53"""
    item = sent(MESSAGES, RESPONSES, anthropic_loop())["input"][2]
    assert item == {
        "type": "function_call",
        "call_id": "toolu_1",
        "name": "look",
        "arguments": '{"n":1,"at":["é"]}',
    }
