"""An upstream's stream and whole answers, as canonical events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.blocks import (
    ForeignCitation,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
)
from dragoman.canonical.errors import FaultKind, UpstreamError
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Finished,
    Metered,
    Opened,
    Sealed,
    Started,
)
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.responses import Finish, FinishReason
from dragoman.canonical.usage import Usage
from dragoman.protocols.settings import make_options
from tests.folded import fold
from tests.properties.strategies import arguments, ids, names, texts
from tests.protocols.anthropic_messages.helpers import (
    KNOB,
    NAME,
    inbound,
    message,
    read_events,
    read_stream,
    read_whole,
    sse,
    stream_of,
)
from tests.protocols.anthropic_messages.upstream import (
    START,
    STOP,
    block_delta,
    block_start,
    block_stop,
    end,
    failure,
)

GOLDEN = (Path(__file__).parents[2] / "golden" / "messages.sse").read_bytes()


def losses(ledger: Ledger) -> set[tuple[str, LossKind]]:
    return {(loss.path, loss.kind) for loss in ledger}


def test_the_golden_stream() -> None:
    """req: 118"""
    assert read_stream(GOLDEN, inbound(account="org")) == [
        Started("msg_1", "m", usage=Usage(input=9, output=1, cached=4, cache_write=0)),
        Metered(Usage(input=9, output=1, cached=4, cache_write=0)),
        Opened(0, Reasoning()),
        Delta(0, "Let me see"),
        Sealed(0, Opaque(NAME, "SIG", account="org")),
        Closed(0),
        Opened(1, Text(text="")),
        Delta(1, "Hi"),
        Closed(1),
        Opened(2, ToolCall(id="toolu_1", name="f")),
        Delta(2, '{"a":1}'),
        Closed(2),
        Metered(Usage(input=9, output=21, cached=4, cache_write=0)),
        Finished(Finish(FinishReason.TOOL_CALLS)),
        Ended(),
    ]


def test_text_and_thinking_inside_their_start_are_kept() -> None:
    events = read_events(
        START,
        block_start(0, type="thinking", thinking="t", signature="S"),
        block_stop(0),
        block_start(1, type="text", text="a"),
        block_delta(1, "text_delta", text="b"),
        block_delta(1, "text_delta", text=""),
        block_stop(1),
        end(),
        STOP,
    )
    thought, said = fold(events).blocks
    assert thought == Reasoning(parts=("t",), opaque=Opaque(NAME, "S"))
    assert said == Text(text="ab")


@pytest.mark.parametrize(
    ("deltas", "expected"), [([], '{"a":1}'), (["", '{"a"', ":2}"], '{"a":2}'), ([""], '{"a":1}')]
)
def test_tool_input_inside_its_start(deltas: list[str], expected: str) -> None:
    """It counts only if no delta comes."""
    events = read_events(
        START,
        block_start(0, type="tool_use", id="t", name="f", input={"a": 1}),
        *[block_delta(0, "input_json_delta", partial_json=delta) for delta in deltas],
        block_stop(0),
        end("tool_use"),
        STOP,
    )
    assert fold(events).blocks == (ToolCall(id="t", name="f", arguments=expected),)


def test_redacted_thinking() -> None:
    events = read_events(
        START, block_start(0, type="redacted_thinking", data="D"), block_stop(0), end(), STOP
    )
    assert fold(events).blocks == (Reasoning(redacted=True, opaque=Opaque(NAME, "D")),)


def test_omitted_thinking_keeps_its_signature() -> None:
    events = read_events(
        START,
        block_start(0, type="thinking", thinking="", signature=""),
        block_delta(0, "thinking_delta", thinking="", estimated_tokens=50),
        block_delta(0, "signature_delta", signature="S"),
        block_stop(0),
        end(),
        STOP,
    )
    assert fold(events).blocks == (Reasoning(opaque=Opaque(NAME, "S")),)


@pytest.mark.parametrize(
    ("citation", "expected"),
    [
        (
            {
                "type": "web_search_result_location",
                "url": "https://a.example",
                "title": None,
                "cited_text": "c",
                "encrypted_index": "E",
            },
            UrlCitation(url="https://a.example", cited_text="c"),
        ),
        (
            {"type": "search_result_location", "source": "http://a.example", "title": "t"},
            UrlCitation(url="http://a.example", title="t"),
        ),
        (
            {"type": "search_result_location", "source": "my notes"},
            ForeignCitation(NAME, {"type": "search_result_location", "source": "my notes"}),
        ),
        (
            {"type": "page_location", "cited_text": "c"},
            ForeignCitation(NAME, {"type": "page_location", "cited_text": "c"}),
        ),
    ],
)
def test_citations(citation: dict[str, Any], expected: Any) -> None:
    ledger = Ledger()
    streamed = read_events(
        START,
        block_start(0, type="text", text=""),
        block_delta(0, "text_delta", text="x"),
        block_delta(0, "citations_delta", citation=citation),
        block_stop(0),
        end(),
        STOP,
        given=inbound(ledger),
    )
    indexed = "encrypted_index" in citation
    path = "citations.encrypted_index"
    assert losses(ledger) == ({(path, KNOB)} if indexed else set())
    whole = read_whole(message({"type": "text", "text": "x", "citations": [citation]}))
    assert Annotated(0, expected) in streamed
    assert fold(streamed).blocks == fold(whole).blocks


def test_hosted_blocks_are_left_out_and_reported() -> None:
    ledger = Ledger()
    events = read_events(
        START,
        block_start(0, type="server_tool_use", id="s", name="web_search", input={}),
        block_delta(0, "input_json_delta", partial_json='{"query":"x"}'),
        block_stop(0),
        block_start(1, type="web_search_tool_result", tool_use_id="s", content=[]),
        block_stop(1),
        block_start(2, type="text", text=""),
        block_delta(2, "text_delta", text="x"),
        block_stop(2),
        end(),
        STOP,
        given=inbound(ledger),
    )
    assert fold(events).blocks == (Text(text="x"),)
    assert losses(ledger) == {("content[0]", KNOB), ("content[1]", KNOB)}


def test_what_has_no_home_is_reported() -> None:
    ledger = Ledger()
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    read_events(
        {**START, "message": {**START["message"], "container": {"id": "c"}, "diagnostics": None}},
        block_start(0, **block, caller={"type": "code_execution_20260120", "tool_id": "s"}),
        block_stop(0),
        block_start(1, **block, caller={"type": "direct"}),
        block_delta(1, "input_json_delta", partial_json="", novelty=1),
        block_delta(1, "mystery_delta", x=1),
        block_stop(1),
        {**end("refusal", stop_details={"recommended_model": "x"}), "context_management": {"a": 1}},
        {"type": "unheard_of"},
        STOP,
        given=inbound(ledger),
    )
    assert losses(ledger) == {
        ("container", KNOB),
        ("content[0].caller", KNOB),
        ("content[1].novelty", KNOB),
        ("content[1].mystery_delta", KNOB),
        ("stop_details.recommended_model", KNOB),
        ("context_management", KNOB),
        ("unheard_of", KNOB),
    }


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ({"stop_reason": "end_turn"}, Finish(FinishReason.STOP)),
        ({"stop_reason": "max_tokens"}, Finish(FinishReason.LENGTH)),
        (
            {"stop_reason": "stop_sequence", "stop_sequence": "END"},
            Finish(FinishReason.STOP_SEQUENCE, "END"),
        ),
        ({"stop_reason": "pause_turn"}, Finish(FinishReason.PAUSE)),
        ({"stop_reason": "model_context_window_exceeded"}, Finish(FinishReason.CONTEXT_WINDOW)),
        (
            {"stop_reason": "refusal", "stop_details": {"category": "bio"}},
            Finish(FinishReason.CONTENT_FILTER, category="bio"),
        ),
        ({"stop_reason": "tool_use"}, Finish(FinishReason.STOP)),
        ({"stop_reason": "something_new"}, Finish(FinishReason.STOP)),
        ({"stop_reason": None}, Finish(FinishReason.STOP)),
    ],
)
def test_stop_reasons(stop: dict[str, Any], finish: Finish) -> None:
    """Also in a whole answer."""
    body = message({"type": "text", "text": "x"}, **stop)
    assert fold(read_whole(body)).finish == finish
    assert fold(read_events(*stream_of(body))).finish == finish


@pytest.mark.parametrize("word", ["end_turn", "tool_use"])
def test_calls_decide_whether_tools_are_called(word: str) -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    body = message(call, stop_reason=word)
    assert fold(read_whole(body)).finish.reason is FinishReason.TOOL_CALLS


def test_refusals_give_their_explanation_as_a_block() -> None:
    details = {"type": "refusal", "category": None, "explanation": "I can't."}
    body = message({"type": "text", "text": "x"}, stop_reason="refusal", stop_details=details)
    for events in (read_whole(body), read_events(*stream_of(body))):
        answer = fold(events)
        assert answer.blocks == (Text(text="x"), Refusal(text="I can't."))
        assert answer.finish.reason is FinishReason.CONTENT_FILTER


def test_a_compacted_conversation_is_no_answer() -> None:
    block = {"type": "compaction", "content": None}
    events = read_events(START, block_start(0, **block), block_stop(0), end("compaction"), STOP)
    assert failure(events) is FaultKind.UPSTREAM_FAILED
    with pytest.raises(UpstreamError):
        read_whole(message(block, stop_reason="compaction"))


def test_usage_replaces_and_is_never_added() -> None:
    start = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 30,
        "output_tokens": 1,
        "service_tier": "priority",
    }
    later = {
        "input_tokens": None,
        "output_tokens": 7,
        "cache_read_input_tokens": 0,
        "output_tokens_details": {"thinking_tokens": 4},
    }
    message_start = {**START, "message": {**START["message"], "usage": start}}
    events = read_events(message_start, end(usage={"output_tokens": 5}), end(usage=later), STOP)
    answer = fold(events)
    assert answer.usage == Usage(input=30, output=7, cached=0, cache_write=20, reasoning=4)
    assert answer.service_tier == "priority"


def test_unknown_usage_is_not_zero() -> None:
    events = read_events(START, end(), STOP)
    assert not any(isinstance(event, Metered) for event in events)


def test_the_fast_speed_can_be_a_tier() -> None:
    usage = {"input_tokens": 1, "output_tokens": 1, "speed": "fast", "service_tier": "standard"}
    body = message(usage=usage)
    ledger = Ledger()
    assert fold(read_whole(body, inbound(ledger))).service_tier == "default"
    assert losses(ledger) == {("usage.speed", KNOB)}
    fast = inbound(options=make_options(map_fast=True))
    assert fold(read_whole(body, fast)).service_tier == "priority"
    assert len(fast.ledger) == 0


def test_tiers_without_a_counterpart_are_reported() -> None:
    ledger = Ledger()
    usage = {"input_tokens": 1, "output_tokens": 1, "service_tier": "batch"}
    assert fold(read_whole(message(usage=usage), inbound(ledger))).service_tier is None
    assert losses(ledger) == {("usage.service_tier", KNOB)}


blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, texts),
    st.builds(
        lambda text, url: {
            "type": "text",
            "text": text,
            "citations": [{"type": "web_search_result_location", "url": url, "title": "t"}],
        },
        texts,
        st.sampled_from(("https://a.example", "elsewhere")),
    ),
    st.builds(
        lambda text, signature: {"type": "thinking", "thinking": text, "signature": signature},
        st.one_of(st.just(""), texts),
        names,
    ),
    st.builds(lambda data: {"type": "redacted_thinking", "data": data}, names),
    st.builds(
        lambda identifier, name, value: {
            "type": "tool_use",
            "id": identifier,
            "name": name,
            "input": value,
        },
        ids,
        names,
        arguments,
    ),
    st.just({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
)


counts = st.integers(0, 10_000)


answers = st.builds(
    lambda content, reason, usage: message(*content, stop_reason=reason, usage=usage),
    st.lists(blocks, max_size=5),
    st.sampled_from(("end_turn", "max_tokens", "tool_use", "refusal", "pause_turn")),
    st.fixed_dictionaries(
        {"input_tokens": counts, "output_tokens": counts},
        optional={"cache_read_input_tokens": counts, "cache_creation_input_tokens": counts},
    ),
)


@given(body=answers)
def test_a_whole_answer_is_the_fold_of_its_stream(body: dict[str, Any]) -> None:
    assert fold(read_whole(body)) == fold(read_events(*stream_of(body)))


@given(body=answers, chunk=st.integers(1, 60))
def test_any_cutting_of_the_bytes_gives_the_same_events(body: dict[str, Any], chunk: int) -> None:
    """Also inside a character. req: 126"""
    data = b"".join(sse(event) for event in stream_of(body))
    assert read_stream(data, chunk=chunk) == read_stream(data)
