"""Streams of Messages servers, and how else they are written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.errors import FaultKind
from tests.tables.cells import (
    DONE,
    block,
    message_end,
    named_stream,
    text_block,
    tool_block,
)
from tests.tables.odd import Row, check, ids
from tests.tables.odd_messages import BEGIN, ENDING, again
from tests.tables.requests import A, JsonObject

SAID = named_stream(BEGIN, *text_block(0, "x"), *ENDING)
A_TOOL = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}


def piece(at: int, kind: str, **members: Any) -> JsonObject:
    return {"type": "content_block_delta", "index": at, "delta": {"type": kind, **members}}


def used(start: JsonObject, *pieces: str) -> bytes:
    """A stream with one call."""
    deltas = [{"type": "input_json_delta", "partial_json": text} for text in pieces]
    return named_stream(BEGIN, *block(0, start, *deltas), *message_end("tool_use"))


def amid(data: bytes) -> bytes:
    """A stream with something else in it."""
    return named_stream(BEGIN) + data + named_stream(*text_block(0, "x"), *ENDING)


def amid_answer(*events: JsonObject) -> bytes:
    """A stream with more events in its block."""
    opened, said, closed = text_block(0, "x")
    return named_stream(BEGIN, opened, said, *events, closed, *ENDING)


FROM_MESSAGES = [
    Row(
        "no names, a start and a block's start twice, blocks closed late or never",
        b"".join(
            [
                b": comment\r\n\r\n",
                named_stream({"type": "ping"}),
                named_stream(BEGIN).replace(b"\n", b"\r\n"),
                named_stream({**BEGIN, "message": {"id": "other"}}),
                named_stream(text_block(0)[0], text_block(0)[0]),
                b"data:" + json.dumps(piece(0, "text_delta", text="a")).encode() + b"\n\n",
                named_stream(
                    tool_block(1, 1, name="f")[0],
                    piece(0, "text_delta", text="b"),
                    piece(2, "thinking_delta", thinking="t"),
                    text_block(0)[-1],
                    text_block(0)[-1],
                    text_block(9)[-1],
                    tool_block(1, 1)[-1],
                    *message_end("end_turn"),
                ),
                DONE,
                named_stream(text_block(5)[0]),
            ]
        ),
        named_stream(
            BEGIN,
            *text_block(0, "a", "b"),
            *tool_block(1, 1, name="f"),
            *block(
                2, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "t"}
            ),
            *message_end("end_turn"),
        ),
    ),
    Row("no start", named_stream(*text_block(0, "x"), *message_end(input_tokens=5)), SAID),
    *(
        Row(
            f"a block of type {kind}",
            named_stream(
                BEGIN,
                *block(0, {"type": kind, "text": ""}, {"type": f"{kind}_delta", "text": "hm"}),
                *text_block(1, "x"),
                *ENDING,
            ),
            named_stream(
                BEGIN,
                *block(
                    0,
                    {"type": "thinking", "thinking": ""},
                    {"type": "thinking_delta", "thinking": "hm"},
                ),
                *text_block(1, "x"),
                *ENDING,
            ),
        )
        for kind in ("reasoning", "thought")
    ),
    Row(
        "an empty input before its pieces",
        named_stream(BEGIN, *tool_block(0, 1, "{}", '{"a":', "1}"), *message_end("tool_use")),
        named_stream(BEGIN, *tool_block(0, 1, '{"a":1}'), *message_end("tool_use")),
    ),
    Row(
        "pieces that are another input than the start has",
        named_stream(
            BEGIN,
            {
                **(start := tool_block(0, 1)[0]),
                "content_block": {**start["content_block"], "input": {"a": 1}},
            },
            piece(0, "input_json_delta", partial_json='{"b":2}'),
            tool_block(0, 1)[-1],
            *message_end("tool_use"),
        ),
    ),
    Row(
        "another message in its middle",
        named_stream(BEGIN, *text_block(0, "x"), again("msg_2"), *text_block(0, "y"), *ENDING),
    ),
    Row(
        "another start of the message",
        named_stream(BEGIN, *text_block(0, "x"), BEGIN, *ENDING),
        SAID,
    ),
    Row(
        "another message before anything of the first",
        named_stream(BEGIN, again("msg_2"), *text_block(0, "x"), *ENDING),
        SAID,
    ),
    Row(
        "what comes when its block is over",
        named_stream(BEGIN, *text_block(0, "x"), piece(0, "text_delta", text="late"), *ENDING),
        named_stream(BEGIN, *text_block(0, "x"), *text_block(1, "late"), *ENDING),
    ),
    Row(
        "a citation when its block is over",
        named_stream(BEGIN, *text_block(0, "x"), piece(0, "citations_delta", citation={}), *ENDING),
        SAID,
        {"content[0].citations_delta": "knob"},
    ),
    Row(
        "every block numbered 0",
        named_stream(
            BEGIN,
            *text_block(0, "a"),
            *tool_block(0, 1, '{"a":1}'),
            *text_block(0, "b"),
            *message_end("tool_use"),
        ),
        named_stream(
            BEGIN,
            *text_block(0, "a"),
            *tool_block(1, 1, '{"a":1}'),
            *text_block(2, "b"),
            *message_end("tool_use"),
        ),
        {"content": "converted"},
    ),
    Row(
        "every block numbered 0, none of them ended",
        named_stream(
            BEGIN,
            *text_block(0, "a")[:-1],
            *tool_block(0, 1, '{"a":1}')[:-1],
            *text_block(0, "b")[:-1],
            *message_end("tool_use"),
        ),
        named_stream(
            BEGIN,
            *text_block(0, "a"),
            *tool_block(1, 1, '{"a":1}'),
            *text_block(2, "b"),
            *message_end("tool_use"),
        ),
        {"content": "converted"},
    ),
    Row(
        "thinking under the number of a text",
        named_stream(
            BEGIN,
            text_block(0)[0],
            piece(0, "thinking_delta", thinking="t"),
            piece(0, "text_delta", text="a"),
            text_block(0)[-1],
            *ENDING,
        ),
        named_stream(
            BEGIN,
            *text_block(0, "a"),
            *block(
                1, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "t"}
            ),
            *ENDING,
        ),
    ),
    Row(
        "input when its call is over",
        named_stream(
            BEGIN,
            *tool_block(0, 1, '{"a":1}'),
            piece(0, "input_json_delta", partial_json="2"),
            *message_end("tool_use"),
        ),
    ),
    Row("a call that nothing ended", named_stream(BEGIN, tool_block(0, 1)[0], *ENDING)),
    Row(
        "input in a text",
        amid_answer(piece(0, "input_json_delta", partial_json="{}")),
    ),
    Row(
        "no reason",
        named_stream(
            BEGIN,
            *text_block(0, "x"),
            {"type": "message_delta", "delta": {"stop_reason": None}},
            ENDING[1],
        ),
    ),
    Row("no message_delta", named_stream(BEGIN, *text_block(0, "x"), ENDING[1])),
    Row(
        "an end whose type is an object",
        named_stream(
            BEGIN,
            *text_block(0, "x"),
            {**ENDING[0], "delta": {**ENDING[0]["delta"], "type": {}}},
            *ENDING[1:],
        ),
        SAID,
    ),
    Row(
        "members without a counterpart",
        amid_answer({**piece(0, "text_delta", text=""), "novelty": 1}, {"type": "unheard_of"}),
        SAID,
        {"novelty": "knob", "unheard_of": "knob"},
    ),
    Row(
        "text in the start of its block",
        named_stream(
            BEGIN,
            *block(0, {"type": "thinking", "thinking": "t", "signature": "S"}),
            *block(1, {"type": "text", "text": "a"}, {"type": "text_delta", "text": "b"}),
            *ENDING,
        ),
        named_stream(
            BEGIN,
            *block(
                0,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "t"},
                {"type": "signature_delta", "signature": "S"},
            ),
            *text_block(1, "ab"),
            *ENDING,
        ),
    ),
    Row("input in the start of its block", used(A_TOOL), used({**A_TOOL, "input": {}}, '{"a":1}')),
    Row("input in the start, and a blank piece", used(A_TOOL, ""), used(A_TOOL)),
    Row(
        "input in the start, and pieces",
        used({**A_TOOL, "input": {"b": 2}}, "", '{"b"', ":2}"),
        used({**A_TOOL, "input": {"b": 2}}),
    ),
    Row(
        "a call without an id",
        used({**A_TOOL, "id": "toolu_msg_theirs_0"}),
        used({k: v for k, v in A_TOOL.items() if k != "id"}),
    ),
    *(
        Row(
            f"error {kind}",
            named_stream(BEGIN, {"type": "error", "error": {"type": kind, "message": "m"}}),
            fault,
        )
        for kind, fault in (
            ("overloaded_error", FaultKind.OVERLOADED),
            ("rate_limit_error", FaultKind.RATE_LIMITED),
            ("api_error", FaultKind.UPSTREAM_FAILED),
            ("timeout_error", FaultKind.UPSTREAM_TIMEOUT),
            ("invalid_request_error", FaultKind.INVALID_REQUEST),
        )
    ),
    Row(
        "an error of another shape",
        amid(b'data: {"error":{"message":"m","type":"server_error"}}\n\n'),
    ),
    *(
        Row(
            f"cut after {kept} events",
            named_stream(*[BEGIN, {"type": "ping"}, *text_block(0, "x"), *ENDING][:kept]),
        )
        for kept in range(7)
    ),
    *(
        Row(f"not understood: {data[-60:]!r}", amid(data))
        for data in (
            b"data: {\n\n",
            b"data: 5\n\n",
            b'event: content_block_start\ndata: {"type":"content_block_start"}\n\n',
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0}\n\n',
            named_stream(piece(0, "text_delta", text=5)),
            named_stream(piece(3, "input_json_delta", partial_json="{}")),
            *(
                named_stream(
                    {
                        "type": "content_block_start",
                        "index": 0,
                        "content_block": {"type": "tool_use", "id": "t", **name, "input": {}},
                    }
                )
                for name in ({}, {"name": ""}, {"name": 5})
            ),
        )
    ),
    Row(
        "usage that is none",
        named_stream(BEGIN, *text_block(0, "x"), {**ENDING[0], "usage": None}, ENDING[1]),
        named_stream(
            BEGIN, *text_block(0, "x"), {**ENDING[0], "usage": {"output_tokens": 1}}, ENDING[1]
        ),
    ),
    Row(
        "the conversation compacted in place of an answer",
        named_stream(
            BEGIN, *block(0, {"type": "compaction", "content": None}), *message_end("compaction")
        ),
    ),
    Row("nothing but its ends", named_stream(BEGIN, ENDING[1])),
]


@pytest.mark.parametrize("row", FROM_MESSAGES, ids=ids(FROM_MESSAGES))
def test_row(row: Row) -> None:
    """Never a false success, nor a failure of what can be read. req: 128, 156"""
    check(A, row)
