"""Events that a matcher must not accept as exact."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.sse import encode
from tests.fuzz.passing import passing, reading, shown
from tests.fuzz.streams import encoded
from tests.losses.requests import CHAT, MESSAGES
from tests.tables.odd_messages import BEGIN

HEAD = {"id": "x", "model": "m"}


def chunk(delta: object, end: str | None = None, **members: object) -> object:
    """A chunk with one choice."""
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": end, **members}]}


def piece(arguments: str, **members: object) -> object:
    """A delta with a fragment of a call."""
    return {"tool_calls": [{"index": 0, "function": {"arguments": arguments}, **members}]}


def beginning(arguments: str) -> object:
    """A delta with the beginning of a call."""
    function = {"name": "f", "arguments": arguments}
    return piece(arguments, id="c", type="function", function=function)


END = [chunk({}, "tool_calls"), "[DONE]"]


def test_incomplete_arguments_with_logprobs_fail() -> None:
    begun = chunk(beginning('{"a":'), logprobs={"content": [], "refusal": None})
    _, answer = shown(passing(CHAT), encoded([begun, *END], named=False))
    assert answer.outcome.fault is not None


def test_arguments_after_an_empty_piece_are_checked() -> None:
    pieces = ["", "{}", '{"a":1}']
    chunks = [chunk(beginning("")), *[chunk(piece(text)) for text in pieces]]
    found = reading(CHAT, *shown(passing(CHAT), encoded([*chunks, *END], named=False)))
    assert found is not None
    assert found.calls == [("f", '{"a": 1}')]


def test_a_call_without_arguments_starts_once() -> None:
    chunks = [chunk(beginning("")), chunk(piece("")), *END]
    found = reading(CHAT, *shown(passing(CHAT), encoded(chunks, named=False)))
    assert found is not None
    assert found.ids == ["c"]


@pytest.mark.parametrize("text", [b"\t", b"\x01", b"\xff", b"\\q"])
@pytest.mark.parametrize("delta", [{"content": "TEXT"}, piece("TEXT")])
def test_an_invalid_text_after_a_valid_one_fails(text: bytes, delta: object) -> None:
    begun = [chunk(beginning('{"a":"'))] if delta == piece("TEXT") else []
    good, bad = (msgspec.json.encode(chunk(delta)).replace(b"TEXT", one) for one in (b"a", text))
    stream = encoded(begun, named=False) + encode(good) + b"data: %b\n\n" % bad
    answer = passing(CHAT).open_stream()
    answer.feed(stream + encoded(END, named=False))
    assert answer.outcome.fault is not None


@pytest.mark.parametrize("at", [0, 1, 3, 4, 5])
def test_a_messages_event_with_an_error_member_fails(at: int) -> None:
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": {"id": "x", "model": "m", "content": []}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "a"},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    events[at]["error"] = {"type": "api_error", "message": "no more"}
    _, answer = shown(passing(MESSAGES), encoded(events, named=True))
    assert answer.outcome.fault is not None


@pytest.mark.parametrize("kind", ["a\nb", "a\n\nb", "a\rb", "a\u2028b", "a\x85b"])
def test_a_type_that_no_line_can_name_does_not_pass(kind: str) -> None:
    """Clients would read its event as two."""
    odd = msgspec.json.encode({"type": kind, "n": 1})
    answer = passing(MESSAGES).open_stream()
    answer.feed(encode(msgspec.json.encode(BEGIN), b"message_start"))
    assert kind.encode() not in answer.feed(b"data: %b\n\n" % odd)
    assert answer.outcome.fault is None
