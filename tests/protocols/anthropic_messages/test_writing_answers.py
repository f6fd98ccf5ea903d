"""The course of a client's stream, and what it shares with a whole answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.blocks import Text, ToolCall
from dragoman.canonical.errors import Fault, FaultKind, IllegalEvent
from dragoman.canonical.events import Delta, Ended, Event, Failed, Finished, Metered, Started
from dragoman.canonical.losses import Ledger
from dragoman.canonical.requests import Request
from dragoman.canonical.responses import Finish, FinishReason
from dragoman.canonical.usage import Usage
from dragoman.protocols.anthropic_messages import CODEC
from tests.folded import fold
from tests.properties import strategies
from tests.protocols.anthropic_messages.answers import (
    OWN,
    accumulated,
    answer,
    call,
    content_of,
    text,
    thought,
    whole,
)
from tests.protocols.anthropic_messages.helpers import (
    CONVERTED,
    KNOB,
    QUIET,
    THINKS,
    WANTS_JSON,
    read_stream,
    read_whole,
    reply,
    wire_events,
    write_stream,
    write_whole,
    written_events,
)

GOLDEN = (Path(__file__).parents[2] / "golden" / "messages.sse").read_bytes()


def names_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_the_golden_stream() -> None:
    """Byte for byte. req: 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 123, 124"""
    assert write_stream(read_stream(GOLDEN)) == GOLDEN.rstrip(b"\n") + b"\n\n"


def test_the_start_holds_a_whole_message() -> None:
    """Full usage with zeros, the name the client used, then a ping. req: 58, 59, 83, 84, 150"""
    start, ping = written_events([Started("up", "upstream-name")])
    assert start["message"] == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
        },
    }
    assert ping == {"type": "ping"}
    assert CODEC.translate.keepalive == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_usage_known_at_the_start_is_told_there() -> None:
    usage = Usage(input=10, output=1, cached=4)
    start, _ = written_events([Started("up", "x", service_tier="default", usage=usage)])
    told = start["message"]["usage"]
    assert (told["input_tokens"], told["cache_read_input_tokens"]) == (6, 4)
    assert told["service_tier"] == "standard"


@pytest.mark.parametrize(
    ("finish", "called", "expected"),
    [
        (Finish(FinishReason.STOP), False, ("end_turn", None)),
        (Finish(FinishReason.STOP), True, ("tool_use", None)),
        (Finish(FinishReason.TOOL_CALLS), True, ("tool_use", None)),
        (Finish(FinishReason.TOOL_CALLS), False, ("end_turn", None)),
        (Finish(FinishReason.LENGTH), True, ("max_tokens", None)),
        (Finish(FinishReason.STOP_SEQUENCE, "END"), False, ("stop_sequence", "END")),
        (Finish(FinishReason.CONTEXT_WINDOW), False, ("model_context_window_exceeded", None)),
        (Finish(FinishReason.CONTENT_FILTER), False, ("refusal", None)),
        (Finish(FinishReason.PAUSE), False, ("pause_turn", None)),
    ],
)
def test_stop_reasons(finish: Finish, called: bool, expected: Any) -> None:
    """They are told from what was written. req: 54, 59"""
    events = [Started("u", "x"), *(call(0) if called else text(0, "a")), Finished(finish), Ended()]
    found = accumulated(write_stream(events))
    assert (found["stop_reason"], found["stop_sequence"]) == expected
    assert write_whole(fold(events), reply()) == found


@pytest.mark.parametrize(("category", "shown"), [("bio", "bio"), ("unheard_of", None)])
def test_categories_of_refusals(category: str, shown: str | None) -> None:
    finish = Finish(FinishReason.CONTENT_FILTER, category=category)
    wire = written_events([Started("u", "x"), Finished(finish), Ended()])
    assert wire[-2]["delta"]["stop_details"]["category"] == shown


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, (0, 0, 0, 0)),
        (Usage(input=10, output=5), (10, 0, 0, 5)),
        (Usage(input=10, output=5, cached=4, cache_write=1), (5, 1, 4, 5)),
        (Usage(input=3, output=5, cached=4), (0, 0, 4, 5)),
    ],
)
def test_usage_leaves_out_what_was_cached(usage: Usage | None, expected: Any) -> None:
    """All four counts are always there. req: 58, 90"""
    events: list[Event] = [Started("u", "x"), *text(0, "a"), Finished(Finish(FinishReason.STOP))]
    events += [] if usage is None else [Metered(usage)]
    wire = written_events([*events, Ended()])
    assert names_of(wire)[-2:] == ["message_delta", "message_stop"]
    counts = wire[-2]["usage"]
    names = (
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
    )
    assert tuple(counts[name] for name in names) == expected
    whole = write_whole(fold([*events, Ended()]))
    assert whole["usage"] == counts


def test_thinking_tokens() -> None:
    events: list[Event] = [Started("u", "x"), Metered(Usage(input=1, output=9, reasoning=4))]
    wire = written_events([*events, Finished(Finish(FinishReason.STOP)), Ended()])
    assert wire[-2]["usage"]["output_tokens_details"] == {"thinking_tokens": 4}


def test_an_estimate_is_not_overwritten_by_zeros() -> None:
    estimate = Usage(input=50)
    start = Started("u", "x", usage=estimate)
    wire = written_events([start, Finished(Finish(FinishReason.STOP)), Ended()])
    assert wire[-2]["usage"]["input_tokens"] == 50


def test_nothing_of_the_end_before_the_end() -> None:
    """The stop reason waits for the usage that may still come. req: 92, 93"""
    writer = CODEC.translate.answer_writer(reply(), True)
    written = [writer.write(event) for event in [Started("u", "x"), *text(0, "a")]]
    assert writer.write(Finished(Finish(FinishReason.STOP))) == b""
    assert writer.write(Metered(Usage(input=1, output=2))) == b""
    assert names_of(wire_events(writer.write(Ended()))) == ["message_delta", "message_stop"]
    assert b"message_delta" not in b"".join(written)


@pytest.mark.parametrize("so_far", [0, 1, 3, 4])
def test_failures_end_the_stream_with_an_error_and_nothing_else(so_far: int) -> None:
    events = [Started("u", "x"), *text(0, "a")][:so_far]
    fault = Fault(FaultKind.OVERLOADED, "busy", details={"error_code": "x"})
    wire = written_events([*events, Failed(fault)])
    assert wire[-1] == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "busy", "details": {"error_code": "x"}},
    }
    assert not {"message_delta", "message_stop"} & set(names_of(wire))


def test_illegal_orders_raise() -> None:
    writer = CODEC.translate.answer_writer(reply(), True)
    with pytest.raises(IllegalEvent):
        writer.write(Delta(0, "x"))


def test_nothing_said_is_an_empty_answer() -> None:
    """A model may answer nothing at all. req: 62"""
    found = write_whole(whole())
    assert (found["content"], found["stop_reason"]) == ([], "end_turn")


def test_separators_that_break_lines_are_escaped() -> None:
    """req: 123, 124"""
    tricky = "a\u2028b\u2029c\u0085d\n"
    data = write_stream(answer(*text(0, tricky), *thought(1, tricky, opaque=OWN)))
    assert all(raw not in data for raw in ("\u2028".encode(), "\u2029".encode(), "\u0085".encode()))
    assert b"\nid:" not in data
    assert b"\nretry:" not in data
    assert b"[DONE]" not in data
    assert fold(read_stream(data)).blocks[0] == Text(text=tricky)


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    response = draw(strategies.answers(refusals=True))
    return draw(strategies.event_streams(response))


@given(events=streams())
def test_streams_and_whole_answers_say_the_same(events: list[Event]) -> None:
    content_of(events)


@given(events=streams())
def test_what_is_written_reads_back(events: list[Event]) -> None:
    """Through a stream and through a whole answer."""
    response = fold(events)
    streamed = fold(read_stream(write_stream(events)))
    direct = fold(read_whole(write_whole(response)))
    assert streamed == direct
    calls = [member for member in response.blocks if isinstance(member, ToolCall)]
    assert [m for m in streamed.blocks if isinstance(m, ToolCall)] == calls
    if response.usage is not None:
        assert streamed.usage is not None
        assert (streamed.usage.input, streamed.usage.output) == (
            response.usage.input,
            response.usage.output,
        )


@given(events=streams(), request_=st.sampled_from((THINKS, QUIET, WANTS_JSON)))
def test_writers_keep_to_the_grammar(events: list[Event], request_: Request) -> None:
    """Every start has its stop, indexes are dense, one end. req: 82, 85"""
    wire = written_events(events, reply(request_))
    kinds = names_of(wire)
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("message_start") == kinds.count("message_delta") == 1
    starts = [event["index"] for event in wire if event["type"] == "content_block_start"]
    stops = [event["index"] for event in wire if event["type"] == "content_block_stop"]
    assert starts == stops == list(range(len(starts)))
    assert wire[-2]["delta"].keys() >= {"stop_reason", "stop_sequence"}


def test_each_event_is_one_frame_of_its_own() -> None:
    """req: 122"""
    writer = CODEC.translate.answer_writer(reply(), True)
    for event in answer(*text(0, "a"), *call(1)):
        data = writer.write(event)
        assert not data or data.endswith(b"\n\n")
        for frame in wire_events(data):
            assert msgspec.json.encode(frame)


@pytest.mark.parametrize(
    ("events", "request_", "expected"),
    [
        (thought(0, "hm"), QUIET, {("reasoning", KNOB)}),
        (thought(0, "hm"), THINKS, set()),
        (call(0, "free", custom=True), THINKS, {("content", CONVERTED)}),
    ],
    ids=["thinking nobody asked for", "thinking shown", "free text in an argument"],
)
def test_what_a_client_is_not_given_as_it_is(
    events: list[Event], request_: Request, expected: Any
) -> None:
    ledgers = Ledger(), Ledger()
    write_stream(answer(*events), reply(request_, ledgers[0]))
    write_whole(fold(answer(*events)), reply(request_, ledgers[1]))
    for ledger in ledgers:
        assert {(loss.path, loss.kind) for loss in ledger} == expected
