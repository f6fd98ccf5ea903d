"""Upstream answers become events, the same whether whole or streamed, and however damaged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.canonical.blocks import (
    Block,
    ForeignCitation,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
)
from dragoman.canonical.errors import FaultKind, UpstreamError
from dragoman.canonical.events import Closed, Delta, Ended, Event, Failed, Opened, Started
from dragoman.canonical.losses import Ledger
from dragoman.canonical.responses import Finish, FinishReason
from dragoman.canonical.usage import Usage
from dragoman.protocols.openai_responses import CODEC, wire
from dragoman.sse import Decoder, Frame
from tests.folded import Response, fold
from tests.protocols.openai_responses.helpers import (
    KNOB,
    JsonObject,
    inbound,
    read_stream,
    stream_of,
)
from tests.protocols.openai_responses.upstream import (
    call,
    custom_call,
    events_of,
    frame_events,
    item_events,
    message,
    reasoning,
    refusal,
    response,
    text,
)

CITATION = {"type": "url_citation", "url": "https://a", "title": "A"}
SPAN = {**CITATION, "start_index": 0, "end_index": 3}
LOGPROB = {"token": "Hel", "logprob": -0.5, "bytes": [72], "top_logprobs": []}


def whole(answer: JsonObject, ledger: Ledger | None = None, account: str = "") -> Response:
    return fold(CODEC.translate.read_response(answer, inbound(ledger, account)))


def streamed(answer: JsonObject, ledger: Ledger | None = None, account: str = "") -> Response:
    return fold(read_stream(stream_of(events_of(answer)), ledger, account))


def failure(events: list[Event]) -> Failed:
    """The failure that a stream ends in."""
    last = events[-1]
    assert isinstance(last, Failed)
    assert not any(isinstance(event, Ended) for event in events)
    return last


ANSWERS: list[tuple[str, list[JsonObject], tuple[Block, ...], FinishReason]] = [
    ("text", [message(text("Hello"))], (Text(text="Hello"),), FinishReason.STOP),
    (
        "several parts",
        [message(text("Hello"), text("there"), phase="commentary")],
        (Text(text="Hello", phase="commentary"), Text(text="there", phase="commentary")),
        FinishReason.STOP,
    ),
    ("an empty part", [message(text(""))], (), FinishReason.STOP),
    ("nothing", [], (), FinishReason.STOP),
    (
        "refusal",
        [message(text("Well"), refusal("cannot"))],
        (Text(text="Well"), Refusal(text="cannot")),
        FinishReason.STOP,
    ),
    (
        "citations",
        [message(text("See it", annotations=[SPAN, {"type": "file_path", "file_id": "f"}]))],
        (
            Text(
                text="See it",
                annotations=(
                    UrlCitation(url="https://a", title="A", start=0, end=3),
                    ForeignCitation(wire.NAME, {"type": "file_path", "file_id": "f"}),
                ),
            ),
        ),
        FinishReason.STOP,
    ),
    (
        "log probabilities",
        [message(text("Hello", logprobs=[LOGPROB]))],
        (Text(text="Hello", logprobs=(LOGPROB,)),),
        FinishReason.STOP,
    ),
    (
        "reasoning",
        [reasoning("First", "second", encrypted_content="E"), message(text("Hi"))],
        (
            Reasoning(parts=("First", "second"), opaque=Opaque(wire.NAME, "E", "rs_u1", "acc")),
            Text(text="Hi"),
        ),
        FinishReason.STOP,
    ),
    (
        "raw reasoning",
        [reasoning(content=[{"type": "reasoning_text", "text": "thought"}]), message(text("Hi"))],
        (Reasoning(parts=("thought",), style="raw"), Text(text="Hi")),
        FinishReason.STOP,
    ),
    (
        "reasoning of which only state exists",
        [reasoning(encrypted_content="E"), message(text("Hi"))],
        (Reasoning(opaque=Opaque(wire.NAME, "E", "rs_u1", "acc")), Text(text="Hi")),
        FinishReason.STOP,
    ),
    ("reasoning of which nothing exists", [reasoning()], (), FinishReason.STOP),
    (
        "a call",
        [call('{"city": "Paris"}', namespace="ns")],
        (ToolCall(id="call_1", name="f", arguments='{"city": "Paris"}', namespace="ns"),),
        FinishReason.TOOL_CALLS,
    ),
    (
        "calls without arguments",
        [call(""), custom_call("")],
        (ToolCall(id="call_1", name="f"), ToolCall(id="call_2", name="g", custom=True)),
        FinishReason.TOOL_CALLS,
    ),
    (
        "everything",
        [reasoning("Think"), message(text("Hi")), call('{"a":1}'), custom_call("free text")],
        (
            Reasoning(parts=("Think",)),
            Text(text="Hi"),
            ToolCall(id="call_1", name="f", arguments='{"a":1}'),
            ToolCall(id="call_2", name="g", arguments="free text", custom=True),
        ),
        FinishReason.TOOL_CALLS,
    ),
]


@pytest.mark.parametrize("read", [whole, streamed])
@pytest.mark.parametrize(
    ("output", "blocks", "reason"),
    [case[1:] for case in ANSWERS],
    ids=[case[0] for case in ANSWERS],
)
def test_answers(
    read: Any, output: list[JsonObject], blocks: tuple[Block, ...], reason: FinishReason
) -> None:
    """Whole and streamed answers mean the same; calls keep the upstream's ids. req: 70, 111"""
    assert read(response(*output), account="acc") == Response(
        id="resp_u1",
        model="upstream-model",
        created=7,
        blocks=blocks,
        finish=Finish(reason),
        usage=Usage(input=9, output=5, cached=4, cache_write=2, reasoning=3),
        service_tier="default",
    )


