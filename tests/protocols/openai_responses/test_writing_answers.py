"""Answers become what Responses clients accept, the same whether whole or streamed."""

from __future__ import annotations

import pytest
from openai.types.responses import Response as SdkResponse

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
from dragoman.canonical.events import (
    Closed,
    Delta,
    Ended,
    Event,
    Finished,
    Metered,
    Opened,
    Started,
)
from dragoman.canonical.losses import Ledger
from dragoman.canonical.responses import Finish, FinishReason
from dragoman.canonical.usage import Usage
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.settings import make_options
from tests.folded import fold
from tests.protocols.openai_responses.answers import (
    ENVELOPE,
    STOP,
    events_of,
    output_of,
)
from tests.protocols.openai_responses.helpers import (
    KNOB,
    SEALER,
    JsonObject,
    decoded,
    reply,
    write_response,
    write_stream,
)

OUTPUTS: list[tuple[str, list[Block], list[JsonObject]]] = [
    (
        "neighbouring texts are one part",
        [
            Text(text="It is ", annotations=(UrlCitation(url="https://a", title="A"),)),
            Text(
                text="warm.", annotations=(UrlCitation(url="https://b", title="B", start=0, end=4),)
            ),
        ],
        [
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [
                    {
                        "type": "output_text",
                        "text": "It is warm.",
                        "annotations": [
                            {
                                "type": "url_citation",
                                "start_index": 0,
                                "end_index": 6,
                                "title": "A",
                                "url": "https://a",
                            },
                            {
                                "type": "url_citation",
                                "start_index": 6,
                                "end_index": 10,
                                "title": "B",
                                "url": "https://b",
                            },
                        ],
                        "logprobs": [],
                    }
                ],
            }
        ],
    ),
    (
        "a refusal is a further part of the message",
        [Text(text="Well"), Refusal(text="no"), Text(text="sorry")],
        [
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "Well", "annotations": [], "logprobs": []},
                    {"type": "refusal", "refusal": "no"},
                    {"type": "output_text", "text": "sorry", "annotations": [], "logprobs": []},
                ],
            }
        ],
    ),
    (
        "a refusal alone",
        [Refusal(text="no")],
        [
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "refusal", "refusal": "no"}],
            }
        ],
    ),
    (
        "custom calls and namespaces",
        [
            ToolCall(id="c1", name="g", arguments="free", custom=True),
            ToolCall(id="c2", name="f", arguments="{}", namespace="ns"),
        ],
        [
            {
                "type": "custom_tool_call",
                "id": "ctc_1",
                "call_id": "c1",
                "name": "g",
                "input": "free",
                "status": "completed",
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "c2",
                "name": "f",
                "arguments": "{}",
                "status": "completed",
                "namespace": "ns",
            },
        ],
    ),
    (
        "own reasoning keeps its state as it is",
        [Reasoning(parts=("a", "b"), opaque=Opaque(wire.NAME, "E", "rs_up"))],
        [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [
                    {"type": "summary_text", "text": "a"},
                    {"type": "summary_text", "text": "b"},
                ],
                "encrypted_content": "E",
            }
        ],
    ),
    (
        "reasoning withheld by its vendor",
        [Reasoning(opaque=ENVELOPE, redacted=True)],
        [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [],
                "encrypted_content": SEALER.seal(Reasoning(opaque=ENVELOPE, redacted=True)),
            }
        ],
    ),
    (
        "plain reasoning is raw content",
        [Reasoning(parts=("hm",), style="raw")],
        [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "hm"}],
                "encrypted_content": SEALER.seal(Reasoning(parts=("hm",), style="raw")),
            }
        ],
    ),
]


@pytest.mark.parametrize(
    ("blocks", "output"),
    [case[1:] for case in OUTPUTS],
    ids=[case[0] for case in OUTPUTS],
)
def test_outputs(blocks: list[Block], output: list[JsonObject]) -> None:
    """Text, refusals, calls and reasoning as items. req: 63, 65, 66, 101"""
    assert output_of(events_of(*blocks)) == output


def test_a_message_comes_before_the_calls_and_only_if_there_is_text() -> None:
    """Sibling items, parallel calls each their own. req: 64, 66, 70, 112"""
    calls = [ToolCall(id=f"c{n}", name="f", arguments="{}") for n in range(2)]
    assert [item["type"] for item in output_of(events_of(Text(text="a"), *calls))] == [
        "message",
        "function_call",
        "function_call",
    ]
    for empty in ([], [Text(text="")]):
        items = output_of(events_of(*empty, *calls))
        assert [item["type"] for item in items] == ["function_call", "function_call"]


