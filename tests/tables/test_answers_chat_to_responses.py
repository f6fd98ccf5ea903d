"""A Chat upstream's answers for a Responses client."""

from __future__ import annotations

import pytest

from dragoman.canonical.errors import FaultKind
from tests.tables.answers import RESPONSES_USAGE, Row, check, ids
from tests.tables.requests import CONTENT, KNOB, C, JsonObject, R
from tests.tables.wire_chat import call, free_call, says
from tests.tables.wire_responses import answer, called, called_free, part, refused, spoken

FAILED = FaultKind.UPSTREAM_FAILED
CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


def reasoning(*raw: str, summary: tuple[str, ...] = ()) -> JsonObject:
    item: JsonObject = {
        "type": "reasoning",
        "id": "rs_",
        "summary": [{"type": "summary_text", "text": piece} for piece in summary],
        "encrypted_content": "envelope of nothing",
    }
    content = [{"type": "reasoning_text", "text": piece} for piece in raw]
    return {**item, "content": content} if raw else item


LOGPROB = {"token": "x", "logprob": -1, "bytes": None, "top_logprobs": []}
PLACE = {"start_index": 0, "end_index": 1, "title": "T", "url": "https://e"}
X = spoken("x")
EXEC = {
    "type": "namespace",
    "name": "functions",
    "description": "functions",
    "tools": [{"type": "custom", "name": "g"}],
}

ROWS = [
    Row("text", says(content="Hello"), answer(spoken("Hello"))),
    *(
        Row(f"reasoning in {name}", says(content="x", **{name: "hm"}), answer(reasoning("hm"), X))
        for name in ("reasoning_content", "reasoning")
    ),
    Row(
        "reasoning, shown as a summary",
        says(content="x", reasoning_content="hm"),
        answer(reasoning(summary=("hm",)), X),
        options={"reasoning_as": "summary"},
    ),
    Row(
        "reasoning not to be shown",
        says(content="x", reasoning_content="hm"),
        answer(X),
        {"reasoning": KNOB},
        options={"show_reasoning": "never"},
    ),
    # req: 65
    Row("refusal", says(refusal="No."), answer(spoken(refused("No.")))),
    Row(
        "refusal after text",
        says(content="a", refusal="No."),
        answer(spoken("a", refused("No."))),
    ),
    # req: 63, 66
    Row(
        "calls",
        says(content="x", tool_calls=[call("c1", '{"a":1}'), call("c2", "")], finish="tool_calls"),
        answer(X, called("c1", '{"a":1}'), called("c2")),
    ),
    # req: 64
    Row("calls alone", says(tool_calls=[call("c1")]), answer(called("c1"))),
    Row(
        "a free-text call of the server's own",
        says(tool_calls=[free_call("c1")], finish="tool_calls"),
        answer(called_free("c1", "free")),
        asked={"tools": [{"type": "custom", "name": "g"}]},
    ),
    Row(
        "a call of an emulated free-text tool in a namespace, as Codex declares it",
        says(
            tool_calls=[call("c1", '{"input": "*** Begin Patch"}', "functions__g")],
            finish="tool_calls",
        ),
        answer({**called_free("c1", "*** Begin Patch"), "namespace": "functions"}),
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
        answer(X, called("c1", '{"a":', "incomplete"), **CUT),
    ),
    Row(
        "legacy function_call",
        says(function_call={"name": "f", "arguments": "{}"}, finish="function_call"),
        answer(called("call_27a7d140c75ecc2c970588ed")),
    ),
    Row(
        "citation",
        says(content="xy", annotations=[{"type": "url_citation", "url_citation": PLACE}]),
        answer(spoken(part("xy", annotations=[{"type": "url_citation", **PLACE}]))),
    ),
    Row(
        "log probabilities",
        says(content="x", choice={"logprobs": {"content": [LOGPROB]}}),
        answer(spoken(part("x", logprobs=[LOGPROB]))),
        asked={"include": ["message.output_text.logprobs"]},
    ),
    Row(
        "log probabilities that nobody asked for",
        says(content="x", choice={"logprobs": {"content": [LOGPROB]}}),
        answer(X),
        {"logprobs": KNOB},
    ),
    Row(
        "spoken answer",
        says(content="x", audio={"id": "a", "data": "x", "expires_at": 1, "transcript": "t"}),
        answer(X),
        {"choices[0].message.audio": CONTENT},
    ),
    Row(
        "finish length",
        says(content="x", finish="length"),
        answer(spoken("x", status="incomplete"), **CUT),
    ),
    Row(
        "reasoning that the limit cut",
        says(reasoning_content="hm", finish="length"),
        answer({**reasoning("hm"), "status": "incomplete"}, **CUT),
    ),
    Row(
        "finish content_filter",
        says(content="x", finish="content_filter"),
        answer(X, status="incomplete", incomplete_details={"reason": "content_filter"}),
    ),
    *(
        Row(f"finish {word!r}", says(content="x", finish=word), answer(X))
        for word in ("stop", "", "eos", "tool_calls")
    ),
    Row(
        "the stop string that vLLM names",
        says(content="x", choice={"stop_reason": "END"}),
        answer(X),
        {"stop_sequence": KNOB},
    ),
    *(
        Row(f"finish {word!r}", says(content="x", finish=word), fault=FAILED)
        for word in (None, "error")
    ),
    # req: 67
    Row("nothing said", says(), answer(spoken(""))),
    Row(
        "nothing said, by the limit",
        says(finish="length"),
        answer(spoken("", status="incomplete"), **CUT),
    ),
    Row(
        "two choices",
        {"choices": says(content="x")["choices"] * 2},
        fault=FAILED,
        streamed=False,
    ),
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
