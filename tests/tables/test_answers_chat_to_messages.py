"""A Chat upstream's answers for a Messages client."""

from __future__ import annotations

import pytest

from dragoman.canonical.errors import FaultKind
from tests.tables.answers import MESSAGES_USAGE, Row, check, ids
from tests.tables.requests import CONVERTED, KNOB, REPAIRED, A, C, JsonObject
from tests.tables.wire_chat import call, free_call, says
from tests.tables.wire_messages import content, declined, thought, use

FAILED = FaultKind.UPSTREAM_FAILED
THINKS = {"thinking": {"type": "adaptive"}}


DETAILS = [{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}]
DETAILS_STATE = '[{"index":0,"signature":"s","text":"hm","type":"reasoning.text"}]'
LOGPROBS = {"content": [{"token": "x", "logprob": -1, "bytes": None, "top_logprobs": []}]}
CITED = {
    "type": "url_citation",
    "url_citation": {"start_index": 0, "end_index": 1, "title": "T", "url": "https://e"},
}

CUT: dict[str, JsonObject] = {
    '{"a":1,"b":"unfini': {"a": 1},
    '{"a":[1,{"b":2},3': {"a": [1, {"b": 2}]},
    '{"a":"x","b":': {"a": "x"},
    '{"a":"\\"},{","b":tr': {"a": '"},{'},
    '{"a': {},
    "nonsense": {},
    '{"a":1}}': {"a": 1},
    "[1,2": {},
}
"""Arguments that the limit cut, and what can be read of them."""

ROWS = [
    Row("text", says(content="Hello"), content("Hello")),
    *(
        Row(
            f"reasoning in {' and '.join(told)}",
            says(content="x", **told),
            content(thought("hm"), "x"),
            asked=THINKS,
        )
        for told in (
            {"reasoning_content": "hm"},
            {"reasoning": "hm"},
            {"reasoning_content": "hm", "reasoning": "hm"},
        )
    ),
    Row(
        "reasoning with state",
        says(content="x", reasoning_details=DETAILS),
        content(thought("hm", DETAILS_STATE), "x"),
        asked=THINKS,
    ),
    # req: 56
    Row(
        "reasoning nobody asked for",
        says(content="x", reasoning_content="hm"),
        content("x"),
        {"reasoning": KNOB},
    ),
    Row(
        "reasoning nobody asked for, shown always",
        says(content="x", reasoning_content="hm"),
        content(thought("hm"), "x"),
        options={"show_reasoning": "always"},
    ),
    Row(
        "reasoning shown never",
        says(content="x", reasoning_content="hm"),
        content("x"),
        {"reasoning": KNOB},
        THINKS,
        {"show_reasoning": "never"},
    ),
    Row("refusal", says(refusal="No."), content("No.", **declined("No."))),
    Row(
        "refusal after text",
        says(content="a", refusal="No."),
        content("a", "No.", **declined("No.")),
    ),
    # req: 54
    Row(
        "calls",
        says(content="x", tool_calls=[call("c1", '{"a":1}'), call("c2", "")], finish="tool_calls"),
        content("x", use("c1", {"a": 1}), use("c2"), stop="tool_use"),
    ),
    Row(
        "calls under a wrong finish reason",
        says(tool_calls=[call("c1")]),
        content(use("c1"), stop="tool_use"),
    ),
    Row("tool_calls without a call", says(content="x", finish="tool_calls"), content("x")),
    *(
        Row(
            f"arguments {arguments}",
            says(tool_calls=[call("c1", arguments)], finish="tool_calls"),
            fault=FAILED,
        )
        for arguments in ('{"a":', "[1]", "x")
    ),
    Row(
        "arguments null",
        says(tool_calls=[call("c1", "null")], finish="tool_calls"),
        content(use("c1", {}), stop="tool_use"),
    ),
    *(
        Row(
            f"arguments that the limit cut: {arguments}",
            says(tool_calls=[call("c1", arguments)], finish="length"),
            content(use("c1", read), stop="max_tokens"),
            {"content": REPAIRED},
            streamed=False,
        )
        for arguments, read in CUT.items()
    ),
    Row(
        "a call of a free-text tool nobody declared",
        says(tool_calls=[free_call("c1")], finish="tool_calls"),
        content(use("c1", {"input": "free"}, "g"), stop="tool_use"),
        {"content": CONVERTED},
    ),
    Row(
        "legacy function_call",
        says(function_call={"name": "f", "arguments": '{"a":1}'}, finish="function_call"),
        content(use("call_27a7d140c75ecc2c970588ed", {"a": 1}), stop="tool_use"),
    ),
    Row("citation", says(content="x", annotations=[CITED]), content("x"), {"annotations": KNOB}),
    Row(
        "log probabilities nobody could ask for",
        says(content="x", choice={"logprobs": LOGPROBS}),
        content("x"),
        {"logprobs": KNOB},
    ),
    Row("finish length", says(content="x", finish="length"), content("x", stop="max_tokens")),
    Row(
        "finish content_filter",
        says(content="x", finish="content_filter"),
        content("x", **declined(None)),
    ),
    *(
        Row(f"finish {word!r}", says(content="x", finish=word), content("x"))
        for word in ("stop", "", "eos", "end_turn", "tool_call")
    ),
    *(
        Row(f"finish {word!r}", says(content="x", finish=word), fault=FAILED)
        for word in (None, "error", "insufficient_system_resource")
    ),
    Row(
        "a finish reason that nobody knows",
        says(content="x", finish="tired"),
        content("x"),
        {"choices[0].finish_reason": CONVERTED},
    ),
    Row(
        "the stop string that vLLM names",
        says(content="x", choice={"stop_reason": "END"}),
        content("x", stop="stop_sequence", stop_sequence="END"),
    ),
    Row("nothing said", says(), content()),
    Row("nothing said, by the limit", says(finish="length"), content(stop="max_tokens")),
    Row("no choice", {"choices": []}, fault=FAILED, streamed=False),
    Row(
        "two choices",
        {"choices": says(content="x")["choices"] * 2},
        fault=FAILED,
        streamed=False,
    ),
    Row("another choice than the first", says(content="x", choice={"index": 1}), content("x")),
    Row("usage", {}, {"usage": MESSAGES_USAGE}),
    Row(
        "no usage",
        {"usage": None},
        {
            "usage": {
                "input_tokens": 0,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 0,
            }
        },
    ),
    Row(
        "cached tokens that exceed the prompt",
        {
            "usage": {
                "prompt_tokens": 5,
                "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 9},
            }
        },
        {
            "usage": {
                "input_tokens": 0,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 9,
                "output_tokens": 1,
            }
        },
    ),
    *(
        Row(
            f"service tier {tier}",
            {"service_tier": tier},
            {"usage": {**MESSAGES_USAGE, "service_tier": word}},
        )
        for tier, word in (("default", "standard"), ("priority", "priority"))
    ),
    Row("service tier flex", {"service_tier": "flex"}, {}, {"service_tier": KNOB}),
    Row("system fingerprint, of use to none", {"system_fingerprint": "fp"}),
    Row("moderation", {"moderation": {"input": {}}}, {}, {"moderation": KNOB}),
    Row(
        "an error in place of an answer",
        {"choices": None, "error": {"message": "m", "code": "rate_limit_exceeded"}},
        fault=FaultKind.RATE_LIMITED,
        streamed=False,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_row(row: Row) -> None:
    check(C, A, row)
