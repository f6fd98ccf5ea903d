"""A client's stream and whole answer, from canonical events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import TypeAdapter

from dragoman.canonical.blocks import (
    Block,
    Foreign,
    ForeignCitation,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
)
from dragoman.canonical.errors import Fault, FaultKind, IllegalEvent, UpstreamError
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
    PartBreak,
    Sealed,
    Started,
)
from dragoman.canonical.fold import fold
from dragoman.canonical.losses import Ledger
from dragoman.canonical.options import Options
from dragoman.canonical.requests import JsonObject, Request, Thinking
from dragoman.canonical.responses import Finish, FinishReason, Response
from dragoman.canonical.usage import Usage
from dragoman.protocols.anthropic_messages import CODEC
from tests.properties import strategies
from tests.protocols.anthropic_messages.helpers import (
    CONTENT,
    KNOB,
    QUIET,
    REPAIRED,
    SEALER,
    THINKS,
    WANTS_JSON,
    read_stream,
    read_whole,
    reply,
    wire_events,
    write_stream,
    write_whole,
    written_events,
)

GOLDEN = (Path(__file__).parents[2] / "golden" / "messages.sse").read_bytes()
NAME = "anthropic_messages"
OWN = Opaque(NAME, "SIG")
THEIRS = Opaque("openai_responses", "ENC", "rs_1")
_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def block(index: int, head: Block, *events: Event) -> list[Event]:
    return [Opened(index, head), *events, Closed(index)]


def answer(*events: Event, finish: FinishReason = FinishReason.STOP) -> list[Event]:
    return [Started("up", "x"), *events, Finished(Finish(finish)), Ended()]


def text(index: int, said: str) -> list[Event]:
    return block(index, Text(text=""), Delta(index, said))


def thought(index: int, *parts: str, opaque: Opaque | None = None) -> list[Event]:
    events: list[Event] = []
    for number, part in enumerate(parts):
        events += [PartBreak(index)] if number else []
        events.append(Delta(index, part))
    if opaque is not None:
        events.append(Sealed(index, opaque))
    return block(index, Reasoning(), *events)


def call(index: int, arguments: str = "{}", **fields: Any) -> list[Event]:
    head = ToolCall(id=f"call_{index}", name="f", **fields)
    return block(index, head, Delta(index, arguments))


def content_of(events: list[Event], request: Request = THINKS, **options: Any) -> Any:
    """The content a client puts together, which must be the same in a whole answer."""
    given = reply(request, **options)
    streamed = accumulated(write_stream(events, given))
    assert write_whole(fold(events), reply(request, **options)) == streamed
    return streamed["content"]


def accumulated(data: bytes) -> dict[str, Any]:
    """The message the official SDK builds from a stream."""
    snapshot: Any = None
    inputs: dict[int, bytes] = {}
    for event in wire_events(data):
        if event["type"] == "ping":
            continue
        parsed = _EVENT.validate_python(event)
        snapshot = accumulate_event(event=parsed, current_snapshot=snapshot, json_bufs=inputs)
    Message.model_validate(snapshot.model_dump())
    found: dict[str, Any] = snapshot.model_dump(mode="json", exclude_unset=True)
    if found["stop_details"] is None:
        del found["stop_details"]
    for member in found["content"]:
        member.pop("parsed_output", None)
    return found


def names_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_the_golden_stream() -> None:
    """Byte for byte. req: 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 123, 124"""
    assert write_stream(read_stream(GOLDEN)) == GOLDEN.rstrip(b"\n") + b"\n\n"


def test_the_start_holds_a_whole_message() -> None:
    """Full usage with zeros, then a ping. req: 58, 59, 83, 84"""
    start, ping = written_events([Started("up", "upstream-name")])
    assert start["message"] == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
        },
    }
    assert ping == {"type": "ping"}
    assert CODEC.keepalive == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_usage_known_at_the_start_is_told_there() -> None:
    usage = Usage(input=10, output=1, cached=4)
    start, _ = written_events([Started("up", "x", service_tier="default", usage=usage)])
    told = start["message"]["usage"]
    assert (told["input_tokens"], told["cache_read_input_tokens"]) == (6, 4)
    assert told["service_tier"] == "standard"


def test_interleaved_kinds_keep_their_blocks() -> None:
    """Thinking, text, thinking, tool: four blocks, numbered without gaps. req: 55, 85, 89"""
    events = answer(
        *thought(0, "t", opaque=OWN), *text(3, "a"), *thought(4, "u", opaque=OWN), *call(9)
    )
    wire = written_events(events)
    starts = [event for event in wire if event["type"] == "content_block_start"]
    assert [event["index"] for event in starts] == [0, 1, 2, 3]
    assert [member["type"] for member in content_of(events)] == [
        "thinking",
        "text",
        "thinking",
        "tool_use",
    ]
    open_block = None
    for event in wire:
        if event["type"] == "content_block_start":
            assert open_block is None
            open_block = event["index"]
        elif event["type"] == "content_block_delta":
            assert event["index"] == open_block
        elif event["type"] == "content_block_stop":
            assert event["index"] == open_block
            open_block = None
    assert open_block is None


def test_text_is_never_in_the_start() -> None:
    """req: 86"""
    wire = written_events(answer(*text(0, "Hello")))
    assert wire[2]["content_block"] == {"type": "text", "text": ""}
    assert wire[3]["delta"] == {"type": "text_delta", "text": "Hello"}


def test_empty_text_is_no_block() -> None:
    assert content_of(answer(*text(0, ""), *block(1, Text(text="")))) == []


def test_tool_calls() -> None:
    """Input comes in deltas after an empty object. req: 54, 70, 88"""
    events = answer(*call(0, '{"a":1}'), *call(1, "{}"), finish=FinishReason.TOOL_CALLS)
    wire = written_events(events)
    head = {"type": "tool_use", "id": "call_0", "name": "f", "input": {}}
    assert wire[2]["content_block"] == head
    assert wire[3]["delta"] == {"type": "input_json_delta", "partial_json": '{"a":1}'}
    assert content_of(events) == [{**head, "input": {"a": 1}}, {**head, "id": "call_1"}]
    assert write_whole(fold(events))["stop_reason"] == "tool_use"


def test_ids_the_client_would_refuse_are_replaced() -> None:
    events = answer(*block(0, ToolCall(id="functions.f:0", name="f"), Delta(0, "{}")))
    (member,) = content_of(events)
    assert member["id"].startswith("functions_f_0_")


def test_calls_with_free_text_become_one_argument() -> None:
    (member,) = content_of(answer(*call(0, 'free "text"', custom=True)))
    assert member["input"] == {"input": 'free "text"'}


@pytest.mark.parametrize(
    ("opaque", "parts", "expected"),
    [
        (OWN, ("t",), "SIG"),
        (OWN, (), "SIG"),
        (THEIRS, ("t", "u"), None),
        (THEIRS, (), None),
        (None, ("t",), None),
    ],
)
def test_thinking_is_signed_once(
    opaque: Opaque | None, parts: tuple[str, ...], expected: str | None
) -> None:
    """With the service's own signature, or an envelope that gives the state back. req: 56, 87"""
    events = answer(*thought(0, *parts, opaque=opaque))
    wire = written_events(events)
    deltas = [event["delta"] for event in wire if event["type"] == "content_block_delta"]
    assert [delta["type"] for delta in deltas].count("signature_delta") == 1
    assert deltas[-1]["type"] == "signature_delta"
    (member,) = content_of(events)
    assert member["thinking"] == "\n\n".join(parts)
    if expected is not None:
        assert member["signature"] == expected
        return
    opened = SEALER.open(member["signature"])
    assert opened is not None
    if opaque is not None:
        assert (opened.opaque, opened.parts) == (opaque, parts)


