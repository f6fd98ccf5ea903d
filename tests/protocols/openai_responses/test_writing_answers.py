"""Answers become what Responses clients accept, the same whether whole or streamed."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response as SdkResponse
from openai.types.responses import ResponseStreamEvent
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
from dragoman.canonical.errors import Fault, FaultKind, IllegalEvent
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
from dragoman.canonical.responses import Finish, FinishReason
from dragoman.canonical.usage import Usage
from dragoman.protocols.openai_responses import CODEC, wire
from dragoman.sse import Decoder
from tests.checkers import check_responses
from tests.protocols.openai_responses.helpers import (
    DEFAULTS,
    KNOB,
    SEALER,
    JsonObject,
    decoded,
    inbound,
    read_stream,
    reply,
    write_response,
    write_stream,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "responses.sse"
SDK_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
STOP = FinishReason.STOP
ENVELOPE = Opaque("anthropic_messages", "c2ln")


def events_of(
    *blocks: Block,
    reason: FinishReason = STOP,
    usage: Usage | None = None,
    category: str | None = None,
) -> list[Event]:
    """The events of an answer of these blocks, texts in pieces."""
    events: list[Event] = [Started("up_1", "up-model", 5)]
    for index, block in enumerate(blocks):
        match block:
            case Text():
                head: Block = Text(text="", phase=block.phase)
                parts = [block.text]
            case Refusal():
                head, parts = Refusal(text=""), [block.text]
            case ToolCall():
                head, parts = msgspec.structs.replace(block, arguments=""), [block.arguments]
            case Reasoning():
                head = msgspec.structs.replace(block, parts=(), opaque=None)
                parts = list(block.parts)
            case _:
                head, parts = block, []
        events.append(Opened(index, head))
        for number, part in enumerate(parts):
            if number:
                events.append(PartBreak(index))
            events += [Delta(index, part[at : at + 4]) for at in range(0, len(part), 4)]
        if isinstance(block, Text):
            events += [Annotated(index, annotation) for annotation in block.annotations]
        if isinstance(block, Reasoning) and block.opaque is not None:
            events.append(Sealed(index, block.opaque))
        events.append(Closed(index))
    events.append(Finished(Finish(reason, category=category)))
    return [*events, *([Metered(usage)] if usage else []), Ended()]


def kinds(stream: bytes) -> list[str]:
    """The types of a stream's events, without their common beginning."""
    return [event["type"].removeprefix("response.") for event in decoded(stream)]


def output_of(events: list[Event], options: Options = DEFAULTS) -> list[JsonObject]:
    """The output, after checking that a stream and a whole answer have the same, and that the
    vendor's types and our checker accept both."""
    to = reply(options=options)
    stream = write_stream(events, to)
    check_responses(stream)
    final = decoded(stream)[-1]["response"]
    for event in decoded(stream):
        SDK_EVENT.validate_python(event)
    answer = write_response(fold(events), reply(options=options))
    assert {**answer, "completed_at": 0} == {**final, "completed_at": 0}
    SdkResponse.model_validate(answer)
    output: list[JsonObject] = answer["output"]
    return output


def test_the_golden_stream_is_read_and_written_alike() -> None:
    """The stream all four vendor SDKs accept. req: 98, 99, 107, 108"""
    golden = GOLDEN.read_bytes()
    events = read_stream(golden)
    written = write_stream(events, reply(options=Options(responses_done=True)))
    assert written.endswith(b"data: [DONE]\n\n")
    expected, found = decoded(golden), decoded(written)
    for stream in (expected, found):
        stream[-1]["response"]["completed_at"] = None
    assert found == expected
    names = [frame.event for frame in Decoder().feed(written)]
    assert names[:-1] == [event["type"].encode() for event in found]


def test_the_order_of_a_text_answer() -> None:
    """Names, numbers and order of the events. req: 98, 99, 103, 104, 112"""
    stream = write_stream(events_of(Text(text="Hello you")))
    assert kinds(stream) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    events = decoded(stream)
    assert [event["sequence_number"] for event in events] == list(range(11))
    assert events[2] == {
        "type": "response.output_item.added",
        "sequence_number": 2,
        "output_index": 0,
        "item": {
            "type": "message",
            "id": "msg_1",
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        },
    }
    assert events[7]["text"] == "Hello you"
    assert events[8]["part"]["text"] == "Hello you"
    assert events[9]["item"]["content"] == [events[8]["part"]]


