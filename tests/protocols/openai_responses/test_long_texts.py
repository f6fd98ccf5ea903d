"""A text that is long is told by the last events as a short one is: the same, and whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from dragoman.canonical.masking import HIDDEN, Mask
from dragoman.sse import last_event
from dragoman.translation import AnswerStream, Call, translate_request
from tests.checkers import CHECKERS
from tests.checkers.framing import frames

SECRET = "sk-a-key-of-an-account-0123456789"
ODD = 'def f():\n\treturn "é\u2028\u0085\x00' + '0\x00\U0001f600"\\n'
"""What is escaped, or must be, and what looks like a placeholder."""
TIMES = 9000
KINDS = ("text", "reasoning", "arguments")
ADDED: dict[str, str] = {"text": "content", "reasoning": "reasoning_content"}


def _call(**asked: Any) -> Call:
    body = {"model": "m", "stream": True, "input": "hi", **asked}
    return translate_request("openai_responses", "openai_chat", json.dumps(body).encode())


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def _delta(kind: str, text: str) -> dict[str, Any]:
    if kind in ADDED:
        return {ADDED[kind]: text}
    return {"tool_calls": [{"index": 0, "function": {"arguments": json.dumps(text)[1:-1]}}]}


def _upstream(kind: str, pieces: Sequence[str]) -> Iterator[bytes]:
    yield _chunk({"role": "assistant", "content": None})
    if kind == "arguments":
        function = {"name": "run", "arguments": '{"a": "'}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        yield _chunk({"tool_calls": [call]})
    for piece in pieces:
        yield _chunk(_delta(kind, piece))
    if kind == "arguments":
        yield _chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]})
    yield _chunk({}, "tool_calls" if kind == "arguments" else "stop")
    yield b"data: [DONE]\n\n"


def _told(stream: AnswerStream, upstream: Iterator[bytes]) -> bytes:
    return b"".join([stream.feed(chunk) for chunk in upstream]) + stream.finish()


def _texts(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _long(written: bytes, least: int = 60_000) -> list[tuple[str, str]]:
    """The events that hold a long text, by their types."""
    events = [json.loads(frame.data) for frame in frames(written)]
    return [
        (event["type"], text) for event in events for text in _texts(event) if len(text) > least
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_each_of_the_last_events_tells_all_of_it(kind: str) -> None:
    pieces = [f"{number} {ODD}" for number in range(TIMES)]
    written = _told(_call().open_stream(), _upstream(kind, pieces))
    CHECKERS["openai_responses"](written)
    found = _long(written)
    assert len({name for name, _ in found}) >= 3
    assert found[-1][0] == "response.completed"
    whole = "".join(pieces)
    for name, text in found:
        assert (json.loads(text)["a"] if kind == "arguments" else text) == whole, name
    assert b"\x00" not in written
    assert not {"\u2028", "\u0085"} & set(written.decode())


def test_a_text_that_is_long_as_json_alone() -> None:
    pieces = ["\x00" * 100] * 120
    written = _told(_call().open_stream(), _upstream("text", pieces))
    found = _long(written, 10_000)
    assert len(found) == 4
    assert {text for _, text in found} == {"".join(pieces)}


@pytest.mark.parametrize("kind", KINDS)
def test_no_secret_is_in_it(kind: str) -> None:
    """Also one that was cut where it came."""
    pieces = [*["abc " * 1000] * 20, SECRET[:9], f"{SECRET[9:]} and {SECRET}", " xyz" * 10]
    call = _call()
    call.mask = Mask([SECRET])
    written = _told(call.open_stream(), _upstream(kind, pieces))
    assert SECRET.encode() not in written
    found = _long(written)
    assert len(found) >= 3
    assert {text.count(HIDDEN) for _, text in found} == {2}


def test_an_answer_that_came_whole_is_told_so_too() -> None:
    text = ODD * TIMES
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    answer = {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}
    written = _call().response_as_stream(json.dumps(answer).encode())
    assert {told for _, told in _long(written)} == {text}


def test_the_last_event_is_found_from_the_end() -> None:
    data = b'event: a\ndata: {"b":1}\n\n: said\n\ndata: c\n\n'
    end = len(data)
    found = []
    while end:
        end, frame = last_event(data, end)
        found.append(frame and (frame.event, frame.data))
    assert found == [(b"", b"c"), None, (b"a", b'{"b":1}')]
