"""A Messages upstream's streams, for a Chat and a Responses client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tables.requests import A, C, JsonObject, R
from tests.tables.streams import CUT, PING, Row, check, ids

START: JsonObject = {
    "type": "message_start",
    "message": {
        "id": "msg_up",
        "type": "message",
        "role": "assistant",
        "model": "up",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 1},
    },
}
STOP: JsonObject = {"type": "message_stop"}


def opened(at: int, kind: str, **fields: Any) -> JsonObject:
    return {"type": "content_block_start", "index": at, "content_block": {"type": kind, **fields}}


def more(at: int, kind: str, **fields: Any) -> JsonObject:
    return {"type": "content_block_delta", "index": at, "delta": {"type": kind, **fields}}


def closed(at: int) -> JsonObject:
    return {"type": "content_block_stop", "index": at}


def ended(reason: str = "end_turn", **usage: int) -> JsonObject:
    counts = {"output_tokens": 5, **usage}
    delta = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": counts}


def text(at: int, *pieces: str) -> list[JsonObject]:
    deltas = [more(at, "text_delta", text=piece) for piece in pieces]
    return [opened(at, "text", text=""), *deltas, closed(at)]


def thinking(at: int, *pieces: str) -> list[JsonObject]:
    deltas = [more(at, "thinking_delta", thinking=piece) for piece in pieces]
    head = opened(at, "thinking", thinking="", signature="")
    return [head, *deltas, more(at, "signature_delta", signature="SIG"), closed(at)]


def use(at: int, call_id: str, *pieces: str, **head: Any) -> list[JsonObject]:
    deltas = [more(at, "input_json_delta", partial_json=piece) for piece in pieces]
    start = opened(at, "tool_use", id=call_id, name="f", input=head.get("input", {}))
    return [start, *deltas, closed(at)]


CITATION = {
    "type": "web_search_result_location",
    "url": "https://e",
    "title": "T",
    "cited_text": "q",
}
HI = text(0, "Hi")
END = [ended(), STOP]
CALLED = [ended("tool_use"), STOP]
ASKS = {"stream_options": {"include_usage": True}}

TO_CHAT = [
    Row(
        "text, pings in it",
        [START, PING, HI[0], PING, *HI[1:], *END],
        ["role assistant", "content Hi", "finish stop", "done"],
    ),
    Row(
        "text, usage asked for",
        [START, *HI, *END],
        ["role assistant", "content Hi", "finish stop", "usage 9+5", "done"],
        ASKS,
    ),
    Row(
        "usage of the end replaces that of the start",
        [START, *HI, ended(input_tokens=20, cache_read_input_tokens=4), STOP],
        ["role assistant", "content Hi", "finish stop", "usage 24+5", "done"],
        ASKS,
    ),
    Row(
        "text in the start of its block",
        [START, opened(0, "text", text="Hi"), closed(0), *END],
        ["role assistant", "content Hi", "finish stop", "done"],
    ),
    Row(
        "thinking, withheld thinking, text",
        [
            START,
            *thinking(0, "h", "m"),
            opened(1, "redacted_thinking", data="D"),
            closed(1),
            *text(2, "Hi"),
            *END,
        ],
        [
            "role assistant",
            "reasoning_content h",
            "reasoning_content m",
            "content Hi",
            "finish stop",
            "done",
        ],
    ),
    Row(
        "thinking with its state",
        [START, *thinking(0, "hm"), *text(1, "Hi"), *END],
        [
            "role assistant",
            "reasoning_content hm",
            "reasoning_details of 1",
            "content Hi",
            "finish stop",
            "done",
        ],
        options={"reasoning_details": True},
    ),
    Row(
        "calls are counted by themselves, not among blocks",
        [
            START,
            *text(0, "Hi"),
            *use(1, "c1", "", '{"a":', "1}"),
            *use(2, "c2", "{}"),
            *CALLED,
        ],
        [
            "role assistant",
            "content Hi",
            "call 0 function c1 f",
            'call 0 {"a":',
            "call 0 1}",
            "call 1 function c2 f",
            "call 1 {}",
            "finish tool_calls",
            "done",
        ],
    ),
    Row(
        "a call whose input came in its start",
        [START, *use(0, "c1", input={"a": 1}), *CALLED],
        [
            "role assistant",
            "call 0 function c1 f",
            'call 0 {"a":1}',
            "finish tool_calls",
            "done",
        ],
    ),
    Row(
        "a call without input",
        [START, *use(0, "c1"), *CALLED],
        ["role assistant", "call 0 function c1 f", "call 0 {}", "finish tool_calls", "done"],
    ),
    Row(
        "citations come once, at the end",
        [
            START,
            HI[0],
            more(0, "citations_delta", citation=CITATION),
            HI[1],
            more(0, "citations_delta", citation=CITATION),
            HI[2],
            *text(1, "!"),
            *END,
        ],
        [
            "role assistant",
            "content Hi",
            "content !",
            "content",
            "annotations of 2",
            "finish stop",
            "done",
        ],
    ),
    Row(
        "server tools",
        [
            START,
            opened(0, "server_tool_use", id="s", name="web_search", input={}),
            more(0, "input_json_delta", partial_json="{}"),
            closed(0),
            opened(1, "web_search_tool_result", tool_use_id="s", content=[]),
            closed(1),
            *text(2, "Hi"),
            *END,
        ],
        ["role assistant", "content Hi", "finish stop", "done"],
    ),
    Row(
        "two blocks open at once",
        [
            START,
            opened(0, "tool_use", id="c1", name="f", input={}),
            opened(1, "tool_use", id="c2", name="f", input={}),
            more(1, "input_json_delta", partial_json='{"b":2}'),
            more(0, "input_json_delta", partial_json='{"a":1}'),
            closed(0),
            closed(1),
            *CALLED,
        ],
        [
            "role assistant",
            "call 0 function c1 f",
            'call 0 {"a":1}',
            "call 1 function c2 f",
            'call 1 {"b":2}',
            "finish tool_calls",
            "done",
        ],
    ),
    Row(
        "a second message_start, and an event nobody knows",
        [START, START, HI[0], {"type": "weather"}, *HI[1:], *END],
        ["role assistant", "content Hi", "finish stop", "done"],
    ),
    Row(
        "a delta of another kind than its block, and one after its block",
        [
            START,
            HI[0],
            more(0, "thinking_delta", thinking="hm"),
            *HI[1:],
            more(0, "text_delta", text="late"),
            *END,
        ],
        [
            "role assistant",
            "content Hi",
            "reasoning_content hm",
            "content late",
            "finish stop",
            "done",
        ],
    ),
    Row(
        "a terminator of another protocol",
        [START, *HI, *END, b"data: [DONE]\n\n"],
        ["role assistant", "content Hi", "finish stop", "done"],
    ),
    Row(
        "an error in the stream",
        [
            START,
            HI[0],
            HI[1],
            {"type": "error", "error": {"type": "overloaded_error", "message": "m"}},
        ],
        ["role assistant", "content Hi", "error service_unavailable_error: m", "done"],
    ),
    Row(
        "cut short",
        [START, HI[0], HI[1]],
        ["role assistant", "content Hi", f"error server_error: {CUT}", "done"],
    ),
    Row(
        "message_stop missing",
        [START, *HI, ended()],
        ["role assistant", "content Hi", f"error server_error: {CUT}", "done"],
    ),
    Row(
        "an error before anything",
        [{"type": "error", "error": {"type": "rate_limit_error", "message": "m"}}],
        ["error rate_limit_error: m", "done"],
    ),
]

OPEN = ["created", "in_progress"]
ADDED = ["output_item.added 0 message", "content_part.added output_text"]


def said(whole: str, at: int = 0) -> list[str]:
    """The end of a message of one part."""
    return [
        f"output_text.done {whole}",
        "content_part.done output_text",
        f"output_item.done {at} message",
    ]


TO_RESPONSES = [
    Row(
        "text",
        [START, *HI, *END],
        [*OPEN, *ADDED, "output_text.delta Hi", *said("Hi"), "completed 9+5"],
    ),
    Row(
        "texts side by side are one part",
        [START, *HI, *text(1, "!"), *END],
        [
            *OPEN,
            *ADDED,
            "output_text.delta Hi",
            "output_text.delta !",
            *said("Hi!"),
            "completed 9+5",
        ],
    ),
    Row(
        "thinking is a summary",
        [START, *thinking(0, "h", "m"), *END],
        [
            *OPEN,
            "output_item.added 0 reasoning",
            "reasoning_summary_part.added summary_text",
            "reasoning_summary_text.delta h",
            "reasoning_summary_text.delta m",
            "reasoning_summary_text.done hm",
            "reasoning_summary_part.done summary_text",
            "output_item.done 0 reasoning",
            "completed 9+5",
        ],
    ),
    Row(
        "thinking without its text, and withheld thinking",
        [
            START,
            *thinking(0),
            opened(1, "redacted_thinking", data="D"),
            closed(1),
            *END,
        ],
        [
            *OPEN,
            "output_item.added 0 reasoning",
            "output_item.done 0 reasoning",
            "output_item.added 1 reasoning",
            "output_item.done 1 reasoning",
            "completed 9+5",
        ],
    ),
    Row(
        "thinking, text and thinking again stay three",
        [START, *thinking(0), *text(1, "Hi"), *thinking(2), *END],
        [
            *OPEN,
            "output_item.added 0 reasoning",
            "output_item.done 0 reasoning",
            "output_item.added 1 message",
            "content_part.added output_text",
            "output_text.delta Hi",
            *said("Hi", 1),
            "output_item.added 2 reasoning",
            "output_item.done 2 reasoning",
            "completed 9+5",
        ],
    ),
    Row(
        "citation",
        [START, HI[0], HI[1], more(0, "citations_delta", citation=CITATION), HI[2], *END],
        [
            *OPEN,
            *ADDED,
            "output_text.delta Hi",
            "output_text.annotation.added url_citation",
            *said("Hi"),
            "completed 9+5",
        ],
    ),
    Row(
        "a call, and one without input",
        [START, *use(0, "c1", '{"a":1}'), *use(1, "c2"), *CALLED],
        [
            *OPEN,
            "output_item.added 0 function_call",
            'function_call_arguments.delta {"a":1}',
            'function_call_arguments.done {"a":1}',
            "output_item.done 0 function_call",
            "output_item.added 1 function_call",
            "function_call_arguments.delta {}",
            "function_call_arguments.done {}",
            "output_item.done 1 function_call",
            "completed 9+5",
        ],
    ),
    Row(
        "server tools",
        [START, opened(0, "server_tool_use", id="s", name="web_search", input={}), closed(0), *END],
        [*OPEN, *ADDED, *(line.rstrip() for line in said("")), "completed 9+5"],
    ),
    Row(
        "cut by the limit",
        [START, *HI, ended("max_tokens"), STOP],
        [*OPEN, *ADDED, "output_text.delta Hi", *said("Hi"), "incomplete 9+5"],
    ),
    Row(
        "an error in the stream",
        [
            START,
            HI[0],
            HI[1],
            {"type": "error", "error": {"type": "overloaded_error", "message": "m"}},
        ],
        [
            *OPEN,
            *ADDED,
            "output_text.delta Hi",
            "error overloaded_error: m",
            "failed server_error",
        ],
    ),
    Row(
        "cut short",
        [START, HI[0], HI[1]],
        [
            *OPEN,
            *ADDED,
            "output_text.delta Hi",
            f"error server_error: {CUT}",
            "failed server_error",
        ],
    ),
]


@pytest.mark.parametrize("row", TO_CHAT, ids=ids(TO_CHAT))
def test_to_chat(row: Row) -> None:
    check(A, C, row)


@pytest.mark.parametrize("row", TO_RESPONSES, ids=ids(TO_RESPONSES))
def test_to_responses(row: Row) -> None:
    check(A, R, row)
