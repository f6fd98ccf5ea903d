"""Answers as a Chat client sees them, whole and streamed; the SDK's accumulator is the judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.blocks import (
    Annotation,
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
    Delta,
    Ended,
    Event,
    Failed,
    Finished,
    Metered,
    Opened,
    Started,
)
from dragoman.canonical.losses import Ledger
from dragoman.canonical.options import Options
from dragoman.canonical.requests import Request
from dragoman.canonical.responses import Finish, FinishReason
from dragoman.canonical.usage import Usage
from dragoman.protocols.base import Reply
from dragoman.protocols.openai_chat import CODEC
from dragoman.protocols.settings import make_options
from tests.folded import Response, fold
from tests.protocols.openai_chat.helpers import (
    CONVERTED,
    DONE,
    KNOB,
    SEALER,
    WITH_USAGE,
    Losses,
    deltas_of,
    frames_of,
    read_stream,
    reply,
    write_stream,
)
from tests.protocols.openai_chat.written import events_of, streamed, whole

GOLDEN = Path(__file__).parents[2] / "golden" / "chat.sse"
STATE = Opaque("anthropic_messages", "SIG")
DETAILS = make_options(reasoning_details=True)


def message(*blocks: Block, given: Reply | None = None) -> dict[str, Any]:
    """The message of a written answer."""
    found: dict[str, Any] = whole(answer(*blocks), given)["choices"][0]["message"]
    return found


def answer(*blocks: Block, **fields: Any) -> Response:
    """A canonical answer."""
    made = {"finish": Finish(FinishReason.STOP), **fields}
    return Response(id="up_1", model="up", created=5, blocks=blocks, **made)


CALL = ToolCall(id="c1", name="f", arguments='{"a":1}')
PATCH = ToolCall(id="c2", name="g", arguments="free", custom=True)
THOUGHT = Reasoning(parts=("one", "two"))


def test_the_golden_stream_is_written_as_it_was() -> None:
    """Frame by frame the same meaning. req: 71, 72, 73, 74, 75, 77, 78, 80"""
    golden = frames_of(GOLDEN.read_bytes())
    given = Reply(
        request=WITH_USAGE,
        id="chatcmpl-1",
        created=1,
        model="m",
        ledger=Ledger(),
        sealer=SEALER,
        mint=str,
    )
    written = frames_of(write_stream(read_stream(GOLDEN.read_bytes()), given))
    for frame in golden:
        for choice in frame["choices"]:
            choice.setdefault("logprobs", None)
    assert written == golden


def test_frames_carry_one_head() -> None:
    """One id, time and model; index 0, logprobs null; no usage unasked. req: 69, 72, 76"""
    frames = frames_of(write_stream(events_of(Text(text="ab"), CALL)))
    assert {frame["id"] for frame in frames} == {"chatcmpl-1"}
    assert {frame["created"] for frame in frames} == {5}
    assert {frame["model"] for frame in frames} == {"m"}
    assert {frame["object"] for frame in frames} == {"chat.completion.chunk"}
    assert not any("usage" in frame for frame in frames)
    choices = [frame["choices"][0] for frame in frames]
    assert all(choice["index"] == 0 and choice["logprobs"] is None for choice in choices)
    assert [choice["finish_reason"] for choice in choices[:-1]] == [None] * (len(choices) - 1)


def test_every_kind_of_delta() -> None:
    """The role once, heads of calls once, indexes dense, an empty delta. req: 73, 75, 77, 79"""
    blocks = (Reasoning(parts=("hm",)), Text(text="ab"), Refusal(text="no"), CALL, PATCH)
    assert deltas_of(write_stream(events_of(*blocks))) == [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "h"},
        {"reasoning_content": "m"},
        {"content": "a"},
        {"content": "b"},
        {"refusal": "n"},
        {"refusal": "o"},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "f", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '":1}'}}]},
        {
            "tool_calls": [
                {"index": 1, "id": "c2", "type": "custom", "custom": {"name": "g", "input": ""}}
            ]
        },
        {"tool_calls": [{"index": 1, "custom": {"input": "fr"}}]},
        {"tool_calls": [{"index": 1, "custom": {"input": "ee"}}]},
        {},
    ]


def test_a_hand_written_parser_reads_it() -> None:
    """`data: ` with one space, LF LF, JSON on one line, [DONE] as text. req: 71, 123, 124, 127"""
    stream = write_stream(events_of(Text(text="a\nb\u2028c\u2029d\x85e 日本")))
    text = ""
    for line in stream.decode().splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            text += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
    assert text == "a\nb\u2028c\u2029d\x85e 日本"
    assert b"\r" not in stream
    assert not any(line.startswith((b"event", b"id", b"retry")) for line in stream.split(b"\n"))


@pytest.mark.parametrize(
    "blocks",
    [
        (Text(text="Hello"),),
        (Text(text="Hello"), CALL, ToolCall(id="c3", name="h", arguments="{}")),
        (CALL,),
        (Refusal(text="no"),),
        (THOUGHT, Text(text="a"), Reasoning(parts=("three",)), Text(text="b")),
        (Text(text="ab", annotations=(UrlCitation(url="u", title="T", start=0, end=1),)),),
        (),
    ],
)
@pytest.mark.parametrize("options", [Options(), DETAILS, make_options(reasoning_field="both")])
def test_the_sdk_makes_the_same_of_stream_and_whole(blocks: Any, options: Options) -> None:
    """Dense and complete for the accumulator of openai-python. req: 70, 159"""
    finish = Finish(FinishReason.STOP)
    events = events_of(*blocks, finish=finish)
    found = streamed(events, reply(options=options))["choices"][0]
    expected = whole(fold(events), reply(options=options))["choices"][0]
    assert found["finish_reason"] == expected["finish_reason"]
    kept = ("content", "refusal", "reasoning_content", "reasoning")
    for name in kept:
        assert (found["message"].get(name) or None) == (expected["message"].get(name) or None)
    assert _calls(found["message"]) == _calls(expected["message"])
    assert found["message"].get("annotations") == expected["message"].get("annotations")


def _calls(message: dict[str, Any]) -> list[Any]:
    calls = message.get("tool_calls") or []
    return [
        (call["id"], call["type"], call["function"]["name"], call["function"]["arguments"])
        for call in calls
    ]


class TestUsage:
    USAGE = Usage(input=9, output=5, cached=4, cache_write=2, reasoning=3)
    WRITTEN = (
        '{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,'
        '"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},'
        '"completion_tokens_details":{"reasoning_tokens":3}}'
    )

    def stream(self, request: Request, *usages: Usage) -> list[Any]:
        events = events_of(Text(text="a"))
        events[-1:-1] = [Metered(usage) for usage in usages]
        return frames_of(write_stream(events, reply(request)))

    def test_it_comes_last_in_a_chunk_of_its_own(self) -> None:
        """Only when asked; null on every other chunk. req: 78"""
        *others, last = self.stream(WITH_USAGE, Usage(input=1), self.USAGE)
        assert [frame["usage"] for frame in others] == [None] * len(others)
        assert last["choices"] == []
        assert last["usage"] == json.loads(self.WRITTEN)

    def test_it_is_not_shown_unasked(self) -> None:
        assert not any(
            "usage" in frame for frame in self.stream(Request(model="m", turns=()), self.USAGE)
        )

    def test_unknown_usage_stays_null(self) -> None:
        frames = self.stream(WITH_USAGE)
        assert all(frame["choices"] and frame["usage"] is None for frame in frames)
        assert whole(answer())["usage"] is None

    def test_a_whole_answer_has_it(self) -> None:
        """Three numbers and what is known of their parts. req: 69"""
        assert whole(answer(usage=self.USAGE))["usage"] == json.loads(self.WRITTEN)
        bare = whole(answer(usage=Usage(input=1, output=2)))["usage"]
        assert bare == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


class TestWhole:
    def test_the_shape(self) -> None:
        """Exactly one choice, the client's model name. req: 59, 61, 69, 150"""
        assert whole(answer(Text(text="a"), Text(text="b"), usage=Usage(input=1, output=2))) == {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 5,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "ab", "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        }

    @pytest.mark.parametrize(
        ("blocks", "content"),
        [
            ((), ""),
            ((Text(text="a"),), "a"),
            ((CALL,), None),
            ((Refusal(text="no"),), None),
            ((Text(text="a"), CALL), "a"),
        ],
    )
    def test_content_is_null_beside_calls_alone(self, blocks: Any, content: Any) -> None:
        """Calls are never content. req: 64, 66, 67"""
        assert message(*blocks)["content"] == content

    def test_calls(self) -> None:
        """Id, name and arguments as they are; custom ones in their own form. req: 70"""
        grouped = ToolCall(id="c3", name="f", namespace="ns", arguments="{}")
        assert message(CALL, PATCH, grouped)["tool_calls"] == [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
            {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free"}},
            {"id": "c3", "type": "function", "function": {"name": "ns__f", "arguments": "{}"}},
        ]

    def test_refusals(self) -> None:
        """In a field of their own. req: 65"""
        assert message(Refusal(text="n"), Refusal(text="o"))["refusal"] == "no"

    def test_logprobs(self) -> None:
        record = {"token": "a", "logprob": -0.1, "bytes": None, "top_logprobs": []}
        body = whole(answer(Text(text="a", logprobs=(record,))))
        assert body["choices"][0]["logprobs"] == {"content": [record], "refusal": None}

    def test_metadata_is_echoed(self) -> None:
        given = reply(Request(model="m", turns=(), metadata={"a": "b"}))
        assert whole(answer(), given)["metadata"] == {"a": "b"}

    @pytest.mark.parametrize(
        ("tier", "shown"), [("flex", "flex"), ("ultrafast", "priority"), ("batch", None)]
    )
    def test_tiers(self, tier: str, shown: str | None) -> None:
        assert whole(answer(service_tier=tier)).get("service_tier") == shown
        events = events_of(Text(text="a"))
        events[0] = Started("up_1", "up", 5, tier)
        assert {f.get("service_tier") for f in frames_of(write_stream(events))} == {shown}

    def test_a_tier_known_at_the_end_comes_with_the_usage(self) -> None:
        events = events_of(Text(text="a"))
        events[0] = Started("up_1", "up", 5, "auto")
        events[-1:-1] = [Metered(Usage(input=1), "flex")]
        *others, last = frames_of(write_stream(events, reply(WITH_USAGE)))
        assert {frame["service_tier"] for frame in others} == {"auto"}
        assert last["service_tier"] == "flex"
        ledger = Ledger()
        write_stream(events, reply(ledger=ledger))
        assert [loss.path for loss in ledger] == ["service_tier"]


@pytest.mark.parametrize(
    ("finish", "calls", "word", "losses"),
    [
        (Finish(FinishReason.STOP), False, "stop", set()),
        (Finish(FinishReason.STOP), True, "tool_calls", set()),
        (Finish(FinishReason.TOOL_CALLS), True, "tool_calls", set()),
        (Finish(FinishReason.TOOL_CALLS), False, "stop", set()),
        (Finish(FinishReason.STOP_SEQUENCE), False, "stop", set()),
        (Finish(FinishReason.STOP_SEQUENCE, "END"), False, "stop", {("stop_sequence", KNOB)}),
        (Finish(FinishReason.LENGTH), True, "length", set()),
        (Finish(FinishReason.CONTEXT_WINDOW), False, "length", set()),
        (Finish(FinishReason.CONTENT_FILTER), False, "content_filter", set()),
        (
            Finish(FinishReason.CONTENT_FILTER, category="cyber"),
            False,
            "content_filter",
            {("stop_details.category", KNOB)},
        ),
        (Finish(FinishReason.PAUSE), False, "stop", {("stop_reason", CONVERTED)}),
    ],
)
def test_finish_reasons(finish: Finish, calls: bool, word: str, losses: Losses) -> None:
    """What was produced decides between stop and tool_calls. req: 75"""
    blocks: tuple[Block, ...] = (CALL,) if calls else (Text(text="a"),)
    for stream in (False, True):
        ledger = Ledger()
        if stream:
            written = frames_of(
                write_stream(events_of(*blocks, finish=finish), reply(ledger=ledger))
            )
            found = written[-1]["choices"][0]["finish_reason"]
        else:
            body = whole(answer(*blocks, finish=finish), reply(ledger=ledger))
            found = body["choices"][0]["finish_reason"]
        assert found == word
        assert {(loss.path, loss.kind) for loss in ledger} == losses


class TestReasoning:
    def both(self, *blocks: Block, options: Options = Options()) -> tuple[Any, Any, Losses]:  # noqa: B008
        """The messages of stream and whole, and the losses of both."""
        ledgers = Ledger(), Ledger()
        events = events_of(*blocks)
        first = streamed(events, reply(options=options, ledger=ledgers[0]))
        second = whole(fold(events), reply(options=options, ledger=ledgers[1]))
        losses = [{(loss.path, loss.kind) for loss in ledger} for ledger in ledgers]
        assert losses[0] == losses[1]
        return first["choices"][0]["message"], second["choices"][0]["message"], losses[0]

    @pytest.mark.parametrize(
        ("field", "names"),
        [
            ("reasoning_content", {"reasoning_content"}),
            ("reasoning", {"reasoning"}),
            ("both", {"reasoning_content", "reasoning"}),
        ],
    )
    def test_the_field_is_the_routes_choice(self, field: Any, names: set[str]) -> None:
        """Beside the content; parts and blocks parted by a blank line. req: 79"""
        options = make_options(reasoning_field=field)
        for found in self.both(THOUGHT, Text(text="a"), THOUGHT, options=options)[:2]:
            shown = {name: found[name] for name in found if name.startswith("reasoning")}
            assert shown == dict.fromkeys(names, "one\n\ntwo\n\none\n\ntwo")

    def test_it_can_be_hidden(self) -> None:
        streamed, whole, losses = self.both(THOUGHT, options=make_options(show_reasoning="never"))
        assert "reasoning_content" not in streamed
        assert "reasoning_content" not in whole
        assert losses == {("reasoning", KNOB)}

    def test_state_is_reported_without_the_option(self) -> None:
        streamed, whole, losses = self.both(Reasoning(parts=("a",), opaque=STATE))
        assert "reasoning_details" not in streamed
        assert "reasoning_details" not in whole
        assert losses == {("reasoning", KNOB)}
        assert self.both(Reasoning(parts=("a",), opaque=Opaque("marker", "x")))[2] == set()

    def test_details_carry_every_block_back(self) -> None:
        """Each entry with an index; read again they are the blocks that were sealed."""
        blocks = (
            Reasoning(parts=("one", "two"), opaque=Opaque("openai_responses", "ENC", "rs_1")),
            Reasoning(parts=("plain",)),
            Reasoning(redacted=True, opaque=STATE),
            Reasoning(parts=("three",), opaque=STATE),
        )
        streamed, whole, losses = self.both(*blocks, Text(text="a"), options=DETAILS)
        assert losses == set()
        assert streamed["reasoning_details"] == whole["reasoning_details"]
        assert [entry["index"] for entry in whole["reasoning_details"]] == [0, 1, 2]
        assert [entry["format"] for entry in whole["reasoning_details"]] == [
            "openai",
            "anthropic",
            "anthropic",
        ]
        sent = {key: value for key, value in whole.items() if key != "refusal"}
        body = {"model": "m", "messages": [sent]}
        back = CODEC.translate.read_request(body, SEALER).turns[0].blocks
        found = [
            Reasoning(parts=b.parts, style=b.style, opaque=b.opaque, redacted=b.redacted)
            for b in back
            if isinstance(b, Reasoning)
        ]
        assert found == [blocks[0], blocks[2], blocks[3]]


class TestCitations:
    def both(self, *blocks: Block) -> tuple[Any, Losses]:
        """The annotations, the same in stream and whole, and the losses."""
        ledgers = Ledger(), Ledger()
        events = events_of(*blocks)
        deltas = deltas_of(write_stream(events, reply(ledger=ledgers[0])))
        found = [delta for delta in deltas if "annotations" in delta]
        body = whole(fold(events), reply(ledger=ledgers[1]))
        written = body["choices"][0]["message"].get("annotations")
        assert len(found) == (written is not None)
        if found:
            assert found[0] == deltas[-2] == {"content": "", "annotations": written}
        losses = [{(loss.path, loss.kind) for loss in ledger} for ledger in ledgers]
        assert losses[0] == losses[1]
        return written, losses[0]

    def test_places_are_counted_in_the_message_and_written_once(self) -> None:
        """In the last chunk with content, whatever stood between the texts."""
        first: tuple[Annotation, ...] = (UrlCitation(url="u", title="T", start=1, end=2),)
        second: tuple[Annotation, ...] = (
            UrlCitation(url="v"),
            UrlCitation(url="w", start=0, end=1),
        )
        annotations, losses = self.both(
            Text(text="abc", annotations=first), CALL, Text(text="defg", annotations=second)
        )
        assert [
            (
                a["url_citation"]["url"],
                a["url_citation"]["start_index"],
                a["url_citation"]["end_index"],
            )
            for a in annotations
        ] == [("u", 1, 2), ("v", 3, 7), ("w", 3, 4)]
        # A message shows all its text before its calls.
        assert losses == {("content", CONVERTED)}

    def test_what_a_citation_cannot_carry(self) -> None:
        cited = UrlCitation(url="u", cited_text="q")
        foreign = ForeignCitation("anthropic_messages", {"type": "page_location"})
        annotations, losses = self.both(Text(text="a", annotations=(cited, foreign)))
        assert len(annotations) == 1
        assert losses == {("annotations", KNOB), ("annotations.cited_text", KNOB)}


def test_blocks_without_a_place_are_reported() -> None:
    block = Foreign(origin="anthropic_messages", type="server_tool_use", raw={}, loss=KNOB)
    for stream in (False, True):
        ledger = Ledger()
        given = reply(ledger=ledger)
        if stream:
            assert len(deltas_of(write_stream(events_of(block, Text(text="a")), given))) == 3
        else:
            assert (
                whole(answer(block, Text(text="a")), given)["choices"][0]["message"]["content"]
                == "a"
            )
        assert {(loss.path, loss.kind) for loss in ledger} == {("server_tool_use", KNOB)}


@pytest.mark.parametrize(
    ("head", "name", "other"),
    [(Text(text=""), "content", "refusal"), (Refusal(text=""), "refusal", "content")],
)
def test_logprobs_of_a_piece(head: Block, name: str, other: str) -> None:
    record = {"token": "a", "logprob": -0.1, "bytes": None, "top_logprobs": []}
    events = events_of(head)
    events[2:2] = [Delta(0, "a", (record,))]
    frame = frames_of(write_stream(events))[1]
    assert frame["choices"][0]["delta"] == {name: "a"}
    assert frame["choices"][0]["logprobs"] == {name: [record], other: None}


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_failure_ends_with_the_error_and_done(before: int) -> None:
    """An error object that the SDK raises, then [DONE]; no finish reason. req: 155"""
    fault = Fault(FaultKind.UPSTREAM_FAILED, "it broke", code="upstream_error")
    events = [*events_of(Text(text="ab"))[:before], Failed(fault)]
    *chunks, last = frames_of(write_stream(events))
    assert last == {
        "error": {
            "message": "it broke",
            "type": "server_error",
            "param": None,
            "code": "upstream_error",
        }
    }
    assert all(frame["choices"][0]["finish_reason"] is None for frame in chunks)


def test_nothing_follows_the_end() -> None:
    """[DONE] is the last thing written. req: 80"""
    writer = CODEC.translate.answer_writer(reply(), True)
    stream = b"".join([writer.write(event) for event in events_of(Text(text="a"))])
    assert stream.endswith(DONE)
    with pytest.raises(IllegalEvent):
        writer.write(Delta(0, "more"))


@pytest.mark.parametrize(
    "events",
    [
        [Delta(0, "a")],
        [Started("i", "m"), Started("i", "m")],
        [Started("i", "m"), Opened(0, Text(text="")), Opened(1, Text(text=""))],
        [Started("i", "m"), Opened(0, Text(text="")), Finished(Finish(FinishReason.STOP))],
        [Started("i", "m"), Ended()],
    ],
)
def test_an_illegal_order_is_found(events: list[Event]) -> None:
    with pytest.raises(IllegalEvent):
        write_stream(events)
