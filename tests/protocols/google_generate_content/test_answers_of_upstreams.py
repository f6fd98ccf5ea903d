"""Answers of upstreams of Google's generateContent, as events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.canonical.blocks import Reasoning, Text, ToolCall, UrlCitation
from dragoman.canonical.errors import FaultKind, UpstreamError
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Failed,
    Finished,
    Metered,
    Opened,
    Sealed,
    Started,
)
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.usage import Usage
from dragoman.protocols import CODECS
from dragoman.protocols.settings import make_options
from dragoman.sse import Decoder
from tests.library import translate_request
from tests.losses.clients import asking
from tests.losses.requests import GOOGLE, PROTOCOLS
from tests.properties.cells import inbound

JsonObject = dict[str, Any]
GOLDEN = Path(__file__).parent.parent.parent / "golden"
TRANSLATE = CODECS["google_generate_content"].translate
USED = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}


def chunk(*parts: JsonObject, reason: str | None = None, **more: Any) -> JsonObject:
    """A chunk of a stream: `more` are members of its candidate."""
    candidate: JsonObject = {"content": {"role": "model", "parts": [*parts]}, "index": 0, **more}
    if reason is not None:
        candidate["finishReason"] = reason
    return {
        "candidates": [candidate],
        "usageMetadata": USED,
        "modelVersion": "gemini-3.8-flash",
        "responseId": "resp-1",
    }


def text(said: str, **more: Any) -> JsonObject:
    return {"text": said, **more}


def called(name: str, /, signature: str | None = None, **call: Any) -> JsonObject:
    part: JsonObject = {"functionCall": {"name": name, **call}}
    return part if signature is None else {**part, "thoughtSignature": signature}


def framed(chunks: Iterable[Any]) -> bytes:
    return b"".join(f"data: {json.dumps(one)}\r\n\r\n".encode() for one in chunks)


def streamed(stream: bytes) -> list[Event]:
    """The events of a stream."""
    reader, decoder = TRANSLATE.stream_reader(inbound()), Decoder()
    frames = [*decoder.feed(stream), *decoder.finish()]
    return [*(event for frame in frames for event in reader.read(frame)), *reader.finish()]


def read(*chunks: Any) -> list[Event]:
    """The events of a stream of these chunks, which are those of an array, too."""
    events = streamed(framed(chunks))
    if not any(isinstance(event, Failed) for event in events):
        whole = TRANSLATE.read_response(json.dumps(chunks).encode(), inbound())
        assert list(whole) == events
    return events


def shapes(events: Iterable[Event]) -> list[Any]:
    """What the events say, in short."""
    said: list[Any] = []
    for event in events:
        match event:
            case Opened(block=Text()):
                said.append("text")
            case Opened(block=ToolCall(id=call, name=name)):
                said.append((name, call))
            case Opened(block=Reasoning()):
                said.append("thought")
            case Delta(text=piece):
                said.append(piece)
            case Sealed(opaque=opaque):
                said.append((opaque.data, opaque.anchor))
            case Finished(finish=finish):
                said.append(finish.reason.value)
            case Failed(fault=fault):
                said.append(fault)
    return said


def test_pieces_of_one_kind_are_one_block() -> None:
    events = read(
        chunk(text("Hm, ", thought=True)),
        chunk(text("so.", thought=True), text("Yes")),
        chunk(text(".")),
        chunk(text(""), reason="STOP"),
    )
    assert shapes(events) == ["thought", "Hm, ", "so.", "text", "Yes", ".", "stop"]
    assert events[0] == Started("resp-1", "gemini-3.8-flash", 0, None, Usage(input=7, output=5))
    assert isinstance(events[-1], Ended)


def test_a_signature_ends_its_block_and_stays_beside_it() -> None:
    events = read(
        chunk(text("Hm.", thought=True, thoughtSignature="YQ==")),
        chunk(text("one", thoughtSignature="Yg==")),
        chunk(text("two")),
        chunk(called("f", signature="Yw==", id="c1", args={"a": 1})),
        chunk(called("f", id="c2")),
        chunk(text("", thoughtSignature="ZA=="), reason="STOP"),
    )
    assert shapes(events) == [
        *("thought", "Hm.", ("YQ==", "")),
        *("text", "one", "thought", ("Yg==", "previous")),
        *("text", "two", "thought", ("Yw==", "next")),
        *(("f", "c1"), '{"a":1}', ("f", "c2"), "{}"),
        *("thought", ("ZA==", "")),
        "tool_calls",
    ]


def test_calls_without_identifiers_have_different_ones_that_stay_the_same() -> None:
    stream = (chunk(called("f", args=None)), chunk(called("f"), reason="STOP"))
    calls = [event.block for event in read(*stream) if isinstance(event, Opened)]
    ids = [call.id for call in calls if isinstance(call, ToolCall)]
    assert len(set(ids)) == 2
    again = [event.block for event in read(*stream) if isinstance(event, Opened)]
    assert again == calls


ENDS: dict[str, tuple[list[Any], Finish]] = {
    "stop": ([chunk(text("a"), reason="STOP")], Finish(FinishReason.STOP)),
    "stop on every chunk": (
        [chunk(text("a"), reason="STOP"), chunk(text("b"), reason="STOP")],
        Finish(FinishReason.STOP),
    ),
    "stop after a call": (
        [chunk(called("f", id="c")), chunk(text(""), reason="STOP")],
        Finish(FinishReason.TOOL_CALLS),
    ),
    "nothing said": ([chunk(reason="STOP")], Finish(FinishReason.STOP)),
    "no content": (
        [{"candidates": [{"finishReason": "MAX_TOKENS"}]}],
        Finish(FinishReason.LENGTH),
    ),
    "length": ([chunk(text("a"), reason="MAX_TOKENS")], Finish(FinishReason.LENGTH)),
    "filter": (
        [chunk(text("a"), reason="RECITATION")],
        Finish(FinishReason.CONTENT_FILTER, category="RECITATION"),
    ),
    "blocked": (
        [{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": USED}],
        Finish(FinishReason.CONTENT_FILTER, category="PROHIBITED_CONTENT", of_prompt=True),
    ),
    "usage after the end": (
        [chunk(text("a"), reason="STOP"), {"usageMetadata": USED}],
        Finish(FinishReason.STOP),
    ),
    "paused": ([chunk(text("a"), reason="TOO_MANY_TOOL_CALLS")], Finish(FinishReason.PAUSE)),
    "to be continued": ([chunk(text("a"), reason="CONTINUATION")], Finish(FinishReason.LENGTH)),
    "of others": ([chunk(text("a"), reason="length")], Finish(FinishReason.LENGTH)),
}


@pytest.mark.parametrize(("chunks", "finish"), ENDS.values(), ids=ENDS)
def test_ends(chunks: list[Any], finish: Finish) -> None:
    finished = [event for event in read(*chunks) if isinstance(event, Finished)]
    assert finished == [Finished(finish)]


ERROR = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
FAILURES: dict[str, tuple[bytes, FaultKind]] = {
    **{
        reason: (framed([chunk(text("a"), reason=reason)]), FaultKind.UPSTREAM_FAILED)
        for reason in (
            "MALFORMED_FUNCTION_CALL",
            "UNEXPECTED_TOOL_CALL",
            "MALFORMED_RESPONSE",
            "OTHER",
            "NO_IMAGE",
            "IMAGE_OTHER",
            "FINISH_REASON_UNSPECIFIED",
            "SOMETHING_NEW",
        )
    },
    "too many calls, nothing said": (
        framed([chunk(reason="TOO_MANY_TOOL_CALLS")]),
        FaultKind.UPSTREAM_FAILED,
    ),
    "unsigned": (
        framed([chunk(reason="MISSING_THOUGHT_SIGNATURE")]),
        FaultKind.INVALID_REQUEST,
    ),
    "restricted": (framed([chunk(reason="PUP_LIMITED_DISABLED")]), FaultKind.FORBIDDEN),
    "no reason": (framed([chunk(text("a"))]), FaultKind.UPSTREAM_FAILED),
    "no candidate": (framed([{"usageMetadata": USED}]), FaultKind.UPSTREAM_FAILED),
    "nothing": (b"", FaultKind.UPSTREAM_FAILED),
    "error": (framed([chunk(text("a")), {"error": ERROR}]), FaultKind.OVERLOADED),
    "bare error": (
        framed([chunk(text("a"))]) + json.dumps({"error": ERROR}, indent=2).encode(),
        FaultKind.OVERLOADED,
    ),
    "error in an array": (framed([[{"error": ERROR}]]), FaultKind.OVERLOADED),
    "cut": (framed([chunk(text("a"))])[:-30], FaultKind.UPSTREAM_FAILED),
    "pieces of arguments": (
        framed([chunk(called("f", willContinue=True), reason="STOP")]),
        FaultKind.UPSTREAM_FAILED,
    ),
}


@pytest.mark.parametrize(("stream", "kind"), FAILURES.values(), ids=FAILURES)
def test_failures_are_no_end_of_an_answer(stream: bytes, kind: FaultKind) -> None:
    events = streamed(stream)
    assert isinstance(events[-1], Failed)
    assert events[-1].fault.kind is kind
    assert not any(isinstance(event, Finished | Ended) for event in events)


def test_an_error_with_status_200_is_none_of_the_answers() -> None:
    with pytest.raises(UpstreamError):
        TRANSLATE.read_response(json.dumps({"error": ERROR}).encode(), inbound())


COUNTS: dict[str, tuple[list[JsonObject], Usage]] = {
    "all": (
        [
            {
                "promptTokenCount": 120,
                "cachedContentTokenCount": 64,
                "toolUsePromptTokenCount": 10,
                "candidatesTokenCount": 24,
                "thoughtsTokenCount": 21,
                "totalTokenCount": 175,
            }
        ],
        Usage(input=130, output=45, cached=64, reasoning=21),
    ),
    "last wins, each": (
        [{"promptTokenCount": 7, "candidatesTokenCount": 2}, {"candidatesTokenCount": 5}],
        Usage(input=7, output=5),
    ),
    "by the total": ([{"promptTokenCount": 7, "totalTokenCount": 12}], Usage(input=7, output=5)),
    "tier": (
        [{"trafficType": "ON_DEMAND_PRIORITY"}, USED],
        Usage(input=7, output=5, tier="priority"),
    ),
}


@pytest.mark.parametrize(("counts", "usage"), COUNTS.values(), ids=COUNTS)
def test_usage(counts: list[JsonObject], usage: Usage) -> None:
    chunks = [{**chunk(text("a")), "usageMetadata": one} for one in counts]
    events = read(*chunks, {"candidates": [{"finishReason": "STOP"}]})
    assert [event.usage for event in events if isinstance(event, Metered)][-1] == usage


def test_counts_of_media_and_pages_that_were_read_are_told() -> None:
    kinds = [{"modality": "TEXT", "tokenCount": 3}, {"modality": "IMAGE", "tokenCount": 4}]
    counts = {**USED, "promptTokensDetails": kinds, "candidatesTokensDetails": kinds[:1]}
    pages = {"urlMetadata": [{"retrievedUrl": "https://a.example"}]}
    whole = chunk(text("a"), reason="STOP", urlContextMetadata=pages)
    given = inbound()

    TRANSLATE.read_response(json.dumps({**whole, "usageMetadata": counts}).encode(), given)

    told = [loss.path for loss in given.ledger]
    assert told == ["urlContextMetadata", "usageMetadata.promptTokensDetails"]


def test_sources_of_a_chunk_without_content_are_citations_in_characters() -> None:
    said = "Größe: 2 m. Ende"
    segment = {"startIndex": 0, "endIndex": len("Größe: 2 m.".encode()), "text": "Größe: 2 m."}
    grounding = {
        "webSearchQueries": ["q"],
        "groundingChunks": [{"web": {"uri": "https://a.example", "title": "a"}}],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
    }
    last = {"candidates": [{"finishReason": "STOP", "groundingMetadata": grounding}]}
    events = read(chunk(text(said[:4])), chunk(text(said[4:])), last)
    citation = UrlCitation(url="https://a.example", title="a", start=0, end=11)
    assert [event.annotation for event in events if isinstance(event, Annotated)] == [citation]
    closed = next(at for at, event in enumerate(events) if isinstance(event, Closed))
    assert isinstance(events[closed - 1], Annotated)


def test_pretty_printed_arguments_are_on_one_line() -> None:
    body = json.dumps(chunk(called("f", args={"a": [1.0, {}]}), reason="STOP"), indent=2)
    events = list(TRANSLATE.read_response(body.encode(), inbound()))
    assert '{"a":[1.0,{}]}' in shapes(events)


def test_log_probabilities_are_those_of_the_piece() -> None:
    token = {"token": "a", "tokenId": 1, "logProbability": -0.5}
    result = {"chosenCandidates": [token], "topCandidates": [{"candidates": [token]}]}
    events = read(chunk(text("a"), logprobsResult=result, reason="STOP"))
    record = {"token": "a", "logprob": -0.5, "bytes": [97]}
    (delta,) = [event for event in events if isinstance(event, Delta)]
    assert delta.logprobs == ({**record, "top_logprobs": [record]},)


@pytest.mark.parametrize("top", [5, "a", [5], [{"candidates": 5}], [{"candidates": [5]}]])
def test_log_probabilities_of_another_shape_are_none(top: Any) -> None:
    token = {"token": "a", "logProbability": "-0.5"}
    result = {"chosenCandidates": [token, 5], "topCandidates": top}
    events = read(chunk(text("a"), logprobsResult=result, reason="STOP"))
    (delta,) = [event for event in events if isinstance(event, Delta)]
    record = {"token": "a", "logprob": 0.0, "bytes": [97], "top_logprobs": []}
    assert delta.logprobs == (record,)


@pytest.mark.parametrize("client", PROTOCOLS)
def test_the_first_thought_is_shown_as_it_comes(client: str) -> None:
    call = translate_request(client, GOOGLE, msgspec.json.encode(asking(client, stream=True)))
    shown = call.open_stream().feed(framed([chunk(text("Hm.", thought=True))]))
    assert b"Hm." in shown


SEARCH = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}


@pytest.mark.parametrize(
    ("client", "more", "event"),
    [
        ("openai_chat", {}, '"type":"url_citation"'),
        ("openai_responses", {}, "response.output_text.annotation.added"),
        ("anthropic_messages", SEARCH, '"type":"web_search_result"'),
    ],
)
def test_sources_after_the_text_reach_each_client(client: str, more: Any, event: str) -> None:
    """The last chunk has them, beside an empty text. Clients of Messages are shown the search that
    found them, since only its own service can write its citations."""
    stream = (GOLDEN / "google_grounded.sse").read_bytes()
    body = msgspec.json.encode(asking(client, stream=True) | more)
    mapped = make_options(hosted_tools="map")
    answer = translate_request(client, GOOGLE, body, options=mapped).open_stream()
    shown = (answer.feed(stream) + answer.finish()).decode()
    assert answer.outcome.fault is None
    for word in (event, '"url":"https://example.org/paris"', '"title":"example.org"'):
        assert word in shown
