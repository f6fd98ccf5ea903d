"""Streams and answers of an upstream that fail, or are odd."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.canonical.blocks import Reasoning, Text, ToolCall
from dragoman.canonical.errors import FaultKind, UpstreamError
from dragoman.canonical.events import Ended, Failed, Finished, Started
from dragoman.canonical.losses import Ledger
from tests.folded import fold
from tests.protocols.anthropic_messages.helpers import (
    inbound,
    read_events,
    read_stream,
    read_whole,
    sse,
)
from tests.protocols.anthropic_messages.upstream import (
    START,
    STOP,
    block_delta,
    block_start,
    block_stop,
    end,
    failure,
)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", FaultKind.OVERLOADED),
        ("rate_limit_error", FaultKind.RATE_LIMITED),
        ("api_error", FaultKind.UPSTREAM_FAILED),
        ("timeout_error", FaultKind.UPSTREAM_TIMEOUT),
        ("invalid_request_error", FaultKind.INVALID_REQUEST),
    ],
)
def test_errors_inside_a_stream(kind: str, expected: FaultKind) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "boom"}}
    events = read_events(START, error, STOP)
    assert failure(events) is expected
    assert isinstance(events[-1], Failed)
    assert events[-1].fault.message == "boom"


def test_an_error_in_another_shape_is_an_error_too() -> None:
    data = b'data: {"error":{"message":"boom","type":"server_error"}}\n\n'
    assert failure(read_stream(sse(START) + data)) is FaultKind.UPSTREAM_FAILED


@pytest.mark.parametrize("keep", range(7))
def test_a_torn_stream_is_a_failure(keep: int) -> None:
    """Also when the stop reason was already told; only message_stop ends an answer. req: 156"""
    whole = (
        START,
        {"type": "ping"},
        block_start(0, type="text", text=""),
        block_delta(0, "text_delta", text="x"),
        block_stop(0),
        end(),
    )
    events = read_events(*whole[:keep])
    assert failure(events) is FaultKind.UPSTREAM_FAILED
    assert not any(isinstance(event, Finished | Ended) for event in events)


@pytest.mark.parametrize(
    "data",
    [
        b"data: {\n\n",
        b"data: 5\n\n",
        b'event: content_block_start\ndata: {"type":"content_block_start"}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0}\n\n',
        sse(block_delta(0, "text_delta", text=5)),
        sse(block_delta(3, "input_json_delta", partial_json="{}")),
        sse(block_start(0, type="tool_use", id="t", input={})),
    ],
)
def test_what_cannot_be_understood_is_a_failure(data: bytes) -> None:
    events = read_stream(sse(START) + data + sse(STOP))
    assert failure(events) is FaultKind.UPSTREAM_FAILED
    assert sum(isinstance(event, Failed) for event in events) == 1


def test_real_servers_are_read_generously() -> None:
    """No names, a missing start, doubled and unknown events, blocks closed late or never."""
    events = read_stream(
        b"".join(
            [
                b": comment\r\n\r\n",
                sse({"type": "ping"}),
                sse(START).replace(b"\n", b"\r\n"),
                sse({**START, "message": {"id": "other"}}),
                sse(block_start(0, type="text", text="")),
                sse(block_start(0, type="text", text="")),
                b"data:" + msgspec.json.encode(block_delta(0, "text_delta", text="a")) + b"\n\n",
                sse(block_start(1, type="tool_use", id="t", name="f", input={})),
                sse(block_delta(0, "text_delta", text="b")),
                sse(block_delta(2, "thinking_delta", thinking="t")),
                sse(block_stop(0)),
                sse(block_stop(0)),
                sse(block_delta(0, "text_delta", text="late")),
                sse(block_stop(9)),
                sse(end("end_turn")),
                sse(STOP),
                b"data: [DONE]\n\n",
                sse(block_start(5, type="text", text="after")),
            ]
        )
    )
    answer = fold(events)
    assert answer.id == "msg_up"
    assert answer.blocks == (
        Text(text="ab"),
        ToolCall(id="t", name="f", arguments="{}"),
        Reasoning(parts=("t",)),
    )
    assert isinstance(events[-1], Ended)


def test_what_comes_when_its_block_is_over_is_reported() -> None:
    ledger = Ledger()
    late = block_delta(0, "text_delta", text="late")
    events = read_events(
        START,
        block_start(0, type="text", text=""),
        block_stop(0),
        late,
        end(),
        STOP,
        given=inbound(ledger),
    )
    assert fold(events).blocks == (Text(text=""),)
    assert [loss.path for loss in ledger] == ["content[0].text_delta"]


def test_blocks_without_a_message_start() -> None:
    events = read_events(block_start(0, type="text", text="a"), block_stop(0), end(), STOP)
    assert events[0] == Started("", "")
    assert fold(events).blocks == (Text(text="a"),)


def test_a_call_without_an_id_gets_one() -> None:
    block = {"type": "tool_use", "name": "f", "input": {}}
    events = read_events(START, block_start(0, **block), block_stop(0), end(), STOP)
    (call,) = fold(events).blocks
    assert isinstance(call, ToolCall)
    assert call.id == "toolu_msg_up_0"


def test_a_stream_that_says_nothing_at_all() -> None:
    assert failure(read_events(START, STOP)) is FaultKind.UPSTREAM_FAILED
    assert fold(read_events(START, end(), STOP)).blocks == ()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, "overloaded"),
        ({"error": {"message": "Network connection lost"}}, "upstream_failed"),
        ({"error": "text"}, "upstream_failed"),
        ({"type": "message"}, "upstream_failed"),
        ({"type": "message", "content": "x"}, "upstream_failed"),
        ({"type": "message", "content": []}, "upstream_failed"),
        ({"type": "message", "content": [5], "stop_reason": "end_turn"}, "upstream_failed"),
    ],
)
def test_a_200_that_is_no_answer(body: dict[str, Any], kind: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        read_whole(body)
    assert caught.value.fault.kind == kind


def test_very_long_lines() -> None:
    """req: 125"""
    text = "é" * 3_000_000
    data = sse(START) + sse(block_start(0, type="text", text=text)) + sse(end()) + sse(STOP)
    assert fold(read_stream(data, chunk=65_536)).blocks == (Text(text=text),)