@pytest.mark.parametrize("blocks", [[], [Text(text="")], [Refusal(text="")]])
def test_nothing_at_all_is_one_empty_message(blocks: list[Block]) -> None:
    """Clients expect at least one item. req: 67"""
    (item,) = output_of(events_of(*blocks))
    assert item["content"] == [
        {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    ]


def test_another_phase_is_another_message() -> None:
    blocks = [Text(text="a", phase="commentary"), Text(text="b", phase="final_answer")]
    items = output_of(events_of(*blocks))
    assert [item["phase"] for item in items] == ["commentary", "final_answer"]


def test_log_probabilities_come_along() -> None:
    record = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}
    head: list[Event] = [Started("u", "m"), Opened(0, Text(text=""))]
    tail: list[Event] = [Closed(0), Finished(Finish(STOP)), Ended()]
    events = [*head, Delta(0, "Hi", (record,)), Delta(0, " you"), *tail]
    (item,) = output_of(events)
    assert item["content"][0]["logprobs"] == [record]
    deltas = [e for e in decoded(write_stream(events)) if e["type"].endswith("text.delta")]
    assert [delta["logprobs"] for delta in deltas] == [[record], []]


@pytest.mark.parametrize(
    ("blocks", "statuses"),
    [
        ([Text(text="Hel")], ["incomplete"]),
        (
            [Text(text="a"), ToolCall(id="c", name="f", arguments='{"a')],
            ["completed", "incomplete"],
        ),
        ([Reasoning(parts=("hm",))], ["incomplete"]),
        ([], ["incomplete"]),
    ],
)
@pytest.mark.parametrize("reason", [FinishReason.LENGTH, FinishReason.CONTEXT_WINDOW])
def test_the_item_that_was_cut_is_incomplete(
    blocks: list[Block], statuses: list[str], reason: FinishReason
) -> None:
    """The terminal is incomplete. req: 116"""
    events = events_of(*blocks, reason=reason)
    assert [item["status"] for item in output_of(events)] == statuses
    last = decoded(write_stream(events))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["completed_at"] is None


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (FinishReason.STOP, "completed"),
        (FinishReason.TOOL_CALLS, "completed"),
        (FinishReason.STOP_SEQUENCE, "completed"),
        (FinishReason.PAUSE, "completed"),
        (FinishReason.CONTENT_FILTER, "incomplete"),
    ],
)
def test_statuses(reason: FinishReason, status: str) -> None:
    events = events_of(Text(text="a"), reason=reason)
    output_of(events)
    assert decoded(write_stream(events))[-1]["response"]["status"] == status


def test_what_a_filter_stopped_can_be_completed() -> None:
    """openai-python's stream helper raises on incomplete answers."""
    options = make_options(refusal_as="completed")
    events = events_of(Refusal(text="no"), reason=FinishReason.CONTENT_FILTER, category="cyber")
    ledger = Ledger()
    last = decoded(write_stream(events, reply(options=options, ledger=ledger)))[-1]
    assert last["type"] == "response.completed"
    assert {loss.path for loss in ledger} == {"stop_details.category"}
    assert write_response(fold(events), reply(options=options))["status"] == "completed"


def test_usage_has_all_its_details() -> None:
    """Zero where unknown. req: 68, 107"""
    usage = Usage(input=9, output=5, cached=4, cache_write=2, reasoning=3)
    events = events_of(Text(text="a"), usage=usage)
    assert decoded(write_stream(events))[-1]["response"]["usage"] == {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 14,
    }
    assert write_response(fold(events_of()))["usage"] == {
        "input_tokens": 0,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 0,
    }


FIELDS = frozenset(
    {
        *("id", "object", "created_at", "completed_at", "status", "model", "output", "usage"),
        *("error", "incomplete_details", "instructions", "metadata", "previous_response_id"),
        *("tools", "tool_choice", "parallel_tool_calls", "max_tool_calls", "truncation"),
        *("text", "reasoning", "temperature", "top_p", "top_logprobs", "max_output_tokens"),
        *("presence_penalty", "frequency_penalty", "store", "background", "service_tier"),
        *("user", "safety_identifier", "prompt_cache_key"),
    }
)
"""What contract 000 and the Open Responses schema want in every response object."""