@pytest.mark.parametrize("read", [whole, streamed])
@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"reason": "max_output_tokens"}, FinishReason.LENGTH),
        ({"reason": "max_messages"}, FinishReason.LENGTH),
        ({"reason": "content_filter"}, FinishReason.CONTENT_FILTER),
        (None, FinishReason.LENGTH),
    ],
)
@pytest.mark.parametrize("output", [[message(text("Hel"))], [call('{"a')]])
def test_incomplete_answers(
    read: Any, details: Any, reason: FinishReason, output: list[JsonObject]
) -> None:
    """The terminals are completed, incomplete and failed. req: 116"""
    answer = response(*output, status="incomplete", incomplete_details=details)
    assert read(answer).finish == Finish(reason)


@pytest.mark.parametrize("read", [whole, streamed])
def test_usage_may_be_missing_or_short(read: Any) -> None:
    """An upstream that sends no usage is no error. req: 143"""
    assert read(response(usage=None)).usage is None
    short = {"input_tokens": 9, "output_tokens": 5}
    assert read(response(usage=short)).usage == Usage(input=9, output=5)


@pytest.mark.parametrize("read", [whole, streamed])
def test_what_nobody_reads_is_reported(read: Any) -> None:
    ledger = Ledger()
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}
    odd = message(text("Hi"), {"type": "sound", "data": "x"}, mood="good", id="msg_2")
    answer = response(item, odd, moderation={"flagged": True}, metadata={"a": "b"})
    assert read(answer, ledger).blocks == (Text(text="Hi"),)
    endings = {loss.path.rpartition("]")[2] + loss.path.rpartition(".")[2] for loss in ledger}
    assert {loss.kind for loss in ledger} == {KNOB}
    assert any("mood" in ending for ending in endings)
    assert any("moderation" in ending for ending in endings)
    assert any("content" in loss.path for loss in ledger)
    assert any("web_search_call" in loss.detail for loss in ledger)
    assert not any("metadata" in loss.path for loss in ledger)


@pytest.mark.parametrize("kind", sorted(wire.CLIENT_ACTIONS))
def test_what_only_a_client_could_do_fails(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "call_id": "c"}
    with pytest.raises(UpstreamError):
        CODEC.translate.read_response(response(item), inbound())
    failed = failure(read_stream(stream_of(events_of(response(item)))))
    assert failed.fault.kind is FaultKind.UPSTREAM_FAILED


