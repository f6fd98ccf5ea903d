"""Event streams of AWS, and the events of Messages in them."""

from __future__ import annotations

import random
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from dragoman.eventstream import Decoder, Message
from dragoman.lab.simulator.clouds import event_message
from dragoman.protocols.anthropic_messages.invoke import InvokeDecoder
from dragoman.sse import Frame

EMPTY = bytes.fromhex("00000010 00000000 05c248eb 7d98c8ff".replace(" ", ""))
PAYLOAD = bytes.fromhex("0000001d 00000000 fd528c5a".replace(" ", "")) + b"{'foo':'bar'}"
PAYLOAD += bytes.fromhex("c3653936")
WITH_HEADER = (
    bytes.fromhex("0000003d 00000020 07fd8396".replace(" ", ""))
    + b"\x0ccontent-type\x07\x00\x10application/json{'foo':'bar'}"
    + bytes.fromhex("8d9c08b1")
)
"""Of awslabs/aws-c-event-stream, `tests/`."""

CHUNK = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
EXCEPTION = {":message-type": "exception"}


def chunk(event: object, padding: str = "abc") -> bytes:
    """The message with an event of Messages."""
    data = event if isinstance(event, bytes) else msgspec.json.encode(event)
    payload = {"bytes": b64encode(data).decode(), "p": padding}
    return event_message(CHUNK, msgspec.json.encode(payload))


def exception(name: str, **payload: object) -> bytes:
    headers = {**EXCEPTION, ":exception-type": name}
    return event_message(headers, msgspec.json.encode(payload))


EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hé\n"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
METRICS = {"inputTokenCount": 30, "outputTokenCount": 20, "invocationLatency": 9}
STREAM = b"".join(map(chunk, EVENTS))


def decoded(pieces: list[bytes]) -> list[Frame]:
    decoder = InvokeDecoder()
    frames = [frame for piece in pieces for frame in decoder.feed(piece)]
    return frames + decoder.finish()


def values(frames: list[Frame]) -> list[object]:
    return [msgspec.json.decode(frame.data) for frame in frames]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (EMPTY, ({}, b"")),
        (PAYLOAD, ({}, b"{'foo':'bar'}")),
        (WITH_HEADER, ({"content-type": "application/json"}, b"{'foo':'bar'}")),
    ],
)
def test_published_messages(data: bytes, message: Message) -> None:
    assert Decoder().feed(data) == [message]
    assert event_message(*message) == data


def test_headers_of_every_type() -> None:
    values = (
        (0, b""),
        (1, b""),
        (2, b"\1"),
        (3, b"\0\1"),
        (4, bytes(4)),
        (5, bytes(8)),
        (6, b"\0\2ab"),
        (7, b"\0\3abc"),
        (8, bytes(8)),
        (9, bytes(16)),
    )
    raw = b"".join(bytes((2,)) + b"h%d" % kind + bytes((kind,)) + value for kind, value in values)
    plain = event_message({}, b"{}")
    made = _message(raw, b"{}")
    assert Decoder().feed(made + plain) == [({"h7": "abc"}, b"{}"), ({}, b"{}")]


def _message(headers: bytes, payload: bytes) -> bytes:
    from struct import pack
    from zlib import crc32

    lengths = pack(">II", 16 + len(headers) + len(payload), len(headers))
    head = lengths + pack(">I", crc32(lengths)) + headers + payload
    return head + pack(">I", crc32(head))


def test_events_are_those_of_server_sent_events_at_every_split() -> None:
    whole = decoded([STREAM])
    assert values(whole) == EVENTS
    assert [frame.event.decode() for frame in whole] == [event["type"] for event in EVENTS]
    for frame in whole:
        assert frame.raw == b"event: %b\ndata: %b\n\n" % (frame.event, frame.data)
    for at in range(1, len(STREAM)):
        assert decoded([STREAM[:at], STREAM[at:]]) == whole
    assert decoded([STREAM[at : at + 1] for at in range(len(STREAM))]) == whole


def test_what_is_no_event_is_passed_over() -> None:
    others = event_message({**CHUNK, ":event-type": "other"}, b"{}")
    spaced = b'{"index": 0,\n "type": "content_block_stop"}'
    frames = decoded([others, chunk({"index": 1}), chunk(spaced), event_message({}, b"{}")])
    assert values(frames) == [{"index": 0, "type": "content_block_stop"}]
    assert frames[0].raw.count(b"\n") == 3