def test_events_of_an_item_say_where_they_belong() -> None:
    """item_id, output_index and content_index, annotations always there. req: 100, 101, 102"""
    stream = write_stream(events_of(Text(text="Hello"), ToolCall(id="c", name="f", arguments="{}")))
    for event in decoded(stream):
        name = event["type"]
        if name.startswith(("response.content_part", "response.output_text")):
            assert (event["item_id"], event["output_index"], event["content_index"]) == (
                "msg_1",
                0,
                0,
            )
        if name.startswith("response.function_call_arguments"):
            assert (event["item_id"], event["output_index"]) == ("fc_1", 1)
            assert "content_index" not in event
        if "part" in event:
            assert event["part"]["annotations"] == []
        if name.startswith("response.output_text"):
            assert event["logprobs"] == []


def test_the_order_of_a_call() -> None:
    """A call is an item of its own, streamed as it comes. req: 108, 109, 110, 111, 113, 118, 162"""
    stream = write_stream(
        events_of(
            ToolCall(id="toolu_1", name="f", arguments='{"a":1}'), reason=FinishReason.TOOL_CALLS
        )
    )
    assert kinds(stream)[2:] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    events = decoded(stream)
    done = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "toolu_1",
        "name": "f",
        "arguments": '{"a":1}',
        "status": "completed",
    }
    assert events[2]["item"] == {**done, "arguments": "", "status": "in_progress"}
    assert (events[5]["name"], events[5]["arguments"]) == ("f", '{"a":1}')
    assert events[6]["item"] == done
    assert events[7]["response"]["output"] == [done]
    assert {event["item_id"] for event in events[3:6]} == {"fc_1"}


def test_deltas_pass_at_once() -> None:
    """Nothing is held back until the end of a call. req: 113, 122"""
    writer = CODEC.stream_writer(reply())
    events = events_of(ToolCall(id="c", name="f", arguments='{"city":"Paris"}'))
    written = [(type(event), writer.write(event)) for event in events]
    assert all(frames for kind, frames in written if kind is Delta)


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
    options = Options(refusal_as="completed")
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
"""What seed 000 and the Open Responses schema want in every response object."""


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

    def test_a_stream_does_not_keep_the_request(self) -> None:
        class Body(dict[str, Any]):
            """A body whose life can be watched."""

        source = Body(model="m", input="x" * 1000)
        gone = weakref.ref(source)
        writer = CODEC.stream_writer(reply(source))
        writer.write(Started("u", "m"))
        del source
        gc.collect()
        assert gone() is None


class TestReasoning:
    """How much of it clients are shown."""

    def test_the_order_of_a_summary(self) -> None:
        stream = write_stream(events_of(Reasoning(parts=("a", "b"), opaque=ENVELOPE)))
        part = [
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
        ]
        assert kinds(stream)[2:] == [
            "output_item.added",
            *part,
            *part,
            "output_item.done",
            "completed",
        ]
        events = decoded(stream)
        assert [e["summary_index"] for e in events if "summary_index" in e] == [0] * 4 + [1] * 4

    def test_raw_reasoning_is_announced_as_content(self) -> None:
        """openai-node throws without the part."""
        stream = write_stream(events_of(Reasoning(parts=("a",), style="raw")))
        assert kinds(stream)[3:7] == [
            "content_part.added",
            "reasoning_text.delta",
            "reasoning_text.done",
            "content_part.done",
        ]

    def test_raw_reasoning_can_be_shown_as_a_summary(self) -> None:
        options = Options(reasoning_as="summary")
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
        items = output_of(events_of(block, Text(text="b")), Options(show_reasoning="never"))
        assert [item["type"] for item in items] == ["message"]

    def test_the_state_of_hidden_reasoning_can_come_back(self) -> None:
        block = Reasoning(parts=("a", "b"), opaque=ENVELOPE)
        hidden, _ = output_of(events_of(block, Text(text="b")), Options(show_reasoning="never"))
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