def test_thinking_without_text_or_state_is_no_block() -> None:
    assert content_of(answer(*thought(0), *text(1, "a"))) == [{"type": "text", "text": "a"}]


def test_redacted_thinking() -> None:
    head = Reasoning(redacted=True)
    assert content_of(answer(*block(0, head, Sealed(0, Opaque(NAME, "D"))))) == [
        {"type": "redacted_thinking", "data": "D"}
    ]


def request_thinking(**fields: Any) -> Request:
    return Request(model="m", turns=(), thinking=Thinking(**fields))


@pytest.mark.parametrize(
    ("request_", "option", "shown"),
    [
        (QUIET, "auto", False),
        (QUIET, "always", True),
        (THINKS, "never", False),
        (request_thinking(mode="enabled", budget=2000), "auto", True),
        (request_thinking(mode="disabled"), "auto", False),
        (request_thinking(mode="between_tools"), "auto", False),
        (request_thinking(effort="high"), "auto", False),
    ],
)
def test_thinking_is_shown_to_those_who_enabled_it(
    request_: Request, option: Any, shown: bool
) -> None:
    """Hidden blocks take no index. req: 91"""
    events = answer(*thought(0, "t", opaque=OWN), *text(1, "a"))
    content = content_of(events, request_, options=Options(show_reasoning=option))
    assert [member["type"] for member in content] == (["thinking"] * shown) + ["text"]


