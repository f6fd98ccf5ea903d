"""The blocks of a client's stream and whole answer, from canonical events."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Foreign,
    ForeignCitation,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
)
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Finished,
    Metered,
    Opened,
    Sealed,
    Started,
)
from dragoman.canonical.losses import Ledger
from dragoman.canonical.requests import JsonObject, Request, Thinking
from dragoman.canonical.responses import Finish, FinishReason
from dragoman.canonical.usage import Usage
from dragoman.protocols.settings import make_options
from tests.folded import fold
from tests.protocols.anthropic_messages.answers import (
    OWN,
    answer,
    block,
    call,
    content_of,
    text,
    thought,
)
from tests.protocols.anthropic_messages.helpers import (
    CONTENT,
    KNOB,
    NAME,
    QUIET,
    REPAIRED,
    SEALER,
    THINKS,
    WANTS_JSON,
    reply,
    whole_of,
    write_stream,
    write_whole,
    written_events,
)

THEIRS = Opaque("openai_responses", "ENC", "rs_1")


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
    content = content_of(events, request_, options=make_options(show_reasoning=option))
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
    assert whole["stop_details"] == {"type": "refusal", "category": None, "explanation": "I can't."}


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
    """A stream has shown them as they came; the loss is told both ways."""
    head = ToolCall(id="a", name="f")
    cut: list[Event] = [Opened(0, head), Delta(0, arguments), Closed(0, cut=True)]
    events = answer(*cut, finish=FinishReason.LENGTH)
    ledgers = Ledger(), Ledger()
    (member,) = whole_of(events, reply(ledger=ledgers[0]))["content"]
    assert member["input"] == expected
    wire = written_events(events, reply(ledger=ledgers[1]))
    assert wire[3]["delta"] == {"type": "input_json_delta", "partial_json": arguments}
    for ledger in ledgers:
        assert [loss.kind for loss in ledger] == [REPAIRED]
