"""Pass-through between a Messages client and a Messages upstream."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.canonical.options import Capabilities
from dragoman.canonical.usage import Usage
from dragoman.protocols.anthropic_messages import CODEC
from dragoman.protocols.base import Relay
from dragoman.sse import Decoder
from tests.tables.cells import events, named_stream

GOLDEN = (Path(__file__).parents[2] / "golden" / "messages.sse").read_bytes().rstrip() + b"\n\n"


def pass_on(data: bytes, relay: Relay) -> bytes:
    decoder = Decoder()
    passed = [relay.relay(frame) for frame in [*decoder.feed(data), *decoder.finish()]]
    return b"".join(passed) + relay.finish()


def test_a_stream_passes_byte_for_byte() -> None:
    odd = b'event: novelty\ndata: {"type": "novelty",  "x" : 1}\n\n'
    data = GOLDEN.replace(b"event: ping", odd + b"event: ping", 1)
    relay = CODEC.passthrough.relay(None, False)
    assert pass_on(data, relay) == data
    assert relay.usage == Usage(input=9, output=21, cached=4, cache_write=0)
    assert relay.ended
    assert relay.fault is None


def test_only_the_models_name_changes() -> None:
    number = b'"input_tokens":5.0e0 ,'
    data = GOLDEN.replace(b'"input_tokens":5,', number, 1)
    shown = pass_on(data, CODEC.passthrough.relay("mine", False))
    assert shown == data.replace(b'"model":"m"', b'"model":"mine"', 1)


def test_servers_without_event_names() -> None:
    data = b"".join(line + b"\n" for line in GOLDEN.split(b"\n") if not line.startswith(b"event:"))
    relay = CODEC.passthrough.relay(None, False)
    pass_on(data, relay)
    assert relay.ended
    assert relay.usage == Usage(input=9, output=21, cached=4, cache_write=0)


def test_a_torn_stream_ends_in_an_error() -> None:
    torn = GOLDEN[: GOLDEN.index(b"event: message_stop")]
    relay = CODEC.passthrough.relay(None, False)
    passed = pass_on(torn, relay)
    assert passed.startswith(torn)
    assert events(passed)[-1][0] == "error"
    assert not relay.ended
    assert relay.fault is not None
    assert (relay.fault.kind, relay.fault.code) == (FaultKind.UPSTREAM_FAILED, "upstream_error")


def test_an_error_of_the_upstream_passes_and_ends_the_stream() -> None:
    error = named_stream({"type": "error", "error": {"type": "overloaded_error", "message": "b"}})
    head = GOLDEN[: GOLDEN.index(b"event: content_block_start")]
    relay = CODEC.passthrough.relay(None, False)
    assert pass_on(head + error + GOLDEN, relay) == head + error
    assert relay.fault is not None
    assert relay.fault.kind is FaultKind.OVERLOADED


def test_nothing_follows_the_end() -> None:
    assert (
        pass_on(GOLDEN + b"event: done\ndata: [DONE]\n\n", CODEC.passthrough.relay(None, False))
        == GOLDEN
    )


def test_a_stream_can_be_cut_short() -> None:
    relay = CODEC.passthrough.relay(None, False, {}, "req_1")
    fault = Fault(FaultKind.UPSTREAM_TIMEOUT, "too slow")
    ((_, event),) = events(relay.fail(fault))
    message = "Provider returned error: too slow"
    assert event["error"] == {"type": "timeout_error", "message": message}
    assert event["request_id"] == "req_1"
    assert relay.fault is fault
    assert relay.finish() == b""


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
    assert CODEC.passthrough.forward_response(ANSWER, "up")[:2] == (ANSWER, usage)
    body, again, _ = CODEC.passthrough.forward_response(ANSWER, "mine")
    assert again == usage
    assert b'[ {"type":"text","text":"\\u00e9"} ]' in body
    assert b'"new":1.0' in body
    assert msgspec.json.decode(body) == {**msgspec.json.decode(ANSWER), "model": "mine"}


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
    with pytest.raises(UpstreamError) as caught:
        CODEC.passthrough.forward_response(body, "m")
    assert caught.value.fault.kind is kind


@pytest.mark.parametrize(
    ("event", "begun"),
    [
        ({"type": "ping"}, False),
        ({"type": "content_block_start", "content_block": {"type": "text", "text": ""}}, False),
        ({"type": "content_block_start", "content_block": {"type": "thinking"}}, False),
        ({"type": "content_block_start", "content_block": {"type": "text", "text": "x"}}, True),
        ({"type": "content_block_start", "content_block": {"type": "tool_use"}}, True),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": ""}}, False),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}, True),
        ({"type": "content_block_delta", "delta": 5}, False),
    ],
)
def test_an_answer_has_begun_with_its_content(event: dict[str, object], begun: bool) -> None:
    """Before it another account could still answer."""
    relay = CODEC.passthrough.relay(None, False)
    for frame in Decoder().feed(named_stream(event)):
        relay.relay(frame)
    assert relay.begun is begun
