"""A Chat upstream's answers for a Responses client."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.errors import FaultKind
from tests.tables.answers import RESPONSES_USAGE, Row, check, ids
from tests.tables.requests import CONTENT, CONVERTED, KNOB, C, JsonObject, R
from tests.tables.wire_chat import call, free_call
from tests.tables.wire_responses import refused

FAILED = FaultKind.UPSTREAM_FAILED
CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


def says(**fields: Any) -> JsonObject:
    """An answer whose message has these fields; `finish` and `choice` are about it."""
    finish = fields.pop("finish", "stop")
    choice = fields.pop("choice", {})
    message = {"role": "assistant", "content": None, **fields}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish, **choice}]}


def output(*items: JsonObject, **fields: Any) -> JsonObject:
    return {"output": list(items), **fields}


def part(value: str, **fields: Any) -> JsonObject:
    return {"type": "output_text", "text": value, "annotations": [], "logprobs": [], **fields}


def message(*parts: JsonObject | str, status: str = "completed") -> JsonObject:
    found = [part(piece) if isinstance(piece, str) else piece for piece in parts]
    head = {"type": "message", "id": "msg_", "status": status, "role": "assistant"}
    return {**head, "content": found}


def reasoning(*raw: str, summary: tuple[str, ...] = ()) -> JsonObject:
    item: JsonObject = {
        "type": "reasoning",
        "id": "rs_",
        "summary": [{"type": "summary_text", "text": piece} for piece in summary],
        "encrypted_content": "envelope of nothing",
    }
    content = [{"type": "reasoning_text", "text": piece} for piece in raw]
    return {**item, "content": content} if raw else item


def function(
    call_id: str, arguments: str = "{}", status: str = "completed", **fields: Any
) -> JsonObject:
    head = {"type": "function_call", "id": "fc_", "call_id": call_id, "name": "f"}
    return {**head, "arguments": arguments, "status": status, **fields}


def free(call_id: str, value: str) -> JsonObject:
    head = {"type": "custom_tool_call", "id": "ctc_", "call_id": call_id, "name": "g"}
    return {**head, "input": value, "status": "completed"}


LOGPROB = {"token": "x", "logprob": -1, "bytes": None, "top_logprobs": []}
PLACE = {"start_index": 0, "end_index": 1, "title": "T", "url": "https://e"}
X = message("x")
EXEC = {
    "type": "namespace",
    "name": "functions",
    "description": "functions",
    "tools": [{"type": "custom", "name": "g"}],
}

ROWS = [
    Row("text", says(content="Hello"), output(message("Hello"))),
    *(
        Row(f"reasoning in {name}", says(content="x", **{name: "hm"}), output(reasoning("hm"), X))
        for name in ("reasoning_content", "reasoning")
    ),
    Row(
        "reasoning, shown as a summary",
        says(content="x", reasoning_content="hm"),
        output(reasoning(summary=("hm",)), X),
        options={"reasoning_as": "summary"},
    ),
    Row(
        "reasoning not to be shown",
        says(content="x", reasoning_content="hm"),
        output(X),
        {"reasoning": KNOB},
        options={"show_reasoning": "never"},
    ),
    # req: 65
    Row("refusal", says(refusal="No."), output(message(refused("No.")))),
    Row(
        "refusal after text",
        says(content="a", refusal="No."),
        output(message("a", refused("No."))),
    ),
    # req: 63, 66
    Row(
        "calls",
        says(content="x", tool_calls=[call("c1", '{"a":1}'), call("c2", "")], finish="tool_calls"),
        output(X, function("c1", '{"a":1}'), function("c2")),
    ),
    # req: 64
    Row("calls alone", says(tool_calls=[call("c1")]), output(function("c1"))),
    Row(
        "a free-text call of the server's own",
        says(tool_calls=[free_call("c1")], finish="tool_calls"),
        output(free("c1", "free")),
        asked={"tools": [{"type": "custom", "name": "g"}]},
    ),
    Row(
        "a call of an emulated free-text tool in a namespace, as Codex declares it",
        says(
            tool_calls=[call("c1", '{"input": "*** Begin Patch"}', "functions__g")],
            finish="tool_calls",
        ),
        output({**free("c1", "*** Begin Patch"), "namespace": "functions"}),
        asked={
            "input": [
                {"type": "additional_tools", "role": "developer", "tools": [EXEC]},
                {"role": "user", "content": "hi"},
            ]
        },
    ),
    Row(
        "arguments that are no JSON object",
        says(tool_calls=[call("c1", '{"a":')], finish="tool_calls"),
        fault=FAILED,
    ),
    Row(
        "arguments that the limit cut",
        says(content="x", tool_calls=[call("c1", '{"a":')], finish="length"),
        output(X, function("c1", '{"a":', "incomplete"), **CUT),
    ),
    Row(
        "legacy function_call",
        says(function_call={"name": "f", "arguments": "{}"}, finish="function_call"),
        output(function("call_27a7d140c75ecc2c970588ed")),
    ),
    Row(
        "citation",
        says(content="xy", annotations=[{"type": "url_citation", "url_citation": PLACE}]),
        output(message(part("xy", annotations=[{"type": "url_citation", **PLACE}]))),
    ),
    Row(
        "log probabilities",
        says(content="x", choice={"logprobs": {"content": [LOGPROB]}}),
        output(message(part("x", logprobs=[LOGPROB]))),
    ),
    Row(
        "spoken answer",
        says(content="x", audio={"id": "a", "data": "x", "expires_at": 1, "transcript": "t"}),
        output(X),
        {"choices[0].message.audio": CONTENT},
    ),
    Row(
        "finish length",
        says(content="x", finish="length"),
        output(message("x", status="incomplete"), **CUT),
    ),
    Row(
        "reasoning that the limit cut",
        says(reasoning_content="hm", finish="length"),
        output({**reasoning("hm"), "status": "incomplete"}, **CUT),
    ),
    Row(
        "finish content_filter",
        says(content="x", finish="content_filter"),
        output(X, status="incomplete", incomplete_details={"reason": "content_filter"}),
    ),
    *(
        Row(f"finish {word!r}", says(content="x", finish=word), output(X))
        for word in ("stop", "", "eos", "tool_calls")
    ),
    Row(
        "a finish reason nobody knows",
        says(content="x", finish="tired"),
        output(X),
        {"choices[0].finish_reason": CONVERTED},
    ),
    Row(
        "the stop string that vLLM names",
        says(content="x", choice={"stop_reason": "END"}),
        output(X),
        {"stop_sequence": KNOB},
    ),
    *(
        Row(f"finish {word!r}", says(content="x", finish=word), fault=FAILED)
        for word in (None, "error")
    ),
    # req: 67
    Row("nothing said", says(), output(message(""))),
    Row(
        "nothing said, by the limit",
        says(finish="length"),
        output(message("", status="incomplete"), **CUT),
    ),
    Row("two choices", {"choices": says()["choices"] * 2}, fault=FAILED, streamed=False),
    Row("usage", {}, {"usage": RESPONSES_USAGE}),
    Row(
        "no usage",
        {"usage": None},
        {
            "usage": {
                "input_tokens": 0,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": 0,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 0,
            }
        },
    ),
    Row("service tier", {"service_tier": "priority"}, {"service_tier": "priority"}),
    Row("moderation", {"moderation": {"input": {}}}, {}, {"moderation": KNOB}),
]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(C, R, row)
