"""A Responses upstream's streams, for a Chat and a Messages client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocols.openai_responses.upstream import (
    call,
    custom_call,
    frame_events,
    item_events,
    message,
    reasoning,
    response,
    text,
)
from tests.tables.requests import A, C, JsonObject, R
from tests.tables.streams import COMMENT, CUT, DONE, Row, check, ids

HI = message(text("Hi"))
USAGE = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
THINKS = {"thinking": {"type": "adaptive"}}


def around(answer: JsonObject, *body: JsonObject | bytes) -> list[JsonObject | bytes]:
    """A stream of these events between those of its beginning and its end."""
    created, progress, terminal = frame_events({**answer, "usage": USAGE})
    return [created, progress, *body, terminal]


def streamed(
    *items: JsonObject, status: str = "completed", **fields: Any
) -> list[JsonObject | bytes]:
    """The stream of these items as the service sends it."""
    answer = response(*items, status=status, **fields)
    body = [event for number, item in enumerate(items) for event in item_events(item, number)]
    return around(answer, *body)


def only(item: JsonObject, *names: str) -> list[JsonObject | bytes]:
    """The stream of one item of which only these events are sent."""
    events = item_events(item, 0)
    kept = [event for event in events if event["type"].removeprefix("response.") in names]
    return around(response(item), *kept)


HOSTED = {"type": "web_search_call", "id": "w", "status": "completed", "action": {}}
KEEPALIVE = {"type": "keepalive", "sequence_number": 2}
PROGRESS = {"type": "response.web_search_call.searching", "item_id": "w", "output_index": 0}
ERROR = {"type": "error", "code": "server_error", "message": "m", "param": None}
NESTED = {"type": "error", "error": {"type": "x", "code": "rate_limit_exceeded", "message": "m"}}
ASKS = {"stream_options": {"include_usage": True}}


def broken(*after: JsonObject | bytes) -> list[JsonObject | bytes]:
    """A stream that begins to say something and goes on like this."""
    return [*streamed(HI)[:5], *after]


def failure(code: str) -> JsonObject:
    answer = response(status="failed", error={"code": code, "message": "m"}, usage=None)
    return {"type": "response.failed", "response": answer}


SAID = ["role assistant", "content Hi"]

TO_CHAT = [
    Row("text", streamed(HI), [*SAID, "finish stop", "done"]),
    Row(
        "text, with a terminator, comments and keepalives",
        [*around(response(HI), KEEPALIVE, COMMENT, *item_events(HI, 0)), DONE],
        [*SAID, "finish stop", "done"],
    ),
    Row("usage asked for", streamed(HI), [*SAID, "finish stop", "usage 9+5", "done"], ASKS),
    Row(
        "text that only the last event holds",
        around(response(HI)),
        [*SAID, "finish stop", "done"],
    ),
    Row(
        "reasoning in two parts",
        streamed(reasoning("one", "two"), HI),
        [
            "role assistant",
            "reasoning_content one",
            "reasoning_content \n\ntwo",
            "content Hi",
            "finish stop",
            "done",
        ],
    ),
    *(
        Row(
            f"raw reasoning by the name {name}",
            around(
                response(),
                {
                    "type": f"response.{name}.delta",
                    "item_id": "rs_1",
                    "output_index": 0,
                    "content_index": 0,
                    "delta": "hm",
                },
            ),
            ["role assistant", "reasoning_content hm", "finish stop", "done"],
        )
        for name in ("reasoning_text", "reasoning")
    ),
    *(
        Row(
            f"arguments told by {told}",
            only(call('{"a":1}'), "output_item.added", *events),
            ["role assistant", "call 0 function call_1 f", *pieces, "finish tool_calls", "done"],
        )
        for told, events, pieces in (
            (
                "deltas",
                (
                    "function_call_arguments.delta",
                    "function_call_arguments.done",
                    "output_item.done",
                ),
                ['call 0 {"a', 'call 0 ":1', "call 0 }"],
            ),
            ("the whole alone", ("function_call_arguments.done",), ['call 0 {"a":1}']),
            ("the finished item alone", ("output_item.done",), ['call 0 {"a":1}']),
            ("the last event alone", (), ['call 0 {"a":1}']),
        )
    ),
    Row(
        "calls are counted by themselves, by their call_id",
        streamed(HI, call("{}"), call("{}", id="fc_2", call_id="call_9")),
        [
            *SAID,
            "call 0 function call_1 f",
            "call 0 {}",
            "call 1 function call_9 f",
            "call 1 {}",
            "finish tool_calls",
            "done",
        ],
    ),
    Row(
        "a free-text call",
        streamed(custom_call("xy")),
        ["role assistant", "call 0 custom call_2 g", "call 0 xy", "finish tool_calls", "done"],
        {"tools": [{"type": "custom", "custom": {"name": "g"}}]},
    ),
    Row(
        "citations come once, at the end",
        streamed(
            message(
                text(
                    "Hi",
                    annotations=[
                        {
                            "type": "url_citation",
                            "url": "https://e",
                            "title": "T",
                            "start_index": 0,
                            "end_index": 1,
                        }
                    ]
                    * 2,
                )
            )
        ),
        [*SAID, "content", "annotations of 2", "finish stop", "done"],
    ),
    Row(
        "a hosted item and its progress",
        around(response(HOSTED, HI), *item_events(HOSTED, 0), PROGRESS, *item_events(HI, 1)),
        [*SAID, "finish stop", "done"],
    ),
    Row(
        "cut by the limit",
        streamed(HI, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        [*SAID, "finish length", "done"],
    ),
    Row("a flat error", broken(ERROR), [*SAID, "error server_error: m", "done"]),
    Row("a nested error", broken(NESTED), [*SAID, "error rate_limit_error: m", "done"]),
    Row("failed", broken(failure("server_error")), [*SAID, "error server_error: m", "done"]),
    Row("cut short", broken(), [*SAID, f"error server_error: {CUT}", "done"]),
]

BEGUN = ["message_start", "ping"]
TEXT = ["start 0 text", "text_delta Hi", "stop 0"]
ENDED = ["message_delta end_turn 9+5", "message_stop"]
CALLED = ["message_delta tool_use 9+5", "message_stop"]

TO_MESSAGES = [
    Row("text", streamed(HI), [*BEGUN, *TEXT, *ENDED]),
    Row(
        "keepalives say nothing",
        around(response(HI), KEEPALIVE, COMMENT, *item_events(HI, 0)),
        [*BEGUN, *TEXT, *ENDED],
    ),
    Row(
        "reasoning in two parts, signed when its item is done",
        streamed(reasoning("one", "two", encrypted_content="E"), HI),
        [
            *BEGUN,
            "start 0 thinking",
            "thinking_delta one",
            "thinking_delta \n\n",
            "thinking_delta two",
            "signature_delta envelope",
            "stop 0",
            "start 1 text",
            "text_delta Hi",
            "stop 1",
            *ENDED,
        ],
        THINKS,
    ),
    Row(
        "reasoning without its text",
        streamed(reasoning(encrypted_content="E"), HI),
        [
            *BEGUN,
            "start 0 thinking",
            "signature_delta envelope",
            "stop 0",
            "start 1 text",
            "text_delta Hi",
            "stop 1",
            *ENDED,
        ],
        THINKS,
    ),
    Row("reasoning nobody asked for", streamed(reasoning("one"), HI), [*BEGUN, *TEXT, *ENDED]),
    Row(
        "a call, and one told by its finished item alone",
        only(call('{"a":1}'), "output_item.added", "output_item.done"),
        [*BEGUN, "start 0 tool_use call_1 f", 'input_json_delta {"a":1}', "stop 0", *CALLED],
    ),
    Row(
        "a free-text call becomes one argument when it is whole",
        streamed(custom_call("free text")),
        [
            *BEGUN,
            "start 0 tool_use call_2 g",
            'input_json_delta {"input":"free text"}',
            "stop 0",
            *CALLED,
        ],
    ),
    Row(
        "refusal",
        streamed(message({"type": "refusal", "refusal": "No."})),
        [
            *BEGUN,
            "start 0 text",
            "text_delta No.",
            "stop 0",
            "message_delta refusal 9+5",
            "message_stop",
        ],
    ),
    Row(
        "two items at once",
        around(
            response(call("{}"), call("{}", id="fc_2", call_id="call_9")),
            item_events(call("{}"), 0)[0],
            *item_events(call("{}", id="fc_2", call_id="call_9"), 1),
            *item_events(call("{}"), 0)[1:],
        ),
        [
            *BEGUN,
            "start 0 tool_use call_1 f",
            "input_json_delta {}",
            "stop 0",
            "start 1 tool_use call_9 f",
            "input_json_delta {}",
            "stop 1",
            *CALLED,
        ],
    ),
    Row(
        "cut by the limit",
        streamed(HI, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        [*BEGUN, *TEXT, "message_delta max_tokens 9+5", "message_stop"],
    ),
    *(
        Row(f"failed for {code}", broken(failure(code)), [*BEGUN, *TEXT[:2], f"error {kind}: m"])
        for code, kind in (
            ("rate_limit_exceeded", "rate_limit_error"),
            ("server_error", "api_error"),
            ("invalid_prompt", "invalid_request_error"),
        )
    ),
    Row("a flat error", broken(ERROR), [*BEGUN, *TEXT[:2], "error api_error: m"]),
    Row("cut short", broken(), [*BEGUN, *TEXT[:2], f"error api_error: {CUT}"]),
]


@pytest.mark.parametrize("row", TO_CHAT, ids=ids(TO_CHAT))
def test_to_chat(row: Row) -> None:
    check(R, C, row)


@pytest.mark.parametrize("row", TO_MESSAGES, ids=ids(TO_MESSAGES))
def test_to_messages(row: Row) -> None:
    check(R, A, row)
