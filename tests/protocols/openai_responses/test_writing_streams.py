"""Streams obey the grammar that strict clients check, and end in an open failure if they fail."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState

from dragoman.canonical.blocks import (
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
)
from dragoman.canonical.errors import Fault, FaultKind, IllegalEvent
from dragoman.canonical.events import (
    Delta,
    Failed,
    Started,
)
from dragoman.canonical.responses import FinishReason
from dragoman.protocols.openai_responses import CODEC, wire
from dragoman.protocols.settings import make_options
from dragoman.sse import Decoder
from tests.checkers import check_responses
from tests.folded import fold
from tests.protocols.openai_responses.answers import (
    ENVELOPE,
    SDK_EVENT,
    events_of,
    kinds,
)
from tests.protocols.openai_responses.helpers import (
    decoded,
    inbound,
    read_stream,
    reply,
    write_response,
    write_stream,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "responses.sse"


def test_the_golden_stream_is_read_and_written_alike() -> None:
    """The stream all four vendor SDKs accept. req: 98, 99, 107, 108"""
    golden = GOLDEN.read_bytes()
    events = read_stream(golden)
    written = write_stream(events, reply(options=make_options(responses_done=True)))
    assert written.endswith(b"data: [DONE]\n\n")
    expected, found = decoded(golden), decoded(written)
    for stream in (expected, found):
        stream[-1]["response"]["completed_at"] = None
    assert found == expected
    names = [frame.event for frame in Decoder().feed(written)]
    assert names[:-1] == [event["type"].encode() for event in found]


def test_the_order_of_a_text_answer() -> None:
    """Names, numbers and order of the events. req: 98, 99, 103, 104, 112"""
    stream = write_stream(events_of(Text(text="Hello you")))
    assert kinds(stream) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    events = decoded(stream)
    assert [event["sequence_number"] for event in events] == list(range(11))
    assert events[2] == {
        "type": "response.output_item.added",
        "sequence_number": 2,
        "output_index": 0,
        "item": {
            "type": "message",
            "id": "msg_1",
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        },
    }
    assert events[7]["text"] == "Hello you"
    assert events[8]["part"]["text"] == "Hello you"
    assert events[9]["item"]["content"] == [events[8]["part"]]


def test_events_of_an_item_say_where_they_belong() -> None:
    """item_id, output_index and content_index, annotations always there. req: 100, 101, 102"""
    stream = write_stream(events_of(Text(text="Hello"), ToolCall(id="c", name="f", arguments="{}")))
    for event in decoded(stream):
        name = event["type"]
        if name.startswith(("response.content_part", "response.output_text")):
            assert (event["item_id"], event["output_index"], event["content_index"]) == (
                "msg_1",
                0,
                0,
            )
        if name.startswith("response.function_call_arguments"):
            assert (event["item_id"], event["output_index"]) == ("fc_1", 1)
            assert "content_index" not in event
        if "part" in event:
            assert event["part"]["annotations"] == []
        if name.startswith("response.output_text"):
            assert event["logprobs"] == []


def test_the_order_of_a_call() -> None:
    """A call is an item of its own, streamed as it comes. req: 108, 109, 110, 111, 113, 118, 162"""
    stream = write_stream(
        events_of(
            ToolCall(id="toolu_1", name="f", arguments='{"a":1}'), reason=FinishReason.TOOL_CALLS
        )
    )
    assert kinds(stream)[2:] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    events = decoded(stream)
    done = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "toolu_1",
        "name": "f",
        "arguments": '{"a":1}',
        "status": "completed",
    }
    assert events[2]["item"] == {**done, "arguments": "", "status": "in_progress"}
    assert (events[5]["name"], events[5]["arguments"]) == ("f", '{"a":1}')
    assert events[6]["item"] == done
    assert events[7]["response"]["output"] == [done]
    assert {event["item_id"] for event in events[3:6]} == {"fc_1"}


def test_deltas_pass_at_once() -> None:
    """Nothing is held back until the end of a call. req: 113, 122"""
    writer = CODEC.translate.answer_writer(reply(), True)
    events = events_of(ToolCall(id="c", name="f", arguments='{"city":"Paris"}'))
    written = [(type(event), writer.write(event)) for event in events]
    assert all(frames for kind, frames in written if kind is Delta)


class TestReasoning:
    """Reasoning has two forms."""

    def test_the_order_of_a_summary(self) -> None:
        stream = write_stream(events_of(Reasoning(parts=("a", "b"), opaque=ENVELOPE)))
        part = [
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
        ]
        assert kinds(stream)[2:] == [
            "output_item.added",
            *part,
            *part,
            "output_item.done",
            "completed",
        ]
        events = decoded(stream)
        assert [e["summary_index"] for e in events if "summary_index" in e] == [0] * 4 + [1] * 4

    def test_raw_reasoning_is_announced_as_content(self) -> None:
        """openai-node throws without the part."""
        stream = write_stream(events_of(Reasoning(parts=("a",), style="raw")))
        assert kinds(stream)[3:7] == [
            "content_part.added",
            "reasoning_text.delta",
            "reasoning_text.done",
            "content_part.done",
        ]


def test_a_stream_does_not_keep_the_request() -> None:
    class Body(dict[str, Any]):
        """A body whose life can be watched."""

    source = Body(model="m", input="x" * 1000)
    gone = weakref.ref(source)
    writer = CODEC.translate.answer_writer(reply(source), True)
    writer.write(Started("u", "m"))
    del source
    gc.collect()
    assert gone() is None


class TestFailure:
    """An error event, then the failed response."""

    FAULT = Fault(FaultKind.UPSTREAM_FAILED, "it broke", code="upstream_error")

    @pytest.mark.parametrize("kept", range(8))
    def test_at_any_moment(self, kept: int) -> None:
        """Same id, status failed, error with code and message. req: 115, 116"""
        begun = events_of(Reasoning(parts=("hm",)), Text(text="Hello"))[:kept]
        stream = write_stream([*begun, Failed(self.FAULT)])
        verdict = check_responses(stream)
        assert not verdict.succeeded
        *_, told, last = decoded(stream)
        assert told["type"] == "error"
        assert told["error"] == {
            "message": "it broke",
            "type": "server_error",
            "param": "",
            "code": "upstream_error",
        }
        assert (told["message"], told["code"], told["param"]) == ("it broke", "upstream_error", "")
        assert last["response"]["error"] == {
            "code": "server_error",
            "message": "it broke",
            "type": "server_error",
        }

    @pytest.mark.parametrize(
        ("fault", "code"),
        [
            (Fault(FaultKind.RATE_LIMITED, "slow"), "rate_limit_exceeded"),
            (Fault(FaultKind.CONTEXT_TOO_LONG, "long"), "context_length_exceeded"),
            (Fault(FaultKind.PAYMENT_REQUIRED, "pay"), "insufficient_quota"),
            (Fault(FaultKind.OVERLOADED, "busy"), "server_is_overloaded"),
            (Fault(FaultKind.INVALID_REQUEST, "bad"), "invalid_prompt"),
            (Fault(FaultKind.INVALID_REQUEST, "bad", code="image_too_large"), "image_too_large"),
            (Fault(FaultKind.NO_ACCOUNT, "none"), "server_error"),
        ],
    )
    def test_codes_clients_know(self, fault: Fault, code: str) -> None:
        stream = write_stream([*events_of()[:1], Failed(fault)])
        assert decoded(stream)[-1]["response"]["error"]["code"] == code

    def test_finished_items_stay(self) -> None:
        events = events_of(Text(text="a"), ToolCall(id="c", name="f", arguments="{}"))
        stream = write_stream([*events[:-4], Failed(self.FAULT)])
        output = decoded(stream)[-1]["response"]["output"]
        assert [item["type"] for item in output] == ["message"]

    @pytest.mark.parametrize("done", [True, False])
    def test_the_terminator_by_choice(self, done: bool) -> None:
        stream = write_stream(
            [Failed(self.FAULT)], reply(options=make_options(responses_done=done))
        )
        assert stream.endswith(b"data: [DONE]\n\n") == done


def test_events_out_of_order_are_our_own_mistake() -> None:
    writer = CODEC.translate.answer_writer(reply(), True)
    with pytest.raises(IllegalEvent):
        writer.write(Delta(0, "a"))


def test_framing() -> None:
    """LF only, one data line, `data: ` with a space, separators escaped. req: 123, 124, 164"""
    text = "a\u2028b\u2029c\u0085d\r\ne"
    stream = write_stream(events_of(Text(text=text), ToolCall(id="c", name="f", arguments="{}")))
    assert b"\r" not in stream
    for raw in stream.split(b"\n\n")[:-1]:
        name, data = raw.split(b"\n")
        assert name.startswith(b"event: response.")
        assert data.startswith(b"data: {")
        assert len(data.decode().splitlines()) == 1
    assert decoded(stream)[-1]["response"]["output"][0]["content"][0]["text"] == text


def test_the_vendors_own_accumulator_takes_it() -> None:
    """openai-python raises on changed ids, doubled indexes and unfinished items. req: 110, 157"""
    events = events_of(
        Reasoning(parts=("a", "b"), opaque=ENVELOPE),
        Text(text="Hello"),
        Refusal(text="no"),
        ToolCall(id="c1", name="f", arguments='{"a":1}'),
        ToolCall(id="c2", name="f", arguments="{}"),
        Text(text="bye"),
    )
    state: Any = ResponseStreamState(text_format=omit, input_tools=omit)
    stream = write_stream(events)
    for event in decoded(stream):
        state.handle_event(SDK_EVENT.validate_python(event))
    final = state._completed_response
    last = decoded(stream)[-1]["response"]
    assert [(item.type, item.id) for item in final.output] == [
        (item["type"], item["id"]) for item in last["output"]
    ]
    assert final.output_text == "Hellobye"


def test_what_is_written_is_read_back() -> None:
    """The stream means the same to a reader of the same protocol."""
    blocks = (
        Reasoning(parts=("a", "b"), opaque=Opaque(wire.NAME, "E", "rs_1")),
        Text(text="Hello", annotations=(UrlCitation(url="https://a", start=0, end=5),)),
        Refusal(text="no"),
        ToolCall(id="c1", name="f", arguments='{"a":1}', namespace="ns"),
        ToolCall(id="c2", name="g", arguments="free", custom=True),
    )
    events = events_of(*blocks, reason=FinishReason.TOOL_CALLS)
    assert fold(read_stream(write_stream(events))).blocks == blocks
    answer = write_response(fold(events))
    assert fold(CODEC.translate.read_response(answer, inbound())).blocks == blocks
