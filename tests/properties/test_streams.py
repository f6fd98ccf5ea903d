"""What holds for every answer, whatever it says and however its bytes are cut."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.blocks import Text, ToolCall
from dragoman.canonical.errors import UpstreamError
from dragoman.protocols.base import to_json_text
from dragoman.translation import Call
from tests.checkers import CHECKERS
from tests.folded import Response, fold
from tests.losses.answers import stream_cases
from tests.losses.requests import CHAT, GOOGLE, MESSAGES
from tests.properties import strategies as own
from tests.properties.cells import (
    CELLS,
    CROSSINGS,
    PROTOCOLS,
    call,
    read_stream,
    read_whole,
    same_ids,
    translated,
    write_stream,
    write_whole,
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data())
def test_a_whole_answer_is_the_fold_of_its_stream(protocol: str, data: st.DataObject) -> None:
    answer = data.draw(own.answers(refusals=True))
    events = data.draw(own.event_streams(answer))

    whole = read_whole(protocol, write_whole(protocol, fold(events)))
    streamed = fold(read_stream(protocol, write_stream(protocol, events)))

    assert whole == streamed


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data())
def test_an_answer_survives_its_own_protocol(protocol: str, data: st.DataObject) -> None:
    """What was written and read is written and read the same again."""
    once = read_whole(protocol, write_whole(protocol, data.draw(own.answers())))
    twice = read_whole(protocol, write_whole(protocol, once))

    assert twice == once


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data())
def test_written_streams_obey_the_grammar(protocol: str, data: st.DataObject) -> None:
    answer = data.draw(own.answers())

    verdict = CHECKERS[protocol](write_stream(protocol, data.draw(own.event_streams(answer))))

    assert verdict.succeeded
    assert verdict.text == text_of(answer)
    assert verdict.calls == [(call.id, call.name, call.arguments) for call in calls_of(answer)]


def text_of(answer: Response) -> str:
    """All visible text."""
    return "".join(block.text for block in answer.blocks if isinstance(block, Text))


def calls_of(answer: Response) -> list[ToolCall]:
    """The tool calls."""
    return [block for block in answer.blocks if isinstance(block, ToolCall)]


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
@given(data=st.data())
def test_translated_streams_obey_the_grammar(
    client: str, upstream: str, data: st.DataObject
) -> None:
    """... and say the same. req: 71, 72, 73, 80, 81, 82, 85, 98, 110, 112"""
    answer = data.draw(own.answers())
    stream = write_stream(upstream, data.draw(own.event_streams(answer)))

    verdict = CHECKERS[client](translated(client, upstream, [stream]))

    assert verdict.succeeded
    assert verdict.text == text_of(answer)
    assert [call[1:] for call in verdict.calls] == [
        (call.name, call.arguments) for call in calls_of(answer)
    ]


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
@given(data=st.data())
def test_any_answer_keeps_the_form(client: str, upstream: str, data: st.DataObject) -> None:
    """Blocks of any kind in any order: the client's stream is well formed, and ends as told."""
    answer = data.draw(own.any_answers())
    stream = write_stream(upstream, data.draw(own.event_streams(answer)))

    verdict = CHECKERS[client](translated(client, upstream, [stream]))

    if verdict.succeeded:
        # Messages and Google have no free-text calls: they are functions with one string there.
        wraps = not {MESSAGES, GOOGLE}.isdisjoint((client, upstream))
        assert [call[1:] for call in verdict.calls] == [
            (call.name, to_json_text({"input": call.arguments}))
            if call.custom and wraps
            else (call.name, call.arguments)
            for call in calls_of(answer)
        ]


@pytest.mark.parametrize(("client", "upstream"), CROSSINGS)
@given(data=st.data())
def test_whole_and_streamed_answers_say_the_same(
    client: str, upstream: str, data: st.DataObject
) -> None:
    """An upstream's whole answer and its stream give the client the same whole answer."""
    # A whole Chat answer does not tell the order of its text and calls.
    ordered = upstream == CHAT
    answer = data.draw(own.answers(refusals=True) if ordered else own.any_answers())
    events = data.draw(own.event_streams(answer))
    stream = write_stream(upstream, events)
    body = msgspec.json.encode(write_whole(upstream, fold(events)))

    assert outcome(client, upstream, lambda call: call.translate_response(body)) == outcome(
        client, upstream, lambda call: call.stream_as_response(stream)
    )


def outcome(client: str, upstream: str, answer: Callable[[Call], bytes]) -> object:
    """The client's answer, or that there is none."""
    with same_ids():
        try:
            return msgspec.json.decode(answer(call(client, upstream)))
        except UpstreamError:
            return "failed"


def chopped(stream: bytes, cuts: list[int]) -> list[bytes]:
    """The stream in chunks, cut at the given places."""
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize(("client", "upstream"), CELLS)
@given(data=st.data())
def test_chopping_changes_nothing(client: str, upstream: str, data: st.DataObject) -> None:
    """Bytes cut anywhere, within characters too, give the same bytes. req: 126"""
    answer = data.draw(own.answers())
    stream = write_stream(upstream, data.draw(own.event_streams(answer)))
    cuts = data.draw(st.lists(st.integers(0, 1 << 20), max_size=12))

    chunks = chopped(stream, cuts)

    assert translated(client, upstream, chunks) == translated(client, upstream, [stream])


@pytest.mark.parametrize(
    ("client", "upstream"),
    [cell for cell in CELLS if cell[1] != GOOGLE],  # its SDKs have no types of events
)
@given(data=st.data())
def test_chopping_of_any_known_event_changes_nothing(
    client: str, upstream: str, data: st.DataObject
) -> None:
    """The same for streams that contain everything the SDKs' event types can hold. req: 126"""
    streams = [case for case in stream_cases() if case.upstream == upstream]
    stream = data.draw(st.sampled_from(streams)).body()
    newline = data.draw(st.sampled_from((b"\n", b"\r\n", b"\r")))
    stream = stream.replace(b"\n", newline)

    bytewise = [stream[at : at + 1] for at in range(len(stream))]

    assert translated(client, upstream, bytewise) == translated(client, upstream, [stream])