class TestResponseObject:
    """Everything around the output."""

    def test_every_field_is_there(self) -> None:
        """32 fields, numbers never null, reasoning with both its keys. req: 68, 105, 106"""
        stream = write_stream(events_of(Text(text="a")))
        lifecycle = [event["response"] for event in decoded(stream) if "response" in event]
        for answer in (*lifecycle, write_response(fold(events_of()))):
            assert answer.keys() == FIELDS
            assert answer["reasoning"] == {"effort": None, "summary": None}
            for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty"):
                assert type(answer[name]) is float
            assert answer["top_logprobs"] == 0
            assert (answer["id"], answer["model"], answer["created_at"]) == ("resp_1", "m", 5)

    def test_the_clients_request_is_repeated(self) -> None:
        tool = {"type": "function", "name": "f"}
        source = {
            "model": "m",
            "input": "secret",
            "instructions": "be kind",
            "tools": [tool, {"type": "web_search"}],
            "tool_choice": {"type": "function", "name": "f"},
            "temperature": 0,
            "top_p": 0.5,
            "max_output_tokens": 100,
            "max_tool_calls": 3,
            "parallel_tool_calls": False,
            "metadata": {"a": "b"},
            "reasoning": {"effort": "high"},
            "text": {"verbosity": "low"},
            "store": True,
            "truncation": "auto",
            "user": "u",
            "safety_identifier": "s",
            "prompt_cache_key": "k",
            "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
            "service_tier": "flex",
            "top_logprobs": 2,
            "previous_response_id": None,
        }
        answer = write_response(fold(events_of()), reply(source))
        stream = write_stream(events_of(), reply(source))
        created = decoded(stream)[0]["response"]
        same = source.keys() - {"model", "input", "tools", "reasoning", "text"}
        for shown in (answer, created, decoded(stream)[-1]["response"]):
            assert {name: shown[name] for name in same} == {name: source[name] for name in same}
            assert shown["tools"] == [
                {**tool, "description": None, "parameters": None, "strict": None},
                {"type": "web_search"},
            ]
            assert shown["reasoning"] == {"effort": "high", "summary": None}
            assert shown["text"] == {"format": {"type": "text"}, "verbosity": "low"}
            assert "input" not in shown
            SdkResponse.model_validate({**shown, "completed_at": None})

    def test_the_tier_that_was_used_is_shown(self) -> None:
        events = events_of(Text(text="a"), usage=Usage())
        events[0] = Started("u", "m", service_tier="auto")
        events[-2] = Metered(Usage(), "priority")
        assert decoded(write_stream(events))[-1]["response"]["service_tier"] == "priority"


class TestReasoning:
    """How much of it clients are shown."""

    def test_raw_reasoning_can_be_shown_as_a_summary(self) -> None:
        options = make_options(reasoning_as="summary")
        (item,) = output_of(events_of(Reasoning(parts=("a",), style="raw")), options)
        assert item["summary"] == [{"type": "summary_text", "text": "a"}]
        assert "content" not in item

    def test_an_envelope_holds_the_exact_block(self) -> None:
        block = Reasoning(parts=("exact ",), opaque=ENVELOPE)
        (item,) = output_of(events_of(block))
        assert SEALER.open(item["encrypted_content"]) == block

    @pytest.mark.parametrize(
        "block", [Reasoning(parts=("a",)), Reasoning(parts=("a",), style="raw")]
    )
    def test_hidden_reasoning_leaves_no_trace(self, block: Reasoning) -> None:
        items = output_of(events_of(block, Text(text="b")), make_options(show_reasoning="never"))
        assert [item["type"] for item in items] == ["message"]

    def test_the_state_of_hidden_reasoning_can_come_back(self) -> None:
        block = Reasoning(parts=("a", "b"), opaque=ENVELOPE)
        hidden, _ = output_of(
            events_of(block, Text(text="b")), make_options(show_reasoning="never")
        )
        assert hidden["summary"] == []
        assert SEALER.open(hidden["encrypted_content"]) == block


def test_what_clients_cannot_be_shown_is_reported() -> None:
    cited = Text(
        text="a",
        annotations=(
            ForeignCitation("anthropic_messages", {"type": "page_location"}),
            ForeignCitation(wire.NAME, {"type": "file_path", "file_id": "f", "index": 0}),
            UrlCitation(url="https://a", cited_text="a"),
        ),
    )
    hosted = Foreign(origin="anthropic_messages", type="server_tool_use", raw={})
    for write in (lambda e, to: write_stream(e, to), lambda e, to: write_response(fold(e), to)):
        ledger = Ledger()
        events = events_of(cited, hosted, Text(text="b"))
        write(events, reply(ledger=ledger))
        assert {loss.path: loss.kind for loss in ledger} == {"citations": KNOB, "content": KNOB}
    (first, second) = output_of(events)
    assert [note["type"] for note in first["content"][0]["annotations"]] == [
        "file_path",
        "url_citation",
    ]
    assert second["content"][0]["text"] == "b"
