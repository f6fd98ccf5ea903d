"""Answers of upstreams of the Interactions API as events, and answers as its clients get them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.accounts.decide.decisions import fitting
from dragoman.accounts.decide.rules import DEFAULT
from dragoman.accounts.decide.symptoms import symptom_of_answer
from dragoman.canonical.blocks import (
    Base64,
    Block,
    Foreign,
    Image,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    UrlCitation,
)
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
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
from dragoman.canonical.losses import Ledger
from dragoman.canonical.options import Options
from dragoman.canonical.requests import Request, Thinking
from dragoman.canonical.usage import Usage
from dragoman.failing import Verdict
from dragoman.protocols import CODECS
from dragoman.protocols.base import Inbound, Reply, to_json
from dragoman.sse import Decoder
from tests.library import translate_request

JsonObject = dict[str, Any]
NAME = "google_interactions"
TRANSLATE = CODECS[NAME].translate
GOLDEN = (Path(__file__).parents[2] / "golden" / "interactions.sse").read_bytes()
SIGNED = "c2lnLW9uZQ=="
SEALER = Sealer(b"a key of the tests")
USED = {"total_input_tokens": 7, "total_output_tokens": 5, "total_tokens": 12}


def framed(*events: JsonObject) -> bytes:
    return b"".join(b"data: %b\n\n" % to_json(event) for event in events)


def created(**more: Any) -> JsonObject:
    answer = {"id": "v1_x", "object": "interaction", "model": "g", "status": "in_progress"}
    return {"event_type": "interaction.created", "interaction": {**answer, **more}}


def start(index: int, **step: Any) -> JsonObject:
    return {"event_type": "step.start", "index": index, "step": step}


def piece(index: int, **delta: Any) -> JsonObject:
    return {"event_type": "step.delta", "index": index, "delta": delta}


def stop(index: int) -> JsonObject:
    return {"event_type": "step.stop", "index": index}


def completed(status: str = "completed", **more: Any) -> JsonObject:
    answer = {"id": "v1_x", "status": status, "usage": USED, **more}
    return {"event_type": "interaction.completed", "interaction": answer}


def events_of(stream: bytes, ledger: Ledger | None = None, **inbound: Any) -> list[Event]:
    """The events of a stream."""
    made = Inbound(sealer=SEALER, ledger=Ledger() if ledger is None else ledger, **inbound)
    reader, decoder = TRANSLATE.stream_reader(made), Decoder()
    frames = [*decoder.feed(stream), *decoder.finish()]
    return [*(event for frame in frames for event in reader.read(frame)), *reader.finish()]


def text_in(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


# --- of upstreams ---------------------------------------------------------------------------------


def test_the_example_is_read() -> None:
    events = events_of(GOLDEN)
    heads = [event.block for event in events if isinstance(event, Opened)]
    assert [type(head) for head in heads] == [Reasoning, Text, Reasoning, ToolCall, ToolCall]
    assert text_in(events) == (
        'Two towns, two calls.Looking up both.{"town":"Oslo"}{"town":"Turin"}'
    )
    assert Sealed(3, Opaque(NAME, SIGNED, anchor="next")) in events
    assert events[-3:] == [
        Finished(Finish(FinishReason.TOOL_CALLS)),
        Metered(Usage(input=70, output=69, cached=16, reasoning=38)),
        Ended(),
    ]


def test_a_whole_answer_is_read_as_its_stream() -> None:
    steps = [
        {
            "type": "thought",
            "signature": SIGNED,
            "summary": [{"type": "text", "text": "Two towns, two calls."}],
        },
        {"type": "model_output", "content": [{"type": "text", "text": "Looking up both."}]},
        {
            "type": "function_call",
            "id": "call_a",
            "name": "weather",
            "arguments": {"town": "Oslo"},
        },
        {
            "type": "function_call",
            "id": "call_b",
            "name": "weather",
            "arguments": {"town": "Turin"},
        },
    ]
    body = to_json({"id": "v1_dgm0", "model": "g", "status": "requires_action", "steps": steps})
    whole = list(TRANSLATE.read_response(body, Inbound(sealer=SEALER, ledger=Ledger())))
    streamed = events_of(GOLDEN)
    assert [event for event in whole if isinstance(event, Opened | Sealed)] == [
        event for event in streamed if isinstance(event, Opened | Sealed)
    ]
    assert text_in(whole) == text_in(streamed)


def test_signature_and_arguments_are_read_from_the_start_too() -> None:
    call = {"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1}}
    thought = {"type": "thought", "signature": SIGNED}
    stream = framed(created(), start(0, **thought), stop(0), start(1, **call), stop(1), completed())
    events = events_of(stream)
    assert Sealed(1, Opaque(NAME, SIGNED, anchor="next")) in events
    assert Delta(2, '{"a":1}') in events


def test_steps_may_interleave_and_starts_may_be_missing() -> None:
    stream = framed(
        created(),
        start(0, type="model_output"),
        start(1, type="function_call", id="c", name="f", arguments={}),
        piece(0, type="text", text="a"),
        piece(1, type="arguments_delta", arguments="{}"),
        stop(1),
        stop(0),
        piece(2, type="text", text="b"),
        completed(),
    )
    events = events_of(stream)
    assert text_in(events) == "a{}b"
    assert sum(isinstance(event, Closed) for event in events) == 3


def test_citations_count_bytes() -> None:
    cited = {"type": "url_citation", "url": "https://h", "title": "T"}
    given = {**cited, "start_index": 3, "end_index": 6}
    stream = framed(
        created(),
        start(0, type="model_output"),
        piece(0, type="text", text="é ünd"),
        piece(0, type="text_annotation_delta", annotations=[given]),
        stop(0),
        completed(),
    )
    (found,) = [event for event in events_of(stream) if isinstance(event, Annotated)]
    assert found.annotation == UrlCitation(url="https://h", title="T", start=2, end=4)


def test_what_nobody_knows_is_reported_and_not_fatal() -> None:
    ledger = Ledger()
    stream = framed(
        created(colour="red"),
        {"event_type": "interaction.rumour"},
        start(0, type="dream", vividness=3),
        piece(0, type="dream", picture="x"),
        stop(0),
        start(1, type="model_output"),
        piece(1, type="text", text="a"),
        stop(1),
        completed(),
    )
    events = events_of(stream, ledger)
    assert events[-1] == Ended()
    assert {loss.path for loss in ledger} == {
        "interaction.colour",
        "interaction.rumour",
        "step.vividness",
        "delta.picture",
        "dream",
    }


def test_a_step_of_the_vendors_tool_is_what_its_pieces_make_it() -> None:
    searched = {"type": "google_search_call", "id": "s", "arguments": {"queries": ["q"]}}
    stream = framed(
        created(),
        start(0, type="google_search_call", id="s"),
        piece(0, type="google_search_call", arguments=searched["arguments"]),
        stop(0),
        completed(),
    )
    heads = [e.block for e in events_of(stream, same_protocol=True) if isinstance(e, Opened)]
    assert heads == [Foreign(origin=NAME, type="google_search_call", raw=searched)]


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ([created(), start(0, type="model_output"), piece(0, type="text", text="a")], None),
        ([created(), start(0, type="model_output"), stop(0)], None),
        ([], None),
    ],
)
def test_a_stream_without_its_end_is_a_fault(frames: list[JsonObject], kind: None) -> None:
    last = events_of(framed(*frames) + b"data: [DONE]\n\n")[-1]
    assert isinstance(last, Failed)
    assert last.fault.kind is FaultKind.UPSTREAM_FAILED


@pytest.mark.parametrize(
    "error",
    [
        b'{"error":{"code":"service_unavailable","message":"Too busy."}}',
        b'data: {"event_type":"error","code":"service_unavailable","message":"Too busy."}',
    ],
)
def test_an_error_in_another_form_is_an_error(error: bytes) -> None:
    last = events_of(framed(created()) + error + b"\n\n")[-1]
    assert isinstance(last, Failed)
    assert (last.fault.kind, last.fault.message) == (FaultKind.OVERLOADED, "Too busy.")


def test_what_a_filter_withholds_ends_the_answer() -> None:
    error = {"event_type": "error", "error": {"code": "safety", "message": "No."}}
    stream = framed(
        created(), start(0, type="model_output"), piece(0, type="text", text="a"), error
    )
    events = events_of(stream)
    assert Finished(Finish(FinishReason.CONTENT_FILTER, category="SAFETY")) in events
    assert events[-1] == Ended()


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("completed", FinishReason.STOP),
        ("incomplete", FinishReason.LENGTH),
        ("budget_exceeded", FinishReason.LENGTH),
        ("requires_continuation", FinishReason.LENGTH),
    ],
)
def test_how_answers_end(status: str, reason: FinishReason) -> None:
    events = events_of(framed(created(), completed(status)))
    assert Finished(Finish(reason)) in events


@pytest.mark.parametrize("status", ["failed", "cancelled", "in_progress", "queued", "astonished"])
def test_answers_that_are_none(status: str) -> None:
    last = events_of(framed(created(), completed(status)))[-1]
    assert isinstance(last, Failed)
    body = to_json({"id": "v1_x", "status": status, "steps": []})
    with pytest.raises(UpstreamError):
        TRANSLATE.read_response(body, Inbound(sealer=SEALER, ledger=Ledger()))


def test_a_difference_of_the_total_is_reported() -> None:
    ledger = Ledger()
    used = {**USED, "total_tokens": 99}
    events = events_of(framed(created(), completed(usage=used)), ledger)
    assert Metered(Usage(input=7, output=5)) in events
    assert [loss.path for loss in ledger] == ["usage.total_tokens"]


CASES: dict[str, tuple[int, FaultKind, str, Verdict | None]] = {
    "parameter_unknown": (400, FaultKind.INVALID_REQUEST, "parameter_unknown", None),
    "safety": (400, FaultKind.INVALID_REQUEST, "content_filter", None),
    "authentication": (401, FaultKind.UNAUTHENTICATED, "authentication", Verdict.DISABLE),
    "payment_required": (402, FaultKind.PAYMENT_REQUIRED, "insufficient_quota", Verdict.EXHAUST),
    "quota_exceeded": (429, FaultKind.PAYMENT_REQUIRED, "insufficient_quota", Verdict.EXHAUST),
    "rate_limit_exceeded": (429, FaultKind.RATE_LIMITED, "rate_limit_exceeded", Verdict.COOL),
    "model_not_found": (404, FaultKind.MODEL_NOT_FOUND, "model_not_found", None),
    "service_unavailable": (503, FaultKind.OVERLOADED, "service_unavailable", Verdict.COOL),
    "deadline_exceeded": (504, FaultKind.UPSTREAM_TIMEOUT, "deadline_exceeded", Verdict.COOL),
}
"""Codes of errors: status, what it is, the code for clients, and what becomes of the account."""


@pytest.mark.parametrize("code", CASES)
def test_errors_of_upstreams(code: str) -> None:
    """No account rests for a blocked request, and one without quota rests long."""
    status, kind, shown, verdict = CASES[code]
    body = to_json({"error": {"code": code, "message": "No."}})
    fault = TRANSLATE.read_error(status, {}, body)
    assert (fault.kind, fault.code, fault.message) == (kind, shown, "No.")
    rule = fitting(symptom_of_answer(status, {}, fault.report, 0.0), DEFAULT.rules)
    assert (None if rule is None else rule.verdict) is verdict


# --- to clients -----------------------------------------------------------------------------------

SHOWN = Thinking(display="summarized")
STOP: tuple[Event, ...] = (Finished(Finish(FinishReason.STOP)), Ended())


def written(
    *events: Event, streamed: bool = True, thinking: Thinking | None = SHOWN, **options: Any
) -> Any:
    """The data of the frames of a stream, or the whole answer."""
    reply = Reply(
        request=Request(model="m", turns=(), thinking=thinking),
        id="v1_y",
        created=1_700_000_000,
        model="m",
        ledger=Ledger(),
        sealer=SEALER,
        mint=lambda prefix: f"{prefix}1",
        options=Options(**options),
    )
    writer = TRANSLATE.answer_writer(reply, streamed)
    data = b"".join([writer.write(event) for event in (Started("x", "y"), *events)])
    if not streamed:
        assert data == b""
        return writer.answer()
    frames = Decoder().feed(data)
    assert [frame.event for frame in frames[:2]] == [
        b"interaction.created",
        b"interaction.status_update",
    ]
    assert (frames[-1].event, frames[-1].data) == (b"done", b"[DONE]")
    return [json.loads(frame.data) for frame in frames[:-1]]


def block(index: int, head: Block, *pieces: str) -> list[Event]:
    deltas = [Delta(index, text) for text in pieces]
    return [Opened(index, head), *deltas, Closed(index)]


def test_the_example_is_written() -> None:
    made = events_of(GOLDEN, same_protocol=True)
    events: list[Any] = [one for one in made if not isinstance(one, Started)]
    frames = written(*events)
    expected = [json.loads(frame.data) for frame in Decoder().feed(GOLDEN)[:-1]]
    assert len(frames) == 20
    assert [frame["event_type"] for frame in frames] == [one["event_type"] for one in expected]
    assert [frame.get("delta") for frame in frames] == [one.get("delta") for one in expected]
    assert [frame.get("step") for frame in frames] == [one.get("step") for one in expected]
    assert [frame["event_id"] for frame in frames] == [one["event_id"] for one in expected]
    used = frames[-1]["interaction"]["usage"]
    assert (used["total_output_tokens"], used["total_thought_tokens"]) == (31, 38)
    assert used["total_tokens"] == 139


def test_a_whole_answer_has_all_members() -> None:
    citation = Annotated(1, UrlCitation(url="https://h", start=0, end=2))
    answer = written(
        Opened(1, Text(text="")),
        Delta(1, "éa"),
        citation,
        Closed(1),
        *block(2, ToolCall(id="c", name="f"), '{"a":1}'),
        Finished(Finish(FinishReason.TOOL_CALLS)),
        Metered(Usage(input=7, output=5)),
        Ended(),
        streamed=False,
    )
    assert answer == {
        "id": "v1_y",
        "object": "interaction",
        "model": "m",
        "status": "requires_action",
        "created": "2023-11-14T22:13:20Z",
        "updated": "2023-11-14T22:13:20Z",
        "steps": [
            {
                "type": "model_output",
                "content": [
                    {
                        "type": "text",
                        "text": "éa",
                        "annotations": [
                            {
                                "type": "url_citation",
                                "url": "https://h",
                                "start_index": 0,
                                "end_index": 3,
                            }
                        ],
                    }
                ],
            },
            {"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1}},
        ],
        "usage": {
            "total_input_tokens": 7,
            "total_output_tokens": 5,
            "total_thought_tokens": 0,
            "total_cached_tokens": 0,
            "total_tokens": 12,
        },
    }


def test_another_vendors_state_is_an_envelope_in_base64() -> None:
    opaque = Opaque("anthropic_messages", "c2ln")
    head, piece, seal = Opened(1, Reasoning()), Delta(1, "T"), Sealed(1, opaque)
    sealed: list[Event] = [head, piece, seal, Closed(1)]
    thought, *_ = written(*sealed, *STOP, streamed=False)["steps"]
    assert thought["summary"] == [{"type": "text", "text": "T"}]
    envelope = base64.b64decode(thought["signature"], validate=True).decode()
    opened = SEALER.open(envelope)
    assert opened is not None
    assert opened.opaque == opaque


def test_no_signature_is_no_member() -> None:
    events: list[Event] = [*block(1, Reasoning(), "T"), *STOP]
    (thought,) = written(*events, streamed=False)["steps"]
    assert thought == {"type": "thought", "summary": [{"type": "text", "text": "T"}]}
    assert written(*events, streamed=False, thinking=None)["steps"] == []


def test_every_answer_of_a_filter_is_an_error() -> None:
    """A refusal is an error with its own code, before output an HTTP error."""
    withheld = Finished(Finish(FinishReason.CONTENT_FILTER, category="SAFETY"))
    with pytest.raises(UpstreamError) as caught:
        written(withheld)
    fault = caught.value.fault
    rendered = TRANSLATE.write_error(fault, "")
    assert (rendered.status, rendered.body["error"]["code"]) == (400, "safety")


def test_a_failure_is_an_error_event_and_nothing_after_it() -> None:
    fault = Fault(FaultKind.UPSTREAM_FAILED, "Broken.")
    frames = written(Opened(1, Text(text="")), Delta(1, "a"), Failed(fault))
    assert [frame["event_type"] for frame in frames[-2:]] == ["step.delta", "error"]
    assert frames[-1]["error"]["code"] == "api_error"


def test_nothing_after_a_failure_is_read() -> None:
    """Nor are its losses reported, wherever the stream is cut."""
    body = to_json({"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]})
    call = translate_request("openai_chat", NAME, body)
    stream = call.open_stream()
    begun = start(0, type="model_output"), piece(0, type="text", text="A")
    search = start(1, type="google_search_call", id="s", arguments={"queries": ["a"]}), stop(1)
    stream.feed(framed(*begun, created(), *search))
    assert stream.outcome.fault is not None
    assert call.losses == ()


def test_files_that_the_model_made_are_shown() -> None:
    image = Image(source=Base64("image/png", "iVBO"))
    content = {"type": "image", "mime_type": "image/png", "data": "iVBO"}
    (step,) = written(*block(1, image), *STOP, streamed=False)["steps"]
    assert step == {"type": "model_output", "content": [content]}
    frames = written(*block(1, image), *STOP)
    assert content in [frame.get("delta") for frame in frames]


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        (FaultKind.UNAUTHENTICATED, 401, "authentication"),
        (FaultKind.NOT_FOUND, 404, "not_found"),
        (FaultKind.RATE_LIMITED, 429, "rate_limit_exceeded"),
        (FaultKind.OVERLOADED, 503, "service_unavailable"),
        (FaultKind.UPSTREAM_TIMEOUT, 504, "deadline_exceeded"),
    ],
)
def test_errors_for_clients(kind: FaultKind, status: int, code: str) -> None:
    rendered = TRANSLATE.write_error(Fault(kind, "No."), "")
    assert (rendered.status, rendered.body) == (
        status,
        {"error": {"code": code, "message": "No."}},
    )


def test_a_character_in_halves_is_joined() -> None:
    """Arguments may be cut between the two escapes of a character."""
    halves = (rb"\ud83d", rb"\ude00")
    pieces = [
        b'data: {"event_type":"step.delta","index":0,"delta":'
        b'{"type":"arguments_delta","arguments":"%b"}}\n\n' % text
        for text in (rb"{\"a\":\"" + halves[0], halves[1] + rb"\"}")
    ]
    begun = framed(created(), start(0, type="function_call", id="c1", name="f", arguments={}))
    stream = begun + b"".join(pieces) + framed(stop(0), completed("requires_action"))
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    translator = translate_request("openai_chat", NAME, to_json(body)).open_stream()
    shown = translator.feed(stream) + translator.finish()
    assert translator.outcome.fault is None
    assert "\N{GRINNING FACE}".encode() in shown