class TestUnusableAnswers:
    """Never a false success."""

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ({}, FaultKind.UPSTREAM_FAILED),
            ({"object": "chat.completion", "choices": []}, FaultKind.UPSTREAM_FAILED),
            ({"type": "message", "content": []}, FaultKind.UPSTREAM_FAILED),
            (response(status="queued"), FaultKind.UPSTREAM_FAILED),
            (response(status="in_progress"), FaultKind.UPSTREAM_FAILED),
            (response(status="cancelled"), FaultKind.UPSTREAM_FAILED),
            (response(output="none"), FaultKind.UPSTREAM_FAILED),
            (response(output=["none"]), FaultKind.UPSTREAM_FAILED),
            (response({"id": "x"}), FaultKind.UPSTREAM_FAILED),
            (response(call(name="")), FaultKind.UPSTREAM_FAILED),
            ({"error": {"message": "no"}}, FaultKind.UPSTREAM_FAILED),
            ({"error": {"message": "no", "code": "rate_limit_exceeded"}}, FaultKind.RATE_LIMITED),
            (response(status="failed"), FaultKind.UPSTREAM_FAILED),
        ],
    )
    def test_whole(self, body: JsonObject, kind: FaultKind) -> None:
        with pytest.raises(UpstreamError) as raised:
            CODEC.translate.read_response(body, inbound())
        assert raised.value.fault.kind is kind

    @pytest.mark.parametrize(
        ("code", "kind"),
        [
            ("rate_limit_exceeded", FaultKind.RATE_LIMITED),
            ("insufficient_quota", FaultKind.PAYMENT_REQUIRED),
            ("context_length_exceeded", FaultKind.CONTEXT_TOO_LONG),
            ("server_is_overloaded", FaultKind.OVERLOADED),
            ("server_error", FaultKind.UPSTREAM_FAILED),
            ("invalid_prompt", FaultKind.INVALID_REQUEST),
            ("bio_policy", FaultKind.INVALID_REQUEST),
            ("image_too_large", FaultKind.INVALID_REQUEST),
            ("something_new", FaultKind.UPSTREAM_FAILED),
        ],
    )
    def test_failed_by_code(self, code: str, kind: FaultKind) -> None:
        """Failure after the start, in every form. req: 115"""
        error = {"code": code, "message": "told so"}
        failed = response(message(text("Hel")), status="failed", error=error)
        with pytest.raises(UpstreamError) as raised:
            CODEC.translate.read_response(failed, inbound())
        begun = item_events(message(text("Hello")), 0)[:3]
        for ending in (
            {"type": "response.failed", "response": failed},
            {"type": "error", **error, "param": None},
            {"type": "error", "error": {**error, "param": None}},
            {"type": "response.completed", "response": failed},
        ):
            stream = stream_of([*frame_events(failed, *begun)[:-1], ending])
            fault = failure(read_stream(stream)).fault
            assert fault == raised.value.fault
            assert (fault.kind, fault.code, fault.message) == (kind, code, "told so")

    @pytest.mark.parametrize(
        "stream",
        [
            b"",
            b"data: nonsense\n\n",
            b"data: [1]\n\n",
            b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\ndata: [DONE]\n\n',
            b'event: message_start\ndata: {"type":"message_start","message":{}}\n\n',
            b'data: {"error":{"message":"overloaded"}}\n\n',
            b'data: {"error":"overloaded"}\n\n',
            b'event: x\ndata: {"type":"response.output_text.delta","delta":"\xff"}\n\n',
        ],
    )
    def test_streams_that_are_none(self, stream: bytes) -> None:
        """An error frame or a missing terminal is a failure. req: 163"""
        failure(read_stream(stream))

    @pytest.mark.parametrize("kept", range(1, 15))
    def test_a_stream_that_is_cut_off_fails(self, kept: int) -> None:
        events = events_of(response(reasoning("Think"), call('{"a":1}')))
        assert kept < len(events)
        failure(read_stream(stream_of(events[:kept])))