def test_omitted_thinking_is_only_its_signature() -> None:
    omitted = request_thinking(mode="adaptive", display="omitted")
    events = answer(*thought(0, "secret", "words", opaque=THEIRS))
    (member,) = content_of(events, omitted)
    assert member["thinking"] == ""
    opened = SEALER.open(member["signature"])
    assert opened is not None
    assert opened.parts == ("secret", "words")


def test_refusals() -> None:
    """Text, and once more as the explanation; no category is invented. req: 60, 97"""
    events = answer(*block(0, Refusal(text=""), Delta(0, "I "), Delta(0, "can't.")))
    assert content_of(events) == [{"type": "text", "text": "I can't."}]
    whole = write_whole(fold(events))
    assert whole["stop_reason"] == "refusal"
    assert whole["stop_details"] == {
        "type": "refusal",
        "category": None,
        "explanation": "I can't.",
    }


@pytest.mark.parametrize(
    ("finish", "called", "expected"),
    [
        (Finish(FinishReason.STOP), False, ("end_turn", None)),
        (Finish(FinishReason.STOP), True, ("tool_use", None)),
        (Finish(FinishReason.TOOL_CALLS), True, ("tool_use", None)),
        (Finish(FinishReason.TOOL_CALLS), False, ("end_turn", None)),
        (Finish(FinishReason.LENGTH), True, ("max_tokens", None)),
        (Finish(FinishReason.STOP_SEQUENCE, "END"), False, ("stop_sequence", "END")),
        (Finish(FinishReason.CONTEXT_WINDOW), False, ("model_context_window_exceeded", None)),
        (Finish(FinishReason.CONTENT_FILTER), False, ("refusal", None)),
        (Finish(FinishReason.PAUSE), False, ("pause_turn", None)),
    ],
)
def test_stop_reasons(finish: Finish, called: bool, expected: Any) -> None:
    """They are told from what was written. req: 54, 59"""
    events = [Started("u", "x"), *(call(0) if called else text(0, "a")), Finished(finish), Ended()]
    found = accumulated(write_stream(events))
    assert (found["stop_reason"], found["stop_sequence"]) == expected
    assert write_whole(fold(events), reply()) == found


@pytest.mark.parametrize(("category", "shown"), [("bio", "bio"), ("unheard_of", None)])
def test_categories_of_refusals(category: str, shown: str | None) -> None:
    finish = Finish(FinishReason.CONTENT_FILTER, category=category)
    wire = written_events([Started("u", "x"), Finished(finish), Ended()])
    assert wire[-2]["delta"]["stop_details"]["category"] == shown


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, (0, 0, 0, 0)),
        (Usage(input=10, output=5), (10, 0, 0, 5)),
        (Usage(input=10, output=5, cached=4, cache_write=1), (5, 1, 4, 5)),
        (Usage(input=3, output=5, cached=4), (0, 0, 4, 5)),
    ],
)
def test_usage_leaves_out_what_was_cached(usage: Usage | None, expected: Any) -> None:
    """All four counts are always there. req: 58, 90"""
    events: list[Event] = [Started("u", "x"), *text(0, "a"), Finished(Finish(FinishReason.STOP))]
    events += [] if usage is None else [Metered(usage)]
    wire = written_events([*events, Ended()])
    assert names_of(wire)[-2:] == ["message_delta", "message_stop"]
    counts = wire[-2]["usage"]
    names = (
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
    )
    assert tuple(counts[name] for name in names) == expected
    whole = write_whole(fold([*events, Ended()]))
    assert whole["usage"] == counts


def test_thinking_tokens() -> None:
    events: list[Event] = [Started("u", "x"), Metered(Usage(input=1, output=9, reasoning=4))]
    wire = written_events([*events, Finished(Finish(FinishReason.STOP)), Ended()])
    assert wire[-2]["usage"]["output_tokens_details"] == {"thinking_tokens": 4}


def test_an_estimate_is_not_overwritten_by_zeros() -> None:
    estimate = Usage(input=50)
    start = Started("u", "x", usage=estimate)
    wire = written_events([start, Finished(Finish(FinishReason.STOP)), Ended()])
    assert wire[-2]["usage"]["input_tokens"] == 50


