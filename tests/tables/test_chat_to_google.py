"""A Chat client before an upstream of Google's generateContent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tables.requests import (
    ABSENT,
    CONTENT,
    CONVERTED,
    HI,
    KNOB,
    PNG,
    PNG_URL,
    REPAIRED,
    SCHEMA,
    WEB,
    C,
    JsonObject,
    Row,
    check,
    ids,
)
from tests.tables.wire_chat import assistant, call, function, msgs, parts, result, text

G = "google_generate_content"
USER = {"role": "user", "parts": [{"text": "hi"}]}
PLACEHOLDER = "skip_thought_signature_validator"
OLD = {"google_generation": 2.5}
"""A model that thinks by budgets, and signs nothing that it wants back."""
CLOUD = {"google_cloud": True}

F = function(description="d", parameters=SCHEMA)
SENT_F = {
    "functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": SCHEMA}]
}
EMPTY_F = {"functionDeclarations": [{"name": "f"}]}
CALLED = msgs(
    HI, assistant(tool_calls=[call("c1"), call("c2")]), result("c2", "r"), result("c1", "r")
)


def model(*written: JsonObject) -> JsonObject:
    return {"role": "model", "parts": [*written]}


def user(*written: JsonObject) -> JsonObject:
    return {"role": "user", "parts": [*written]}


def called(identifier: str | None, **more: Any) -> JsonObject:
    own = {"id": identifier} if identifier else {}
    return {"functionCall": {"name": "f", "args": {}, **own}, **more}


def answered(identifier: str | None, said: str = "r", **more: Any) -> JsonObject:
    own = {"id": identifier} if identifier else {}
    response = {"name": "f", "response": {"output": said}, **own, **more}
    return {"functionResponse": response}


def thinking(**config: Any) -> JsonObject:
    return {"thinkingConfig": config}


UNSEEN = "[image left out: the model takes no images]"
SIGNED = {"thoughtSignature": PLACEHOLDER}
IMAGE = {"type": "image_url", "image_url": {"url": PNG_URL}}
LINKED = {"type": "image_url", "image_url": {"url": f"{WEB}.png"}}
INLINE = {"inlineData": {"mimeType": "image/png", "data": PNG}}

ROWS = [
    Row(
        "calls and results, the first with a placeholder",
        CALLED,
        {
            "contents": [
                USER,
                model(called("c1", **SIGNED), called("c2")),
                user(answered("c1"), answered("c2")),
            ]
        },
        {"messages[1]": REPAIRED},
    ),
    Row(
        "no placeholder, where none is allowed",
        CALLED,
        {
            "contents": [
                USER,
                model(called("c1"), called("c2")),
                user(answered("c1"), answered("c2")),
            ]
        },
        {"messages[1]": CONTENT},
        upstream={"google_placeholder_signatures": False},
    ),
    Row(
        "no identifiers on Vertex AI",
        CALLED,
        {
            "contents": [
                USER,
                model(called(None, **SIGNED), called(None)),
                user(answered(None), answered(None)),
            ]
        },
        {"messages[1]": REPAIRED},
        upstream=CLOUD,
    ),
    Row(
        "no identifiers, as set, and no signatures of older models",
        CALLED,
        {
            "contents": [
                USER,
                model(called(None), called(None)),
                user(answered(None), answered(None)),
            ],
            "generationConfig": thinking(includeThoughts=True),
        },
        upstream={"google_call_ids": False, **OLD},
    ),
    Row("an image", parts(text("see"), IMAGE), {"contents": [user({"text": "see"}, INLINE)]}),
    Row(
        "an image at an address",
        parts(text("see"), LINKED),
        {"contents": [user({"text": "see"})]},
        {"messages[0].content[1]": CONTENT},
    ),
    Row(
        "an image at an address that the upstream fetches",
        parts(LINKED),
        {"contents": [user({"fileData": {"fileUri": f"{WEB}.png", "mimeType": "image/png"}})]},
        upstream={"google_file_urls": True},
    ),
    Row(
        "an image for a model without",
        parts(text("see"), IMAGE),
        {
            "contents": [
                user({"text": "see"}, {"text": "[image left out: the model takes no images]"})
            ]
        },
        {"messages[0].content[1]": CONTENT},
        upstream={"images": False},
    ),
    Row(
        "system text, early and late",
        msgs({"role": "system", "content": "L"}, HI, {"role": "system", "content": "M"}),
        {
            "systemInstruction": {"parts": [{"text": "L"}]},
            "contents": [
                user(
                    {"text": "hi"},
                    {"text": "<system-reminder>\nM\n</system-reminder>"},
                )
            ],
        },
        {"messages[2]": CONVERTED},
    ),
    Row(
        "the model's words first",
        msgs(assistant("a"), HI),
        {"contents": [user({"text": " "}), model({"text": "a"}), USER]},
        {"messages[0]": REPAIRED},
    ),
    Row("a tool", {"tools": [F]}, {"tools": [SENT_F]}),
    Row("a tool without arguments", {"tools": [function()]}, {"tools": [EMPTY_F]}),
    Row(
        "a tool for services without JSON Schema",
        {"tools": [F]},
        {
            "tools": [
                {
                    "functionDeclarations": [
                        {
                            "name": "f",
                            "description": "d",
                            "parameters": {
                                "type": "OBJECT",
                                "properties": {"a": {"type": "STRING"}},
                            },
                        }
                    ]
                }
            ]
        },
        upstream={"google_json_schema": False},
    ),
    Row(
        "a choice",
        {"tools": [function()], "tool_choice": "required"},
        {"tools": [EMPTY_F], "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
    ),
    Row(
        "a tool whose name begins with a digit",
        {"tools": [function("1st")]},
        {"tools[0].functionDeclarations[0].name": "_1st_2fbf170a"},
    ),
    Row(
        "one call at a time",
        {"tools": [function()], "parallel_tool_calls": False},
        {"tools": [EMPTY_F]},
        {"parallel_tool_calls": KNOB},
    ),
    Row(
        "an effort",
        {"reasoning_effort": "xhigh"},
        {
            "generationConfig": {
                "thinkingConfig": {"thinkingLevel": "XHIGH", "includeThoughts": True}
            }
        },
    ),
    Row(
        "an effort that the upstream does not know",
        {"reasoning_effort": "medium"},
        {
            "generationConfig": {
                "thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True}
            }
        },
        {"reasoning_effort": CONVERTED},
        upstream={"efforts": ["low", "high"]},
    ),
    Row(
        "a budget for an effort",
        {"reasoning_effort": "low"},
        {"generationConfig": thinking(thinkingBudget=1024, includeThoughts=True)},
        upstream=OLD,
    ),
    Row(
        "hidden reasoning",
        {"reasoning_effort": "low"},
        {"generationConfig": thinking(thinkingLevel="LOW")},
        options={"show_reasoning": "never"},
    ),
    Row(
        "penalties",
        {"presence_penalty": 1, "frequency_penalty": 0, "seed": 3},
        {"generationConfig": {"seed": 3}},
        {"presence_penalty": KNOB},
    ),
    Row(
        "penalties for a model that takes them",
        {"presence_penalty": 1},
        {"generationConfig": {"presencePenalty": 1.0}},
        upstream={"google_penalties": True},
    ),
    Row(
        "labels",
        {"metadata": {"team": "a"}, "user": "me"},
        {"labels": {"team": "a", "user": "me"}},
        upstream=CLOUD,
    ),
    Row(
        "no labels",
        {"metadata": {"team": "a"}, "user": "me"},
        {"labels": ABSENT},
        {"metadata": KNOB, "user": KNOB},
    ),
    Row(
        "limits, sampling and stops",
        {"max_completion_tokens": 5, "temperature": 0.5, "stop": ["a"]},
        {"generationConfig": {"maxOutputTokens": 5, "temperature": 0.5, "stopSequences": ["a"]}},
    ),
    Row("a tier", {"service_tier": "flex"}, {"serviceTier": "flex"}),
]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(C, G, row)