class TestTolerance:
    """What servers leave out or get wrong (field notes, section 3)."""

    ANSWER = response(
        reasoning("First", "second", encrypted_content="E"),
        message(text("Hello", annotations=[SPAN]), refusal("no")),
        call('{"a":1}'),
        custom_call("free"),
    )

    @pytest.mark.parametrize(
        "left_out",
        [
            "response.in_progress",
            "response.content_part.added",
            "response.content_part.done",
            "response.output_text.delta",
            "response.output_text.done",
            "response.refusal.delta",
            "response.output_text.annotation.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_part.done",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.custom_tool_call_input.delta",
            "response.custom_tool_call_input.done",
            "response.output_item.added",
            "response.output_item.done",
        ],
    )
    def test_any_kind_of_event_may_be_missing(self, left_out: str) -> None:
        events = [event for event in events_of(self.ANSWER) if event["type"] != left_out]
        assert fold(read_stream(stream_of(events))) == whole(self.ANSWER)

    def test_the_last_event_may_be_all_there_is(self) -> None:
        assert fold(read_stream(stream_of(frame_events(self.ANSWER)))) == whole(self.ANSWER)

    def test_the_last_event_may_repeat_nothing(self) -> None:
        *events, last = events_of(self.ANSWER)
        last = {**last, "response": {**self.ANSWER, "output": []}}
        assert fold(read_stream(stream_of([*events, last]))) == whole(self.ANSWER)

    @pytest.mark.parametrize("field", ["item_id", "output_index", "sequence_number", "logprobs"])
    def test_fields_of_events_may_be_missing(self, field: str) -> None:
        events = [
            {name: value for name, value in event.items() if name != field}
            for event in events_of(self.ANSWER)
        ]
        assert fold(read_stream(stream_of(events))) == whole(self.ANSWER)

    def test_event_lines_may_be_missing(self) -> None:
        stream = stream_of(events_of(self.ANSWER), named=False)
        assert fold(read_stream(stream)) == whole(self.ANSWER)

    def test_ids_may_change_in_the_last_event(self) -> None:
        *events, last = events_of(self.ANSWER)
        items = [{**item, "id": f"{item['id']}_again"} for item in self.ANSWER["output"]]
        last = {**last, "response": {**self.ANSWER, "output": items}}
        assert fold(read_stream(stream_of([*events, last]))) == whole(self.ANSWER)

    def test_done_and_comments_are_no_events(self) -> None:
        """`[DONE]` is text, comments are skipped. req: 127, 128"""
        stream = b": keepalive\n\n" + stream_of(events_of(self.ANSWER)) + b"data: [DONE] \n\n"
        assert fold(read_stream(stream)) == whole(self.ANSWER)

    @pytest.mark.parametrize(
        ("event", "reported"),
        [
            ({"type": "keepalive"}, set()),
            ({"type": "ping"}, set()),
            ({"type": "response.mystery", "x": 1}, {"response.mystery"}),
            ({"type": "response.audio.delta", "delta": "x"}, {"response.audio.delta"}),
            (
                {"type": "response.web_search_call.searching", "output_index": 0},
                {"response.web_search_call.searching"},
            ),
            (
                {"type": "response.output_text.delta", "delta": "", "mood": 1},
                {"response.output_text.delta.mood"},
            ),
            ({"type": "response.output_text.delta", "delta": "", "obfuscation": "x"}, set()),
        ],
    )
    def test_events_nobody_reads_are_passed_over(
        self, event: JsonObject, reported: set[str]
    ) -> None:
        answer = response(message(text("Hello")))
        events = events_of(answer)
        ledger = Ledger()
        stream = stream_of([*events[:4], event, *events[4:]])
        assert fold(read_stream(stream, ledger)) == whole(answer)
        assert {loss.path for loss in ledger} == reported

    def test_the_name_open_responses_has_for_raw_reasoning(self) -> None:
        answer = response(reasoning(content=[{"type": "reasoning_text", "text": "thought"}]))
        events = [
            {**event, "type": event["type"].replace("reasoning_text", "reasoning")}
            for event in events_of(answer)
        ]
        assert fold(read_stream(stream_of(events))) == whole(answer)

    def test_reasoning_without_parts_being_announced(self) -> None:
        place = {"item_id": "rs_u1", "output_index": 0, "content_index": 0}
        delta = {"type": "response.reasoning_text.delta", **place, "delta": "thought"}
        item = reasoning(content=[{"type": "reasoning_text", "text": "thought"}])
        answer = response(item)
        assert fold(read_stream(stream_of(frame_events(answer, delta)))) == whole(answer)

    def test_arguments_in_the_first_event_are_not_doubled(self) -> None:
        answer = response(call('{"a":1}'))
        events = events_of(answer)
        events[2] = {**events[2], "item": call('{"a":1}')}
        assert fold(read_stream(stream_of(events))) == whole(answer)

    def test_arguments_before_the_name_are_held(self) -> None:
        place = {"item_id": "fc_u1", "output_index": 0}
        early = {"type": "response.function_call_arguments.delta", **place, "delta": '{"a'}
        answer = response(call('{"a":1}'))
        assert fold(read_stream(stream_of(frame_events(answer, early)))) == whole(answer)

    def test_arguments_as_an_object_become_json_text(self) -> None:
        answer = response(call(arguments={"a": 1}))  # type: ignore[arg-type]
        (block,) = whole(answer).blocks
        assert isinstance(block, ToolCall)
        assert msgspec.json.decode(block.arguments) == {"a": 1}

    def test_a_call_without_any_id_gets_one(self) -> None:
        item = {"type": "function_call", "name": "f", "arguments": "{}"}
        (block,) = whole(response(item)).blocks
        assert isinstance(block, ToolCall)
        assert block.id

    def test_two_forms_of_reasoning_give_one(self) -> None:
        item = reasoning("short", content=[{"type": "reasoning_text", "text": "long"}])
        ledger = Ledger()
        for read in (whole, streamed):
            assert read(response(item), ledger).blocks == (Reasoning(parts=("short",)),)
        assert len(ledger)