def test_nothing_of_the_end_before_the_end() -> None:
    """The stop reason waits for the usage that may still come. req: 92, 93"""
    writer = CODEC.stream_writer(reply())
    written = [writer.write(event) for event in [Started("u", "x"), *text(0, "a")]]
    assert writer.write(Finished(Finish(FinishReason.STOP))) == b""
    assert writer.write(Metered(Usage(input=1, output=2))) == b""
    assert names_of(wire_events(writer.write(Ended()))) == ["message_delta", "message_stop"]
    assert b"message_delta" not in b"".join(written)


@pytest.mark.parametrize("so_far", [0, 1, 3, 4])
def test_failures_end_the_stream_with_an_error_and_nothing_else(so_far: int) -> None:
    events = [Started("u", "x"), *text(0, "a")][:so_far]
    fault = Fault(FaultKind.OVERLOADED, "busy", details={"error_code": "x"})
    wire = written_events([*events, Failed(fault)])
    assert wire[-1] == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "busy", "details": {"error_code": "x"}},
    }
    assert not {"message_delta", "message_stop"} & set(names_of(wire))


def test_illegal_orders_raise() -> None:
    writer = CODEC.stream_writer(reply())
    with pytest.raises(IllegalEvent):
        writer.write(Delta(0, "x"))


def test_citations() -> None:
    """Those of another vendor lack the index this protocol wants."""
    own = {"type": "page_location", "cited_text": "c"}
    ledger = Ledger()
    events = answer(
        *block(
            0,
            Text(text=""),
            Delta(0, "a"),
            Annotated(0, ForeignCitation(NAME, own)),
            Annotated(0, UrlCitation(url="https://a.example")),
        )
    )
    wire = written_events(events, reply(ledger=ledger))
    deltas = [event["delta"] for event in wire if event["type"] == "content_block_delta"]
    assert deltas[1:] == [{"type": "citations_delta", "citation": own}]
    assert [(loss.path, loss.kind) for loss in ledger] == [("annotations", KNOB)]
    assert write_whole(fold(events))["content"][0]["citations"] == [own]


def test_what_else_a_client_is_not_given_is_reported() -> None:
    """In a stream and in a whole answer."""
    head = ToolCall(id="a", name="f", namespace="ns")
    events: list[Event] = [
        Started("u", "x"),
        *block(0, Text(text=""), Delta(0, "a", ({"token": "a"},))),
        *block(1, head, Delta(1, "{}")),
        Finished(Finish(FinishReason.STOP)),
        Metered(Usage(input=1, output=1), "flex"),
        Ended(),
    ]
    expected = {("logprobs", KNOB), ("namespace", KNOB), ("service_tier", KNOB)}
    streamed, direct = Ledger(), Ledger()
    write_stream(events, reply(ledger=streamed))
    write_whole(fold(events), reply(ledger=direct))
    for ledger in (streamed, direct):
        assert {(loss.path, loss.kind) for loss in ledger} == expected


def test_blocks_without_a_form_are_reported() -> None:
    ledger = Ledger()
    foreign = Foreign(origin="openai_responses", type="image_generation_call", raw={})
    events = answer(*block(0, foreign), *text(1, "a"))
    wire = written_events(events, reply(ledger=ledger))
    assert [event["index"] for event in wire if event["type"] == "content_block_start"] == [0]
    assert [(loss.path, loss.kind) for loss in ledger] == [("content", CONTENT)]


@pytest.mark.parametrize("request_", [WANTS_JSON, replace(WANTS_JSON, output_format=JsonObject())])
def test_a_json_answer_is_one_text_block(request_: Request) -> None:
    """The SDKs parse every text block by itself."""
    events = answer(
        *block(0, Text(text="", phase="commentary"), Delta(0, "Here it is:")),
        *text(1, '{"a":'),
        *thought(2, "hidden"),
        *text(3, ""),
        *text(4, "1}"),
    )
    assert content_of(events, request_) == [{"type": "text", "text": '{"a":1}'}]


def test_a_json_answer_beside_shown_thinking_and_calls() -> None:
    both = replace(WANTS_JSON, thinking=Thinking(mode="adaptive"))
    events = answer(*text(0, "{}"), *thought(1, "t", opaque=OWN), *call(2))
    content = content_of(events, both)
    assert [member["type"] for member in content] == ["text", "thinking", "tool_use"]


