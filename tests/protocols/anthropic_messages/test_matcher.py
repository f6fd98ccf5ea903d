"""Pass-through between a Messages client and a Messages upstream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.canonical.options import Capabilities
from dragoman.canonical.usage import Usage
from dragoman.protocols.anthropic_messages import CODEC
from dragoman.protocols.base import Passed
from dragoman.sse import Decoder
from dragoman.translation.streams import AnswerStream
from tests.library import translate_request
from tests.tables.cells import events, message_start, named_stream, text_block

GOLDEN = (Path(__file__).parents[2] / "golden" / "messages.sse").read_bytes().rstrip() + b"\n\n"
ASKED: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "hi"}],
}


def answer(model: str = "m") -> AnswerStream:
    """A stream on its way to a client of the same protocol."""
    body = json.dumps({**ASKED, "model": model}).encode()
    return translate_request("anthropic_messages", "anthropic_messages", body).open_stream()


def pass_on(data: bytes, stream: AnswerStream) -> bytes:
    return stream.feed(data) + stream.finish()


def test_a_stream_passes_byte_for_byte() -> None:
    odd = b'event: novelty\ndata: {"type": "novelty",  "x" : 1}\n\n'
    data = GOLDEN.replace(b"event: ping", odd + b"event: ping", 1)
    stream = answer()
    assert pass_on(data, stream) == data
    assert stream.outcome.usage == Usage(input=9, output=21, cached=4, cache_write=0)
    assert stream.outcome.ended
    assert stream.outcome.fault is None


def test_only_the_models_name_changes() -> None:
    number = b'"input_tokens":5.0e0 ,'
    data = GOLDEN.replace(b'"input_tokens":5,', number, 1)
    assert pass_on(data, answer("mine")) == data.replace(b'"model":"m"', b'"model":"mine"', 1)


def test_servers_without_event_names() -> None:
    data = b"".join(line + b"\n" for line in GOLDEN.split(b"\n") if not line.startswith(b"event:"))
    stream = answer()
    assert pass_on(data, stream) == GOLDEN
    assert stream.outcome.usage == Usage(input=9, output=21, cached=4, cache_write=0)


def test_an_event_of_several_lines_passes_as_one_line() -> None:
    data = GOLDEN.replace(b'{"type":"ping"}', b'{\ndata: "type":"ping"\ndata: }', 1)
    assert data != GOLDEN
    passed = pass_on(data, answer())
    assert [json.loads(frame.data) for frame in Decoder().feed(passed)] == [
        json.loads(frame.data) for frame in Decoder().feed(GOLDEN)
    ]


def test_a_torn_stream_ends_in_an_error() -> None:
    torn = GOLDEN[: GOLDEN.index(b"event: message_stop")]
    stream = answer()
    passed = pass_on(torn, stream)
    assert passed.startswith(torn)
    assert events(passed)[-1][0] == "error"
    fault = stream.outcome.fault
    assert not stream.outcome.ended
    assert fault is not None
    assert (fault.kind, fault.code) == (FaultKind.UPSTREAM_FAILED, "upstream_error")


def test_an_error_of_the_upstream_passes_and_ends_the_stream() -> None:
    error = named_stream({"type": "error", "error": {"type": "overloaded_error", "message": "b"}})
    head = GOLDEN[: GOLDEN.index(b"event: content_block_start")]
    stream = answer()
    assert pass_on(head + error + GOLDEN, stream) == head + error
    assert stream.outcome.fault is not None
    assert stream.outcome.fault.kind is FaultKind.OVERLOADED


def test_nothing_follows_the_end() -> None:
    assert pass_on(GOLDEN + b"event: done\ndata: [DONE]\n\n", answer()) == GOLDEN


def test_a_stream_can_be_cut_short() -> None:
    body = json.dumps(ASKED).encode()
    call = translate_request("anthropic_messages", "anthropic_messages", body)
    call.request_id = "req_1"
    stream = call.open_stream()
    fault = Fault(FaultKind.UPSTREAM_TIMEOUT, "too slow")
    ((_, event),) = events(stream.fail(fault))
    message = "Provider returned error: too slow"
    assert event["error"] == {"type": "timeout_error", "message": message}
    assert event["request_id"] == "req_1"
    assert stream.outcome.fault is fault
    assert stream.finish() == b""


def test_blocks_go_on_under_their_indexes() -> None:
    """From the first odd event on the stream is translated; the client sees one message."""
    begun = [message_start(), *text_block(0, "one"), *text_block(1, "two")[:-1]]
    odd = {"type": "content_block_delta", "index": 1, "delta": {"text": " and"}}
    rest = [text_block(1)[-1], *text_block(1, "three")]
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
    data = named_stream(*begun, odd, *rest, end, {"type": "message_stop"})
    passed = pass_on(data, answer())
    found = [event for _, event in events(passed)]
    places = [(event["type"][14:], event["index"]) for event in found if "index" in event]
    assert places == [
        *(("start", 0), ("delta", 0), ("stop", 0)),
        *(("start", 1), ("delta", 1), ("delta", 1), ("stop", 1)),
        *(("start", 2), ("delta", 2), ("stop", 2)),
    ]
    assert [event["delta"]["text"] for event in found if "text" in event.get("delta", {})] == [
        "one",
        "two",
        " and",
        "three",
    ]
    assert passed.startswith(
        named_stream(*begun[1:]).join([passed[: passed.index(b"event: content")], b""])
    )


def test_a_request_passes_with_another_model() -> None:
    body = b'{"model":"a","max_tokens": 1.0e2,"x":{"b" : [1, 2.50]},"a\\"b":"\\u00e9"}'
    members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    passed = CODEC.passthrough.forward_request(members, "other", Capabilities())
    assert passed == b'{"model":"other","max_tokens":1.0e2,"x":{"b" : [1, 2.50]},"a\\"b":"\\u00e9"}'


ANSWER = (
    b'{"type":"message","model":"up", "content":[ {"type":"text","text":"\\u00e9"} ],'
    b'"usage":{"input_tokens":1,"cache_read_input_tokens":2,"output_tokens":3},"new":1.0,'
    b'"stop_reason":"end_turn"}'
)


def test_a_whole_answer_passes() -> None:
    usage = Usage(input=3, output=3, cached=2)
    assert CODEC.passthrough.match_response(ANSWER, "up") == Passed(ANSWER, usage, "end_turn")
    passed = CODEC.passthrough.match_response(ANSWER, "mine")
    assert passed is not None
    assert passed.usage == usage
    assert b'[ {"type":"text","text":"\\u00e9"} ]' in passed.body
    assert b'"new":1.0' in passed.body
    assert msgspec.json.decode(passed.body) == {**msgspec.json.decode(ANSWER), "model": "mine"}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", FaultKind.UPSTREAM_FAILED),
        (b"[]", FaultKind.UPSTREAM_FAILED),
        (b"{}", FaultKind.UPSTREAM_FAILED),
        (b'{"type":"message"}', FaultKind.UPSTREAM_FAILED),
        (b'{"type":"message","content":[],"stop_reason":null}', FaultKind.UPSTREAM_FAILED),
        (b'{"type":"message","content":[],"stop_reason":"error"}', FaultKind.UPSTREAM_FAILED),
        (
            b'{"type":"error","error":{"type":"overloaded_error","message":"m"}}',
            FaultKind.OVERLOADED,
        ),
        (b'{"error":{"message":"Network connection lost"}}', FaultKind.UPSTREAM_FAILED),
    ],
)
def test_a_200_that_is_no_answer(body: bytes, kind: FaultKind) -> None:
    call = translate_request("anthropic_messages", "anthropic_messages", json.dumps(ASKED).encode())
    assert CODEC.passthrough.match_response(body, "m") is None
    with pytest.raises(UpstreamError) as caught:
        call.translate_response(body)
    assert caught.value.fault.kind is kind


USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}


@pytest.mark.parametrize(
    ("event", "begun"),
    [
        ({"type": "ping"}, False),
        ({"type": "content_block_start", "content_block": {"type": "text", "text": ""}}, False),
        ({"type": "content_block_start", "content_block": {"type": "thinking"}}, False),
        ({"type": "content_block_start", "content_block": USE}, True),
        ({"type": "content_block_start", "content_block": {"type": "redacted_thinking"}}, False),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": ""}}, False),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}, True),
        ({"type": "content_block_delta", "delta": 5}, False),
    ],
)
def test_an_answer_has_begun_with_its_content(event: dict[str, object], begun: bool) -> None:
    """Before it another account could still answer."""
    stream = answer()
    stream.feed(named_stream(message_start(), {"index": 0, **event}))
    assert stream.begun is begun