def test_what_comes_when_its_item_is_over_is_reported() -> None:
    ledger = Ledger()
    answer = response(message(text("Hi")), reasoning("s"), call("{}"))
    *body, terminal = events_of(answer)
    late = [{**event, "delta": "late"} for event in body if event["type"].endswith(".delta")]
    read = fold(read_stream(stream_of([*body, *late, terminal]), ledger))
    assert read == streamed(answer)
    assert [loss.path for loss in ledger] == ["output[0].content[0]", "output[1]", "output[2]"]


def test_interleaved_calls_keep_their_own_index() -> None:
    first, second = call('{"a":1}'), call('{"b":2}', id="fc_u2", call_id="call_9", name="h")
    one, two = item_events(first, 0), item_events(second, 1)
    mixed = [event for pair in zip(one, two, strict=True) for event in pair]
    answer = response(first, second)
    events = read_stream(stream_of(frame_events(answer, *mixed)))
    assert fold(events) == whole(answer)
    opened = [event.index for event in events if isinstance(event, Opened)]
    assert opened == [0, 1]
    deltas = [event.index for event in events if isinstance(event, Delta)]
    assert deltas[:4] == [0, 1, 0, 1]


def test_text_passes_as_it_comes() -> None:
    reader = CODEC.translate.stream_reader(inbound())
    seen: list[list[Event]] = []
    for frame in Decoder().feed(stream_of(events_of(response(message(text("Hello")))))):
        seen.append(list(reader.read(frame)))
    assert [type(event) for event in seen[0]] == [Started]
    assert [[type(event) for event in events] for events in seen[2:9]] == [
        [],
        [],
        [Opened, Delta],
        [Delta],
        [],
        [Closed],
        [],
    ]
    assert list(reader.finish()) == []
    assert list(reader.read(frame)) == []


@pytest.mark.parametrize(
    ("fields", "reported", "failed"),
    [
        ({}, [], False),
        ({"mood": "good"}, ["response.in_progress.mood"], False),
        ({"type": "response.sung"}, ["response.sung"], False),
        ({"type": "error", "error": {"message": "Down"}}, [], True),
    ],
)
def test_what_is_said_again_is_only_looked_at_if_it_is_unusual(
    fields: JsonObject, reported: list[str], failed: bool
) -> None:
    ledger = Ledger()
    reader = CODEC.translate.stream_reader(inbound(ledger))
    created, progress, *_ = events_of(response(message(text("Hello"))))
    data = msgspec.json.encode({**progress, **fields})
    frame = Frame(b"response.in_progress", data, b"")
    first = [event for one in Decoder().feed(stream_of([created])) for event in reader.read(one)]
    assert [type(event) for event in first] == [Started]
    assert [type(event) for event in reader.read(frame)] == [Failed] * failed
    assert [loss.path for loss in ledger] == reported


@pytest.mark.parametrize("said", [b'"\\ud800"', b'"a\x80"', b'"\\uDC00\xc3\xa4"'])
def test_what_is_said_again_is_text(said: bytes) -> None:
    ledger = Ledger()
    reader = CODEC.translate.stream_reader(inbound(ledger))
    data = b'{"type":"response.%b","response":{"instructions":%b}}'
    created = Frame(b"response.created", data % (b"created", b'"a"'), b"")
    assert [type(event) for event in reader.read(created)] == [Started]
    progress = Frame(b"response.in_progress", data % (b"in_progress", said), b"")
    assert [type(event) for event in reader.read(progress)] == [Failed]