def test_a_refused_json_answer_has_no_text_to_parse() -> None:
    events = answer(*block(0, Refusal(text=""), Delta(0, "No.")))
    assert content_of(events, WANTS_JSON) == []
    assert write_whole(fold(events), reply(WANTS_JSON))["stop_details"]["explanation"] == "No."


def whole(*blocks: Block, reason: FinishReason = FinishReason.STOP) -> Response:
    return Response(id="u", model="x", created=1, blocks=blocks, finish=Finish(reason))


def test_invalid_arguments_are_an_error() -> None:
    """They never become an empty object. req: 57"""
    broken = ToolCall(id="a", name="f", arguments='{"a":')
    with pytest.raises(UpstreamError) as caught:
        write_whole(whole(broken))
    assert caught.value.fault.kind is FaultKind.UPSTREAM_FAILED


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a":1,"b":"unfini', {"a": 1}),
        ('{"a":[1,{"b":2},3', {"a": [1, {"b": 2}]}),
        ('{"a":"x","b":', {"a": "x"}),
        ('{"a":"\\"},{","b":tr', {"a": '"},{'}),
        ('{"a', {}),
        ("nonsense", {}),
        ('{"a":1}}', {"a": 1}),
        ("[1,2", {}),
    ],
)
def test_arguments_the_limit_cut_are_read_as_far_as_they_go(arguments: str, expected: Any) -> None:
    ledger = Ledger()
    cut = whole(ToolCall(id="a", name="f", arguments=arguments), reason=FinishReason.LENGTH)
    (member,) = write_whole(cut, reply(ledger=ledger))["content"]
    assert member["input"] == expected
    assert [loss.kind for loss in ledger] == [REPAIRED]


def test_nothing_said_is_an_empty_answer() -> None:
    """A model may answer nothing at all. req: 62"""
    found = write_whole(whole())
    assert (found["content"], found["stop_reason"]) == ([], "end_turn")


def test_separators_that_break_lines_are_escaped() -> None:
    """req: 123, 124"""
    tricky = "a\u2028b\u2029c\u0085d\n"
    data = write_stream(answer(*text(0, tricky), *thought(1, tricky, opaque=OWN)))
    assert all(raw not in data for raw in ("\u2028".encode(), "\u2029".encode(), "\u0085".encode()))
    assert b"\nid:" not in data
    assert b"\nretry:" not in data
    assert b"[DONE]" not in data
    assert fold(read_stream(data)).blocks[0] == Text(text=tricky)


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    response = draw(strategies.answers(refusals=True))
    return draw(strategies.event_streams(response))


@given(events=streams())
def test_streams_and_whole_answers_say_the_same(events: list[Event]) -> None:
    content_of(events)


@given(events=streams())
def test_what_is_written_reads_back(events: list[Event]) -> None:
    """Through a stream and through a whole answer."""
    response = fold(events)
    streamed = fold(read_stream(write_stream(events)))
    direct = fold(read_whole(write_whole(response)))
    assert streamed == direct
    calls = [member for member in response.blocks if isinstance(member, ToolCall)]
    assert [m for m in streamed.blocks if isinstance(m, ToolCall)] == calls
    if response.usage is not None:
        assert streamed.usage is not None
        assert (streamed.usage.input, streamed.usage.output) == (
            response.usage.input,
            response.usage.output,
        )


@given(events=streams(), request_=st.sampled_from((THINKS, QUIET, WANTS_JSON)))
def test_writers_keep_to_the_grammar(events: list[Event], request_: Request) -> None:
    """Every start has its stop, indexes are dense, one end. req: 82, 85"""
    wire = written_events(events, reply(request_))
    kinds = names_of(wire)
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("message_start") == kinds.count("message_delta") == 1
    starts = [event["index"] for event in wire if event["type"] == "content_block_start"]
    stops = [event["index"] for event in wire if event["type"] == "content_block_stop"]
    assert starts == stops == list(range(len(starts)))
    assert wire[-2]["delta"].keys() >= {"stop_reason", "stop_sequence"}


def test_each_event_is_one_frame_of_its_own() -> None:
    """req: 122"""
    writer = CODEC.stream_writer(reply())
    for event in answer(*text(0, "a"), *call(1)):
        data = writer.write(event)
        assert not data or data.endswith(b"\n\n")
        for frame in wire_events(data):
            assert msgspec.json.encode(frame)
