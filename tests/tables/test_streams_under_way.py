"""What the translator of a stream reads, escapes and knows while the stream is under way."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import FaultKind
from dragoman.canonical.events import Delta, Started
from dragoman.canonical.losses import Ledger
from dragoman.protocols import CODECS
from dragoman.protocols.base import Inbound
from dragoman.sse import DEFAULT_MAX_EVENT, Decoder
from tests.protocols.openai_responses.upstream import (
    call,
    events_of,
    message,
    response,
    stream_of,
    text,
)
from tests.tables.answers import LEAST_ANSWER
from tests.tables.cells import (
    CHAT,
    MESSAGES,
    RESPONSES,
    ROLE,
    block,
    chat_chunk,
    chat_stream,
    events,
    message_start,
    named_stream,
    streamed,
    streaming,
    text_block,
    tool_block,
)
from tests.tables.upstreams import STREAMS

HI = chat_chunk({"content": "Hi"})


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("upstream", [CHAT, MESSAGES, RESPONSES])
def test_what_some_readers_take_for_the_end_of_a_line_is_escaped(
    client: str, upstream: str
) -> None:
    separators = "\u2028\u2029\x85"
    given = STREAMS[upstream](LEAST_ANSWER[upstream]).replace(b'"x"', f'"{separators}"'.encode())
    made = streamed(client, upstream, given).decode()
    assert r"\u2028\u2029\u0085" in made
    assert not any(separator in made for separator in separators)


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("upstream", [CHAT, MESSAGES, RESPONSES])
def test_what_a_model_has_said_is_estimated_from_nothing(client: str, upstream: str) -> None:
    _, translator = streaming(client, upstream)
    assert translator.text_bytes == 0
    translator.feed(STREAMS[upstream](LEAST_ANSWER[upstream]))
    assert translator.text_bytes > 0


def test_an_event_without_end_is_the_upstreams_failure() -> None:
    _, translator = streaming(MESSAGES, CHAT)
    translator.feed(chat_stream(ROLE, HI, done=False))
    (_, told) = events(translator.feed(b"data: " + bytes(DEFAULT_MAX_EVENT)))[-1]
    assert told["error"]["type"] == "api_error"
    fault = translator.outcome.fault
    assert fault is not None
    assert (fault.kind, fault.code) == (FaultKind.UPSTREAM_FAILED, "upstream_error")


SAYING = events_of(response(message(text("Hi"))))
EMPTY_PIECES = {
    CHAT: chat_stream(ROLE, *(chat_chunk({name: ""}) for name in ("reasoning_content", "content"))),
    MESSAGES: named_stream(
        message_start(),
        *block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": ""}),
        *text_block(1, "", "Hi", ""),
        *tool_block(2, 7, "", "{}"),
    ),
    RESPONSES: stream_of(
        {**event, **({"delta": ""} if "delta" in event else {})} for event in SAYING[:-1]
    ),
}


@pytest.mark.parametrize("upstream", EMPTY_PIECES)
def test_pieces_without_text_are_not_read(upstream: str) -> None:
    reader = CODECS[upstream].translate.stream_reader(Inbound(sealer=Sealer(), ledger=Ledger()))
    read = [one for frame in Decoder().feed(EMPTY_PIECES[upstream]) for one in reader.read(frame)]
    assert all(one.text for one in read if isinstance(one, Delta))
    assert any(isinstance(one, Started) for one in read)


def test_white_space_in_arguments_is_counted() -> None:
    """An empty piece says nothing; anything else ends the run, as the call's end does."""
    _, translator = streaming(MESSAGES, CHAT)
    head: Any = {"index": 0, "id": "call_1", "function": {"name": "f", "arguments": "{"}}
    translator.feed(chat_stream(ROLE, chat_chunk({"tool_calls": [head]}), done=False))
    counted = []
    for piece in (" ", "  ", "", "\n", "x", " "):
        more = {"index": 0, "function": {"arguments": piece}}
        translator.feed(chat_stream(chat_chunk({"tool_calls": [more]}), done=False))
        counted.append(translator.blank)
    assert counted == [1, 3, 3, 4, 0, 1]
    translator.feed(chat_stream(chat_chunk({}, "tool_calls"), done=False))
    assert translator.blank == 0


def test_what_was_used_is_known_from_its_event_on() -> None:
    """Also of an answer that is cut off."""
    _, translator = streaming(CHAT, MESSAGES)
    translator.feed(named_stream(message_start(input_tokens=9), *text_block(0, "Hi")))
    translator.finish()
    assert not translator.outcome.ended
    usage = translator.outcome.usage
    assert usage is not None
    assert (usage.input, usage.output) == (9, 1)


def test_what_was_used_is_known_of_an_answer_that_fails_at_its_end() -> None:
    """It may have been paid for nevertheless."""
    _, translator = streaming(CHAT, RESPONSES)
    translator.feed(stream_of(events_of(response(call("{")))))
    assert translator.outcome.fault is not None
    usage = translator.outcome.usage
    assert usage is not None
    assert (usage.input, usage.output) == (9, 5)
