"""What holds for every answer, however its bytes arrive."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.protocols.base import to_json_text
from dragoman.protocols.openai_responses import CODEC
from dragoman.sse import Decoder
from tests.checkers import check_responses
from tests.folded import fold
from tests.protocols.openai_responses.helpers import (
    JsonObject,
    decoded,
    inbound,
    read_stream,
    reply,
    stream_of,
    write_response,
    write_stream,
)
from tests.protocols.openai_responses.upstream import (
    call,
    custom_call,
    events_of,
    message,
    reasoning,
    refusal,
    response,
    text,
)

texts = st.text(st.characters(codec="utf-8"), max_size=12)
records = st.fixed_dictionaries(
    {"token": texts, "logprob": st.just(-1.0), "bytes": st.just([]), "top_logprobs": st.just([])}
)
citations = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("url_citation"),
            "url": st.just("https://a"),
            "title": texts,
            "start_index": st.integers(0, 3),
            "end_index": st.integers(3, 9),
        }
    ),
    st.just({"type": "file_path", "file_id": "f", "index": 0}),
)
text_parts = st.builds(
    text,
    texts.filter(bool),
    annotations=st.lists(citations, max_size=2),
    logprobs=st.lists(records, max_size=2),
)
parts = st.lists(
    st.one_of(text_parts, st.builds(text, texts), st.builds(refusal, texts)), max_size=3
)
arguments = texts.map(lambda value: to_json_text({"a": value}))


@st.composite
def items(draw: st.DrawFn, number: int) -> JsonObject:
    """An output item of any kind, with ids of its own."""
    kind = draw(st.sampled_from(("message", "reasoning", "call", "custom", "hosted")))
    names: JsonObject = {"id": f"{kind}_{number}"}
    match kind:
        case "message":
            phase = draw(st.sampled_from(({}, {"phase": "commentary"})))
            return message(*draw(parts), **names, **phase)
        case "reasoning":
            state = draw(st.sampled_from(({}, {"encrypted_content": "E"})))
            if draw(st.booleans()):
                content = [
                    {"type": "reasoning_text", "text": part} for part in draw(st.lists(texts))
                ]
                return reasoning(content=content, **names, **state)
            return reasoning(*draw(st.lists(texts, max_size=3)), **names, **state)
        case "call":
            return call(draw(arguments), call_id=f"call_{number}", **names)
        case "custom":
            return custom_call(draw(texts), call_id=f"call_{number}", **names)
    return {"type": "web_search_call", **names, "status": "completed"}


@st.composite
def answers(draw: st.DrawFn) -> JsonObject:
    """A whole answer of an upstream."""
    output = [draw(items(number)) for number in range(draw(st.integers(0, 4)))]
    if draw(st.booleans()):
        return response(*output)
    reason = draw(st.sampled_from(("max_output_tokens", "content_filter")))
    return response(*output, status="incomplete", incomplete_details={"reason": reason})


@given(answers())
def test_a_whole_answer_is_the_fold_of_its_stream(answer: JsonObject) -> None:
    whole = fold(CODEC.translate.read_response(answer, inbound()))
    assert fold(read_stream(stream_of(events_of(answer)))) == whole


@given(answers(), st.lists(st.integers(0, 4000), max_size=5))
def test_any_chopping_of_the_bytes_gives_the_same_events(
    answer: JsonObject, cuts: list[int]
) -> None:
    """Bytes cut anywhere, inside characters too. req: 126"""
    stream = stream_of(events_of(answer))
    edges = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    decoder, reader = Decoder(), CODEC.translate.stream_reader(inbound())
    events: list[Any] = []
    for start, end in pairwise(edges):
        for frame in decoder.feed(stream[start:end]):
            events += reader.read(frame)
    assert [*events, *reader.finish()] == read_stream(stream)


@given(answers())
def test_streams_and_whole_answers_show_the_same(answer: JsonObject) -> None:
    """What is written obeys the grammar, and its output is that of the whole answer."""
    events = list(CODEC.translate.read_response(answer, inbound()))
    stream = write_stream(events)
    check_responses(stream)
    final = decoded(stream)[-1]["response"]
    whole = write_response(fold(events), reply())
    assert {**final, "completed_at": None} == {**whole, "completed_at": None}


@given(answers())
def test_reading_what_was_written_gives_the_same_answer(answer: JsonObject) -> None:
    folded = fold(CODEC.translate.read_response(answer, inbound()))
    written = write_response(folded, reply())
    again = write_response(fold(CODEC.translate.read_response(written, inbound())), reply())
    for body in (written, again):
        body["completed_at"] = None
        body["output"] = [
            {name: value for name, value in item.items() if name != "encrypted_content"}
            for item in body["output"]
        ]
    assert again == written