def test_the_metrics_of_the_service_are_no_part_of_the_last_event() -> None:
    stop = {"type": "message_stop", "amazon-bedrock-invocationMetrics": METRICS}
    assert values(decoded([*map(chunk, EVENTS[:-1]), chunk(stop)])) == EVENTS


def test_the_metrics_of_the_service_count_where_the_model_reports_no_usage() -> None:
    unmetered = [*EVENTS[:4], {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}]
    stop = {"type": "message_stop", "amazon-bedrock-invocationMetrics": METRICS}
    *_, metered, last = values(decoded([*map(chunk, unmetered), chunk(stop)]))
    assert metered == {
        "type": "message_delta",
        "delta": {},
        "usage": {"input_tokens": 30, "output_tokens": 20},
    }
    assert last == {"type": "message_stop"}


@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        (exception("throttlingException", message="Too many tokens"), "rate_limit_error", "Too"),
        (exception("validationException", message="Bad"), "invalid_request_error", "Bad"),
        (exception("serviceUnavailableException", message="Busy"), "overloaded_error", "Busy"),
        (exception("modelTimeoutException", message="Late"), "timeout_error", "Late"),
        (exception("internalServerException", message="Oh"), "api_error", "Oh"),
        (
            exception("modelStreamErrorException", message="Oh", originalMessage="It broke"),
            "api_error",
            "It broke",
        ),
        (exception("newException"), "api_error", "newException"),
        (
            event_message(
                {":message-type": "error", ":error-code": "Oops", ":error-message": "Gone"}, b""
            ),
            "api_error",
            "Gone",
        ),
    ],
)
def test_exceptions_are_errors_of_the_protocol(message: bytes, kind: str, text: str) -> None:
    frame = decoded([chunk(EVENTS[0]), message])[1]
    assert frame.event == b"error"
    error = msgspec.json.decode(frame.data)["error"]
    assert error["type"] == kind
    assert error["message"].startswith(text)


def test_every_truncation_is_an_error() -> None:
    """No cut within a message is taken for an end."""
    ends = {0}
    for event in EVENTS:
        ends.add(max(ends) + len(chunk(event)))
    for at in range(len(STREAM) + 1):
        frames = decoded([STREAM[:at]])
        has_error = bool(frames) and frames[-1].event == b"error"
        assert has_error is (at not in ends), at


def test_any_changed_byte_is_noticed() -> None:
    """What was whole before it is read, nothing after it."""
    whole = decoded([STREAM])
    for at in range(len(STREAM)):
        damaged = bytearray(STREAM)
        damaged[at] ^= 0x55
        *before, error = decoded([bytes(damaged)])
        assert error.event == b"error"
        assert before == whole[: len(before)]
        assert len(before) < len(whole)


def test_impossible_lengths_are_refused_at_once() -> None:
    from struct import pack
    from zlib import crc32

    for total, headers in ((15, 0), (20, 5), (1 << 25, 0), (200_000, 180_000)):
        lengths = pack(">II", total, headers)
        decoder = Decoder()
        assert decoder.feed(lengths + pack(">I", crc32(lengths))) == []
        assert decoder.damage


def test_a_payload_that_is_no_event_is_an_error() -> None:
    for payload in (b"", b"[]", b'{"bytes":"***"}', b'{"bytes":7}', b"\xff"):
        (frame,) = decoded([event_message(CHUNK, payload)])
        assert frame.event == b"error"
    (frame,) = decoded([chunk(b"no JSON")])
    assert frame.event == b"error"


def test_random_bytes_do_no_harm() -> None:
    chance = random.Random(7)
    for _ in range(500):
        pieces = [chance.randbytes(chance.randrange(60)) for _ in range(chance.randrange(5))]
        frames = decoded(pieces)
        assert all(frame.event == b"error" for frame in frames)
        assert len(frames) <= 1


def test_a_large_event_in_small_pieces() -> None:
    delta = {"type": "text_delta", "text": "x" * 3_000_000}
    made = chunk({"type": "content_block_delta", "index": 0, "delta": delta})
    pieces = [made[at : at + 16_384] for at in range(0, len(made), 16_384)]
    (frame,) = decoded(pieces)
    assert msgspec.json.decode(frame.data)["delta"] == delta
