"""What an upstream does not take is changed for clients of its own protocol as for all others; the
rest of their requests keeps its bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from dragoman.canonical.errors import Refused
from dragoman.canonical.losses import LossKind
from tests.library import translate_request

CONVERTED, KNOB, CONTENT = LossKind.CONVERTED, LossKind.KNOB, LossKind.CONTENT
C, A, R = "openai_chat", "anthropic_messages", "openai_responses"
HI = {"role": "user", "content": "hi"}
LEAST: Mapping[str, dict[str, Any]] = {
    C: {"model": "m", "messages": [HI]},
    A: {"model": "m", "max_tokens": 4096, "messages": [HI]},
    R: {"model": "m", "input": "hi"},
}
PICTURE = "data:image/png;base64,iVBORw0KGgo="


class Row(NamedTuple):
    """One row: members of a request, what the upstream takes, the members that it is sent instead
    (None: left out), and the losses."""

    name: str
    protocol: str
    asked: dict[str, Any]
    upstream: dict[str, Any]
    sent: dict[str, Any]
    lost: dict[str, LossKind]


def reminder(text: str) -> dict[str, Any]:
    return {"role": "user", "content": f"<system-reminder>\n{text}\n</system-reminder>"}


SYSTEM = {"role": "system", "content": "L"}
USER = {"late_system": "user"}
INPUT = {"type": "string", "description": "The whole input, as plain text."}
CUSTOM = {"type": "custom", "custom": {"name": "patch"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "r"}
SHORT = hashlib.sha256(b"call_1").hexdigest()[:9]
LEVELS = {"efforts": ("low", "medium", "xhigh")}

ROWS = [
    Row(
        "later system text",
        C,
        {"messages": [HI, SYSTEM], "seed": 1, "min_p": 0.5},
        USER,
        {"messages": [HI, reminder("L")]},
        {"messages[1]": CONVERTED},
    ),
    Row(
        "later system text",
        A,
        {"messages": [HI, SYSTEM], "beta_of_a_server": True},
        USER,
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "hi"},
                        {"type": "text", "text": reminder("L")["content"]},
                    ],
                }
            ]
        },
        {"messages[1]": CONVERTED},
    ),
    Row(
        "later system text",
        R,
        {"input": [HI, SYSTEM], "beta_of_a_server": True},
        USER,
        {
            "input": [
                {"type": "message", "role": "user", "content": "hi"},
                {"type": "message", **reminder("L")},
            ]
        },
        {"input[1]": CONVERTED},
    ),
    Row(
        "an effort the upstream does not know",
        C,
        {"reasoning_effort": "high"},
        LEVELS,
        {"reasoning_effort": "medium"},
        {"reasoning_effort": CONVERTED},
    ),
    Row(
        "an effort the upstream does not know",
        A,
        {"output_config": {"effort": "high"}},
        LEVELS,
        {"output_config": {"effort": "medium"}},
        {"output_config.effort": CONVERTED},
    ),
    Row(
        "an effort the upstream does not know",
        R,
        {"reasoning": {"effort": "high"}},
        LEVELS,
        {"reasoning": {"effort": "medium"}},
        {"reasoning": CONVERTED},
    ),
    Row(
        "an effort for a server with a switch",
        C,
        {"reasoning_effort": "low"},
        {"effort": "chat_template_kwargs"},
        {"reasoning_effort": None, "chat_template_kwargs": {"enable_thinking": True}},
        {"reasoning_effort": CONVERTED},
    ),
    Row(
        "sampling",
        C,
        {"temperature": 0.5, "top_p": 0.5, "seed": 1},
        {"sampling": False},
        {"temperature": None, "top_p": None},
        {"temperature": KNOB, "top_p": KNOB},
    ),
    Row(
        "sampling",
        R,
        {"temperature": 0.5},
        {"sampling": False},
        {"temperature": None},
        {"temperature": KNOB},
    ),
    Row(
        "another name of the output limit",
        C,
        {"max_tokens": 5},
        {"max_tokens_field": "max_completion_tokens"},
        {"max_tokens": None, "max_completion_tokens": 5},
        {},
    ),
    Row(
        "an output limit whose name nobody knows",
        C,
        {"max_tokens": 5},
        {},
        {},
        {},
    ),
    Row(
        "usage in streams",
        C,
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream_usage": False},
        {"stream_options": None},
        {},
    ),
    Row(
        "free-text tools",
        C,
        {"tools": [CUSTOM]},
        {"custom_tools_native": False},
        {
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "patch",
                        "parameters": {
                            "type": "object",
                            "properties": {"input": INPUT},
                            "required": ["input"],
                            "additionalProperties": False,
                        },
                    },
                }
            ]
        },
        {"tools[0].custom": CONVERTED},
    ),
    Row(
        "calls without reasoning, where it is wanted",
        C,
        {"messages": [HI, CALLED, RESULT]},
        {"replay_reasoning": "tool_turns"},
        {"messages": [HI, {**CALLED, "reasoning_content": ""}, RESULT]},
        {},
    ),
    Row(
        "calls with reasoning, where it is wanted",
        C,
        {"messages": [HI, {**CALLED, "reasoning_content": "r"}, RESULT], "n": 2},
        {"replay_reasoning": "tool_turns"},
        {},
        {},
    ),
    Row(
        "neighbouring user messages, where they must alternate",
        C,
        {"messages": [HI, HI, CALLED, RESULT, HI], "seed": 1},
        {"alternating_turns": True},
        {
            "messages": [
                {"role": "user", "content": "hi\n\nhi"},
                CALLED,
                {**RESULT, "content": "r\n\nhi"},
            ]
        },
        {},
    ),
    Row(
        "ids of calls for a vendor of short ones",
        C,
        {"messages": [HI, CALLED, RESULT]},
        {"short_call_ids": True},
        {
            "messages": [
                HI,
                {**CALLED, "tool_calls": [{**CALL, "id": SHORT}]},
                {**RESULT, "tool_call_id": SHORT},
            ]
        },
        {},
    ),
    *(
        Row(
            "members of every body",
            protocol,
            {"vendor": {"a": 1, "b": 1}, "flag": 1},
            {"body": {"vendor": {"b": 2}, "flag": 2, "split": True}},
            {"vendor": {"a": 1, "b": 2}, "flag": 2, "split": True},
            {"vendor.b": KNOB, "flag": KNOB},
        )
        for protocol in (C, A, R)
    ),
    Row(
        "a budget for a server with efforts alone",
        A,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        {"adaptive_thinking": False},
        {"thinking": {"type": "enabled", "budget_tokens": 2048}, "output_config": None},
        {"thinking": CONVERTED},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}, {row.protocol}")
def test_row(row: Row) -> None:
    asked = {**LEAST[row.protocol], **row.asked}
    call = translate_request(
        row.protocol, row.protocol, json.dumps(asked).encode(), capabilities=row.upstream
    )
    expected = {name: value for name, value in {**asked, **row.sent}.items() if value is not None}
    if asked.get("stream") and row.upstream.get("stream_usage", True):
        expected.setdefault("stream_options", {"include_usage": True})
    assert json.loads(call.body) == expected
    assert {loss.path: loss.kind for loss in call.losses} == row.lost


IMAGES = [
    (C, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": PICTURE}]}]}),
    (
        A,
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image",
                            "source": {
                                "type": "base64",
                                "media_type": "image/png",
                                "data": PICTURE.partition(",")[2],
                            },
                        }
                    ],
                }
            ]
        },
    ),
    (R, {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PICTURE}]}]}),
]


@pytest.mark.parametrize(("protocol", "asked"), IMAGES, ids=lambda value: str(value)[:20])
def test_pictures_for_a_model_without_eyes_are_refused(
    protocol: str, asked: dict[str, Any]
) -> None:
    body = json.dumps({**LEAST[protocol], **asked}).encode()
    with pytest.raises(Refused, match="the model m takes no images"):
        translate_request(protocol, protocol, body, model="n", capabilities={"images": False})