class TestFailure:
    """An error event, then the failed response."""

    FAULT = Fault(FaultKind.UPSTREAM_FAILED, "it broke", code="upstream_error")

    @pytest.mark.parametrize("kept", range(8))
    def test_at_any_moment(self, kept: int) -> None:
        """Same id, status failed, error with code and message. req: 115, 116"""
        begun = events_of(Reasoning(parts=("hm",)), Text(text="Hello"))[:kept]
        stream = write_stream([*begun, Failed(self.FAULT)])
        verdict = check_responses(stream)
        assert not verdict.succeeded
        *_, told, last = decoded(stream)
        assert told["type"] == "error"
        assert told["error"] == {
            "message": "it broke",
            "type": "server_error",
            "param": "",
            "code": "upstream_error",
        }
        assert (told["message"], told["code"], told["param"]) == ("it broke", "upstream_error", "")
        assert last["response"]["error"] == {
            "code": "server_error",
            "message": "it broke",
            "type": "server_error",
        }

    @pytest.mark.parametrize(
        ("fault", "code"),
        [
            (Fault(FaultKind.RATE_LIMITED, "slow"), "rate_limit_exceeded"),
            (Fault(FaultKind.CONTEXT_TOO_LONG, "long"), "context_length_exceeded"),
            (Fault(FaultKind.PAYMENT_REQUIRED, "pay"), "insufficient_quota"),
            (Fault(FaultKind.OVERLOADED, "busy"), "server_is_overloaded"),
            (Fault(FaultKind.INVALID_REQUEST, "bad"), "invalid_prompt"),
            (Fault(FaultKind.INVALID_REQUEST, "bad", code="image_too_large"), "image_too_large"),
            (Fault(FaultKind.NO_ACCOUNT, "none"), "server_error"),
        ],
    )
    def test_codes_clients_know(self, fault: Fault, code: str) -> None:
        stream = write_stream([*events_of()[:1], Failed(fault)])
        assert decoded(stream)[-1]["response"]["error"]["code"] == code

    def test_finished_items_stay(self) -> None:
        events = events_of(Text(text="a"), ToolCall(id="c", name="f", arguments="{}"))
        stream = write_stream([*events[:-4], Failed(self.FAULT)])
        output = decoded(stream)[-1]["response"]["output"]
        assert [item["type"] for item in output] == ["message"]

    @pytest.mark.parametrize("done", [True, False])
    def test_the_terminator_by_choice(self, done: bool) -> None:
        stream = write_stream([Failed(self.FAULT)], reply(options=Options(responses_done=done)))
        assert stream.endswith(b"data: [DONE]\n\n") == done


def test_events_out_of_order_are_our_own_mistake() -> None:
    writer = CODEC.stream_writer(reply())
    with pytest.raises(IllegalEvent):
        writer.write(Delta(0, "a"))


def test_framing() -> None:
    """LF only, one data line, `data: ` with a space, separators escaped. req: 123, 124, 164"""
    text = "a\u2028b\u2029c\u0085d\r\ne"
    stream = write_stream(events_of(Text(text=text), ToolCall(id="c", name="f", arguments="{}")))
    assert b"\r" not in stream
    for raw in stream.split(b"\n\n")[:-1]:
        name, data = raw.split(b"\n")
        assert name.startswith(b"event: response.")
        assert data.startswith(b"data: {")
        assert len(data.decode().splitlines()) == 1
    assert decoded(stream)[-1]["response"]["output"][0]["content"][0]["text"] == text


def test_the_vendors_own_accumulator_takes_it() -> None:
    """openai-python raises on changed ids, doubled indexes and unfinished items. req: 110, 157"""
    events = events_of(
        Reasoning(parts=("a", "b"), opaque=ENVELOPE),
        Text(text="Hello"),
        Refusal(text="no"),
        ToolCall(id="c1", name="f", arguments='{"a":1}'),
        ToolCall(id="c2", name="f", arguments="{}"),
        Text(text="bye"),
    )
    state: Any = ResponseStreamState(text_format=omit, input_tools=omit)
    stream = write_stream(events)
    for event in decoded(stream):
        state.handle_event(SDK_EVENT.validate_python(event))
    final = state._completed_response
    last = decoded(stream)[-1]["response"]
    assert [(item.type, item.id) for item in final.output] == [
        (item["type"], item["id"]) for item in last["output"]
    ]
    assert final.output_text == "Hellobye"


def test_what_is_written_is_read_back() -> None:
    """The stream means the same to a reader of the same protocol."""
    blocks = (
        Reasoning(parts=("a", "b"), opaque=Opaque(wire.NAME, "E", "rs_1")),
        Text(text="Hello", annotations=(UrlCitation(url="https://a", start=0, end=5),)),
        Refusal(text="no"),
        ToolCall(id="c1", name="f", arguments='{"a":1}', namespace="ns"),
        ToolCall(id="c2", name="g", arguments="free", custom=True),
    )
    events = events_of(*blocks, reason=FinishReason.TOOL_CALLS)
    assert fold(read_stream(write_stream(events))).blocks == blocks
    answer = write_response(fold(events))
    assert fold(CODEC.read_response(answer, inbound())).blocks == blocks
