"""A Chat upstream's streams, for a Messages and a Responses client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tables.requests import A, C, JsonObject, R
from tests.tables.streams import COMMENT, CUT, DONE, Row, check, ids
from tests.tables.wire_chat import call

HEAD = {"id": "up", "object": "chat.completion.chunk", "created": 5, "model": "up"}
USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
COUNTED: JsonObject = {**HEAD, "choices": [], "usage": USAGE}
PREAMBLE: JsonObject = {**HEAD, "choices": [], "prompt_filter_results": []}


def chunk(delta: JsonObject | None = None, finish: Any = None, **fields: Any) -> JsonObject:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {**HEAD, "choices": [choice], **fields}


def first(at: int, call_id: str | None, name: str, arguments: str = "") -> JsonObject:
    """The first fragment of a call."""
    head = {} if call_id is None else {"id": call_id, "type": "function"}
    function = {"name": name, "arguments": arguments}
    return chunk({"tool_calls": [{"index": at, **head, "function": function}]})


def more(at: int, arguments: str) -> JsonObject:
    """A later fragment of a call."""
    return chunk({"tool_calls": [{"index": at, "function": {"arguments": arguments}}]})


ROLE = chunk({"role": "assistant", "content": ""})
HI = chunk({"content": "Hi"})
STOP, CALLS = chunk(finish="stop"), chunk(finish="tool_calls")
THINKS = {"thinking": {"type": "adaptive"}}

BEGUN = ["message_start", "ping"]
SAID = ["start 0 text", "text_delta Hi", "stop 0"]
FAILED = f"error api_error: {CUT}"

TO_MESSAGES = [
    Row(
        "text, usage in a chunk of its own",
        [ROLE, HI, STOP, COUNTED, DONE],
        [*BEGUN, *SAID, "message_delta end_turn 9+5", "message_stop"],
    ),
    Row(
        "usage on the finish chunk, no terminator",
        [ROLE, HI, chunk(finish="stop", usage=USAGE)],
        [*BEGUN, *SAID, "message_delta end_turn 9+5", "message_stop"],
    ),
    Row(
        "usage in every chunk: the last counts",
        [
            chunk({"content": "Hi"}, usage={**USAGE, "completion_tokens": 1}),
            chunk(finish="stop", usage=USAGE),
            DONE,
        ],
        [*BEGUN, *SAID, "message_delta end_turn 9+5", "message_stop"],
    ),
    Row(
        "a chunk without a choice before the answer, comments in it",
        [PREAMBLE, COMMENT, ROLE, COMMENT, HI, STOP, DONE],
        [*BEGUN, *SAID, "message_delta end_turn 0+0", "message_stop"],
    ),
    # req: 55
    Row(
        "thinking, text, a call: each opens with its first piece",
        [
            ROLE,
            chunk({"reasoning_content": "hm"}),
            HI,
            first(0, "c1", "f"),
            more(0, ""),
            more(0, '{"a":1}'),
            CALLS,
            DONE,
        ],
        [
            *BEGUN,
            "start 0 thinking",
            "thinking_delta hm",
            "signature_delta envelope",
            "stop 0",
            "start 1 text",
            "text_delta Hi",
            "stop 1",
            "start 2 tool_use c1 f",
            'input_json_delta {"a":1}',
            "stop 2",
            "message_delta tool_use 0+0",
            "message_stop",
        ],
        THINKS,
    ),
    Row(
        "refusal",
        [ROLE, chunk({"refusal": "No."}), STOP, DONE],
        [
            *BEGUN,
            "start 0 text",
            "text_delta No.",
            "stop 0",
            "message_delta refusal 0+0",
            "message_stop",
        ],
    ),
    Row(
        "two calls",
        [
            ROLE,
            first(0, "c1", "f"),
            more(0, '{"a":1}'),
            first(1, "c2", "g"),
            more(1, '{"b":2}'),
            CALLS,
            DONE,
        ],
        [
            *BEGUN,
            "start 0 tool_use c1 f",
            'input_json_delta {"a":1}',
            "stop 0",
            "start 1 tool_use c2 g",
            'input_json_delta {"b":2}',
            "stop 1",
            "message_delta tool_use 0+0",
            "message_stop",
        ],
    ),
    Row(
        "two calls, interleaved",
        [
            first(0, "c1", "f", '{"a"'),
            first(1, "c2", "g", '{"b"'),
            more(0, ":1}"),
            more(1, ":2}"),
            CALLS,
            DONE,
        ],
        [
            *BEGUN,
            "start 0 tool_use c1 f",
            'input_json_delta {"a"',
            "input_json_delta :1}",
            "stop 0",
            "start 1 tool_use c2 g",
            'input_json_delta {"b"',
            "input_json_delta :2}",
            "stop 1",
            "message_delta tool_use 0+0",
            "message_stop",
        ],
    ),
    Row(
        "two calls, interleaved, taken for a fault",
        [first(0, "c1", "f", '{"a"'), first(1, "c2", "g", "{}"), more(0, ":1}"), CALLS, DONE],
        [
            *BEGUN,
            "start 0 tool_use c1 f",
            'input_json_delta {"a"',
            "stop 0",
            "start 1 tool_use c2 g",
            FAILED,
        ],
        options={"interleaved_tools": "error"},
    ),
    Row(
        "thinking, text and thinking again stay three",
        [
            chunk({"reasoning_content": "a"}),
            HI,
            chunk({"reasoning_content": "b"}),
            STOP,
            DONE,
        ],
        [
            *BEGUN,
            "start 0 thinking",
            "thinking_delta a",
            "signature_delta envelope",
            "stop 0",
            "start 1 text",
            "text_delta Hi",
            "stop 1",
            "start 2 thinking",
            "thinking_delta b",
            "signature_delta envelope",
            "stop 2",
            "message_delta end_turn 0+0",
            "message_stop",
        ],
        THINKS,
    ),
    *(
        Row(
            f"two calls, {how}",
            [*given, CALLS, DONE],
            [
                *BEGUN,
                "start 0 tool_use c1 f",
                "input_json_delta {}",
                "stop 0",
                "start 1 tool_use c2 f",
                "input_json_delta {}",
                "stop 1",
                "message_delta tool_use 0+0",
                "message_stop",
            ],
        )
        for how, given in (
            ("both with the index 0", [first(0, "c1", "f", "{}"), first(0, "c2", "f", "{}")]),
            (
                "whole and in one chunk",
                [
                    chunk(
                        {
                            "tool_calls": [
                                {**call("c1", "{}"), "index": 0},
                                {**call("c2", "{}"), "index": 1},
                            ]
                        }
                    )
                ],
            ),
            ("without any index", [chunk({"tool_calls": [call("c1", "{}"), call("c2", "{}")]})]),
        )
    ),
    Row(
        "later fragments with null in place of id and name",
        [
            first(0, "c1", "f", '{"a"'),
            chunk(
                {
                    "tool_calls": [
                        {
                            "index": 0,
                            "id": None,
                            "type": None,
                            "function": {"name": None, "arguments": ":1}"},
                        }
                    ]
                }
            ),
            CALLS,
            DONE,
        ],
        [
            *BEGUN,
            "start 0 tool_use c1 f",
            'input_json_delta {"a"',
            "input_json_delta :1}",
            "stop 0",
            "message_delta tool_use 0+0",
            "message_stop",
        ],
    ),
    Row(
        "a finish reason after each piece",
        [ROLE, HI, STOP, HI, STOP, DONE],
        [
            *BEGUN,
            *SAID,
            "start 1 text",
            "text_delta Hi",
            "stop 1",
            "message_delta end_turn 0+0",
            "message_stop",
        ],
    ),
    Row(
        "a finish reason that is followed by a piece without one",
        [ROLE, HI, STOP, HI, DONE],
        [*BEGUN, *SAID, "start 1 text", "text_delta Hi", FAILED],
    ),
    Row("no JSON", [b"data: upstream died\n\n"], [FAILED]),
    Row("an error that is only a text", [ROLE, {"error": "m"}], [*BEGUN, "error api_error: m"]),
    Row(
        "arguments before the name, and no id at all",
        [
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}),
            first(0, None, "f", "}"),
            CALLS,
            DONE,
        ],
        [
            *BEGUN,
            "start 0 tool_use call_27a7d140c75ecc2c970588ed f",
            "input_json_delta {}",
            "stop 0",
            "message_delta tool_use 0+0",
            "message_stop",
        ],
    ),
    Row(
        "a call without arguments",
        [first(0, "c1", "f"), CALLS, DONE],
        [
            *BEGUN,
            "start 0 tool_use c1 f",
            "input_json_delta {}",
            "stop 0",
            "message_delta tool_use 0+0",
            "message_stop",
        ],
    ),
    Row(
        "arguments that are no JSON object",
        [first(0, "c1", "f", "[1]"), CALLS, DONE],
        [*BEGUN, "start 0 tool_use c1 f", "input_json_delta [1]", "stop 0", FAILED],
    ),
    Row("no finish reason", [ROLE, HI, DONE], [*BEGUN, *SAID[:2], FAILED]),
    Row("no finish reason and no terminator", [ROLE, HI], [*BEGUN, *SAID[:2], FAILED]),
    Row(
        "cut inside a call",
        [ROLE, first(0, "c1", "f", '{"a"')],
        [*BEGUN, "start 0 tool_use c1 f", 'input_json_delta {"a"', FAILED],
    ),
    Row(
        "an error in the stream",
        [ROLE, HI, {"error": {"message": "m", "type": "rate_limit_error"}}, DONE],
        [*BEGUN, *SAID[:2], "error rate_limit_error: m"],
    ),
    Row("nothing at all", [DONE], [FAILED]),
    Row(
        "a second choice",
        [ROLE, HI, {**HEAD, "choices": [{"index": 1, "delta": {"content": "x"}}]}],
        [*BEGUN, *SAID[:2], FAILED],
    ),
]

OPEN = ["created", "in_progress"]
ADDED = ["output_item.added 0 message", "content_part.added output_text"]
CLOSED = ["output_text.done Hi", "content_part.done output_text", "output_item.done 0 message"]
ENDED = f"error server_error: {CUT}"

TO_RESPONSES = [
    Row(
        "text",
        [ROLE, HI, STOP, COUNTED, DONE],
        [*OPEN, *ADDED, "output_text.delta Hi", *CLOSED, "completed 9+5"],
    ),
    Row(
        "text, with the terminator of Open Responses",
        [ROLE, HI, STOP, DONE],
        [*OPEN, *ADDED, "output_text.delta Hi", *CLOSED, "completed 0+0", "done"],
        options={"responses_done": True},
    ),
    Row(
        "reasoning, then text",
        [ROLE, chunk({"reasoning": "hm"}), HI, STOP, DONE],
        [
            *OPEN,
            "output_item.added 0 reasoning",
            "content_part.added reasoning_text",
            "reasoning_text.delta hm",
            "reasoning_text.done hm",
            "content_part.done reasoning_text",
            "output_item.done 0 reasoning",
            "output_item.added 1 message",
            "content_part.added output_text",
            "output_text.delta Hi",
            "output_text.done Hi",
            "content_part.done output_text",
            "output_item.done 1 message",
            "completed 0+0",
        ],
    ),
    Row(
        "reasoning as a summary",
        [ROLE, chunk({"reasoning": "hm"}), STOP, DONE],
        [
            *OPEN,
            "output_item.added 0 reasoning",
            "reasoning_summary_part.added summary_text",
            "reasoning_summary_text.delta hm",
            "reasoning_summary_text.done hm",
            "reasoning_summary_part.done summary_text",
            "output_item.done 0 reasoning",
            "completed 0+0",
        ],
        options={"reasoning_as": "summary"},
    ),
    Row(
        "refusal after text, in the same message",
        [ROLE, HI, chunk({"refusal": "No."}), STOP, DONE],
        [
            *OPEN,
            *ADDED,
            "output_text.delta Hi",
            *CLOSED[:2],
            "content_part.added refusal",
            "refusal.delta No.",
            "refusal.done No.",
            "content_part.done refusal",
            "output_item.done 0 message",
            "completed 0+0",
        ],
    ),
    Row(
        "calls alone open no message",
        [ROLE, first(0, "c1", "f"), more(0, '{"a":1}'), first(1, "c2", "f"), CALLS, DONE],
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
            "completed 0+0",
        ],
    ),
    Row(
        "an emulated free-text call waits until it is whole",
        [first(0, "c1", "g", '{"inp'), more(0, 'ut":"free"}'), CALLS, DONE],
        [
            *OPEN,
            "output_item.added 0 custom_tool_call",
            "custom_tool_call_input.delta free",
            "custom_tool_call_input.done free",
            "output_item.done 0 custom_tool_call",
            "completed 0+0",
        ],
        {"tools": [{"type": "custom", "name": "g"}]},
    ),
    Row(
        "cut by the limit",
        [ROLE, HI, chunk(finish="length"), DONE],
        [*OPEN, *ADDED, "output_text.delta Hi", *CLOSED, "incomplete 0+0"],
    ),
    Row(
        "nothing said",
        [ROLE, STOP, DONE],
        [
            *OPEN,
            *ADDED,
            "output_text.done",
            "content_part.done output_text",
            "output_item.done 0 message",
            "completed 0+0",
        ],
    ),
    Row(
        "an error in the stream",
        [ROLE, HI, {"error": {"message": "m", "code": "rate_limit_exceeded"}}, DONE],
        [
            *OPEN,
            *ADDED,
            "output_text.delta Hi",
            "error rate_limit_error: m",
            "failed rate_limit_exceeded",
        ],
    ),
    Row(
        "cut short",
        [ROLE, HI],
        [*OPEN, *ADDED, "output_text.delta Hi", ENDED, "failed server_error"],
    ),
]


@pytest.mark.parametrize("row", TO_MESSAGES, ids=ids(TO_MESSAGES))
def test_to_messages(row: Row) -> None:
    check(C, A, row)


@pytest.mark.parametrize("row", TO_RESPONSES, ids=ids(TO_RESPONSES))
def test_to_responses(row: Row) -> None:
    check(C, R, row)
