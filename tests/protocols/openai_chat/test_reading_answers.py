"""A Chat upstream's answers as events: streams as real servers send them, and whole ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
    Failed,
    Finished,
    Metered,
    Opened,
    Started,
)
from dragoman.canonical.losses import Ledger
from dragoman.canonical.responses import Finish, FinishReason
from dragoman.canonical.usage import Usage
from dragoman.protocols.openai_chat import CODEC
from tests.folded import fold
from tests.protocols.openai_chat.helpers import (
    CONTENT,
    HEAD,
    KNOB,
    ROLE,
    STOP,
    chunk,
    completion,
    failure,
    first_fragment,
    fold_chunks,
    inbound,
    read_chunks,
    read_stream,
    sse,
)

USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
FULL = {
    **USAGE,
    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
GOLDEN = Path(__file__).parents[2] / "golden" / "chat.sse"


def test_the_golden_stream() -> None:
    assert read_stream(GOLDEN.read_bytes()) == [
        Started("chatcmpl-1", "m", 1),
        Opened(0, Text(text="")),
        Delta(0, "Hi"),
        Closed(0),
        Opened(1, ToolCall(id="call_1", name="f")),
        Delta(1, '{"a":1}'),
        Closed(1),
        Finished(Finish(FinishReason.TOOL_CALLS)),
        Metered(Usage(input=9, output=5, cached=4, reasoning=0)),
        Ended(),
    ]


class TestText:
    def test_blocks_open_with_their_first_piece(self) -> None:
        """Nothing opens for the role chunk; the first delta is not lost."""
        assert read_chunks(chunk({"content": "a"}), chunk({"content": "b"}), STOP) == [
            Started("up_1", "up", 5),
            Opened(0, Text(text="")),
            Delta(0, "a"),
            Delta(0, "b"),
            Closed(0),
            Finished(Finish(FinishReason.STOP)),
            Ended(),
        ]

    def test_thinking_between_texts_keeps_three_blocks(self) -> None:
        answer = fold_chunks(
            chunk({"content": "a"}), chunk({"reasoning": "hm"}), chunk({"content": "b"}), STOP
        )
        assert answer.blocks == (
            Text(text="a"),
            Reasoning(parts=("hm",), style="raw"),
            Text(text="b"),
        )

    def test_a_refusal_is_a_block_of_its_own(self) -> None:
        """Visible words, apart from text. req: 97"""
        answer = fold_chunks(chunk({"refusal": "I "}), chunk({"refusal": "won't"}), STOP)
        assert answer.blocks == (Refusal(text="I won't"),)
        assert answer.finish == Finish(FinishReason.STOP)

    def test_logprobs_belong_to_their_piece(self) -> None:
        record = {"token": "a", "logprob": -0.1, "bytes": None, "top_logprobs": []}
        answer = fold_chunks(
            chunk({"content": "a"}, logprobs={"content": [record], "refusal": None}),
            chunk({"content": "b"}),
            STOP,
        )
        assert answer.blocks == (Text(text="ab", logprobs=(record,)),)

    def test_content_as_parts(self) -> None:
        parts = [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "a"},
        ]
        assert fold_chunks(chunk({"content": parts}), STOP).blocks == (
            Reasoning(parts=("hm",), style="raw"),
            Text(text="a"),
        )


class TestReasoning:
    @pytest.mark.parametrize(
        "delta",
        [
            {"reasoning_content": "hm"},
            {"reasoning": "hm"},
            {"reasoning_content": "hm", "reasoning": "hm"},
            {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]},
            {
                "reasoning": "hm",
                "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}],
            },
        ],
    )
    def test_every_field_it_may_come_in(self, delta: dict[str, Any]) -> None:
        """Equal duplicates are used once. req: 79"""
        answer = fold_chunks(chunk(delta), chunk({"content": "a"}), STOP)
        assert answer.blocks == (Reasoning(parts=("hm",), style="raw"), Text(text="a"))

    def test_state_comes_with_the_block(self) -> None:
        """Fragments of an entry are put together; the account is noted."""
        answer = fold_chunks(
            chunk(
                {"reasoning_details": [{"type": "reasoning.text", "text": "h", "index": 0}]},
            ),
            chunk({"reasoning_details": [{"text": "m", "index": 0, "format": None}]}),
            chunk({"reasoning_details": [{"index": 0, "signature": "SIG"}]}),
            chunk({"content": "a"}),
            STOP,
            given=inbound(account="acme"),
        )
        data = '[{"index":0,"signature":"SIG","text":"hm","type":"reasoning.text"}]'
        state = Opaque("openai_chat", data, account="acme")
        assert answer.blocks[0] == Reasoning(parts=("hm",), style="raw", opaque=state)

    def test_entries_that_say_nothing_open_no_block(self) -> None:
        details = [{"type": "reasoning.text", "text": "", "index": 0}]
        answer = fold_chunks(chunk({"reasoning_details": details}), chunk({"content": "a"}), STOP)
        assert answer.blocks == (Text(text="a"),)


class TestFinish:
    @pytest.mark.parametrize(
        ("word", "reason"),
        [
            ("stop", FinishReason.STOP),
            ("eos", FinishReason.STOP),
            ("end_turn", FinishReason.STOP),
            ("STOP", FinishReason.STOP),
            ("length", FinishReason.LENGTH),
            ("max_tokens", FinishReason.LENGTH),
            ("content_filter", FinishReason.CONTENT_FILTER),
            ("tool_calls", FinishReason.STOP),
            ("function_call", FinishReason.STOP),
        ],
    )
    def test_words_without_calls(self, word: str, reason: FinishReason) -> None:
        """`tool_calls` without a call is a stop."""
        answer = fold_chunks(chunk({"content": "a"}), chunk({}, word))
        assert answer.finish.reason is reason

    @pytest.mark.parametrize(
        ("word", "reason"),
        [
            ("stop", FinishReason.TOOL_CALLS),
            ("tool_calls", FinishReason.TOOL_CALLS),
            ("tool_call", FinishReason.TOOL_CALLS),
            ("function_call", FinishReason.TOOL_CALLS),
            ("end_turn", FinishReason.TOOL_CALLS),
            ("length", FinishReason.LENGTH),
            ("content_filter", FinishReason.CONTENT_FILTER),
        ],
    )
    def test_words_with_calls(self, word: str, reason: FinishReason) -> None:
        """`stop` beside a call means the call."""
        answer = fold_chunks(first_fragment(0, "c1", "f", "{}"), chunk({}, word))
        assert answer.finish.reason is reason

    def test_an_unknown_word_is_a_stop_and_reported(self) -> None:
        ledger = Ledger()
        answer = fold_chunks(chunk({"content": "a"}), chunk({}, "whatever"), given=inbound(ledger))
        assert answer.finish.reason is FinishReason.STOP
        assert [loss.path for loss in ledger] == ["choices[0].finish_reason"]

    @pytest.mark.parametrize("name", ["stop_reason", "matched_stop"])
    def test_the_stop_sequence_some_servers_name(self, name: str) -> None:
        answer = fold_chunks(chunk({"content": "a"}), chunk({}, "stop", **{name: "END"}))
        assert answer.finish == Finish(FinishReason.STOP_SEQUENCE, "END")

    @pytest.mark.parametrize("matched", [None, 128001, "", "stop"])
    def test_what_is_no_stop_sequence(self, matched: Any) -> None:
        answer = fold_chunks(chunk({"content": "a"}), chunk({}, "stop", stop_reason=matched))
        assert answer.finish == Finish(FinishReason.STOP)

    def test_the_finish_may_come_with_the_last_piece(self) -> None:
        assert fold_chunks(chunk({"content": "a"}, "stop")).blocks == (Text(text="a"),)

    def test_an_answer_without_any_block(self) -> None:
        assert fold_chunks(chunk({}, "length")).blocks == ()

    @pytest.mark.parametrize("done", [True, False])
    def test_done_is_not_needed_after_a_finish(self, done: bool) -> None:
        """The finish reason is what counts; the terminator is optional. req: 93, 127"""
        events = read_chunks(chunk({"content": "a"}), STOP, done=done)
        assert isinstance(events[-1], Ended)

    @pytest.mark.parametrize("done", [True, False])
    @pytest.mark.parametrize(
        "chunks", [(), (chunk({"content": "a"}),), (first_fragment(0, "c", "f", "{"),)]
    )
    def test_without_a_finish_it_is_not_whole(self, chunks: Any, done: bool) -> None:
        """[DONE] without a finish reason, or the end of bytes, is a failure. req: 156"""
        assert "before the model finished" in failure(read_chunks(*chunks, done=done))

    def test_an_empty_finish_reason_ends_only_with_done(self) -> None:
        chunks = (chunk({"content": "a"}), chunk({}, ""))
        assert fold(read_chunks(*chunks)).finish.reason is FinishReason.STOP
        assert failure(read_chunks(*chunks, done=False))
        assert failure(read_chunks(chunk({"content": "a"}, "")))

    @pytest.mark.parametrize("delta", ["x", ["x"], 5, None])
    def test_an_empty_finish_reason_ends_beside_anything_that_is_no_delta(self, delta: Any) -> None:
        last = chunk(finish="")
        last["choices"][0]["delta"] = delta
        chunks = (chunk({"content": "a"}), last)
        assert fold(read_chunks(*chunks)).finish.reason is FinishReason.STOP

    @pytest.mark.parametrize("word", ["error", "insufficient_system_resource"])
    def test_a_failure_as_the_finish_reason(self, word: str) -> None:
        assert word in failure(read_chunks(chunk({"content": "a"}), chunk({}, word)))

    def test_more_after_the_finish(self) -> None:
        """Nothing is content, something is an error."""
        empty = (chunk({}), chunk({"content": ""}), chunk({"role": "assistant"}, "stop"))
        assert isinstance(read_chunks(STOP, *empty)[-1], Ended)
        assert "goes on" in failure(read_chunks(STOP, chunk({"content": "a"})))

    def test_nothing_is_read_after_the_end(self) -> None:
        assert read_stream(sse(ROLE, STOP) + sse(chunk({"content": "x"}))) == read_stream(
            sse(ROLE, STOP)
        )


class TestUsage:
    @pytest.mark.parametrize(
        "chunks",
        [
            (STOP, {**HEAD, "choices": [], "usage": FULL}),
            ({**STOP, "usage": FULL},),
            ({**HEAD, "choices": [], "usage": FULL}, STOP),
            ({**STOP, "usage": USAGE}, {**HEAD, "choices": [], "usage": FULL}),
            ({**STOP, "usage": FULL}, {**HEAD, "choices": [], "usage": None}),
            (STOP, {**HEAD, "choices": None, "usage": FULL}),
        ],
    )
    def test_the_last_one_counts_wherever_it_stands(self, chunks: Any) -> None:
        """On the finish chunk, before it, or in a chunk of its own. req: 94, 143"""
        answer = fold_chunks(chunk({"content": "a"}), *chunks)
        assert answer.usage == Usage(input=9, output=5, cached=4, cache_write=2, reasoning=3)

    def test_a_chunk_without_choices_before_the_answer(self) -> None:
        """Preambles are ignored; usage in them is only remembered. req: 95"""
        preamble = {**HEAD, "choices": [], "prompt_filter_results": [], "usage": USAGE}
        events = read_stream(sse(preamble, ROLE, chunk({"content": "a"}), STOP))
        assert events[:2] == [Started("up_1", "up", 5), Metered(Usage(input=9, output=5))]

    def test_no_usage_is_unknown(self) -> None:
        assert fold_chunks(chunk({"content": "a"}), STOP).usage is None

    @pytest.mark.parametrize(
        ("extra", "usage"),
        [
            ({"prompt_cache_hit_tokens": 4}, Usage(input=9, output=5, cached=4)),
            ({"cached_tokens": 4}, Usage(input=9, output=5, cached=4)),
            ({"reasoning_tokens": 4}, Usage(input=9, output=5, reasoning=4)),
        ],
    )
    def test_places_of_compatible_servers(self, extra: Any, usage: Usage) -> None:
        assert fold_chunks({**STOP, "usage": {**USAGE, **extra}}).usage == usage

    def test_counts_without_a_home_are_reported(self) -> None:
        ledger = Ledger()
        details = {"audio_tokens": 7, "image_tokens": 0}
        usage = {**USAGE, "prompt_tokens_details": details}
        fold_chunks({**STOP, "usage": usage}, given=inbound(ledger))
        assert [loss.path for loss in ledger] == ["usage.prompt_tokens_details.audio_tokens"]

    def test_the_tier_comes_with_it(self) -> None:
        answer = fold_chunks({**STOP, "usage": USAGE, "service_tier": "flex"})
        assert answer.service_tier == "flex"


class TestCitations:
    def cite(self, start: Any, end: Any, **fields: Any) -> dict[str, Any]:
        citation = {"start_index": start, "end_index": end, "title": "T", "url": "u", **fields}
        return {"annotations": [{"type": "url_citation", "url_citation": citation}]}

    def test_places_are_counted_in_the_block(self) -> None:
        events = read_chunks(
            chunk({"content": "abc"}),
            chunk({"reasoning": "hm"}),
            chunk({"content": "defg"}),
            chunk(self.cite(4, 6)),
            chunk(self.cite(0, 2)),
            STOP,
        )
        found = [event.annotation for event in events if isinstance(event, Annotated)]
        assert found == [
            UrlCitation(url="u", title="T", start=1, end=3),
            UrlCitation(url="u", title="T"),
        ]

    def test_a_citation_may_come_before_its_text(self) -> None:
        answer = fold_chunks(chunk(self.cite(0, 1, content="q")), chunk({"content": "ab"}), STOP)
        cited = UrlCitation(url="u", title="T", start=0, end=1, cited_text="q")
        assert answer.blocks == (Text(text="ab", annotations=(cited,)),)

    def test_other_annotations_are_kept_whole(self) -> None:
        raw = {"type": "file_citation", "file_citation": {"file_id": "f"}}
        answer = fold_chunks(chunk({"content": "a"}), chunk({"annotations": [raw]}), STOP)
        assert answer.blocks == (
            Text(text="a", annotations=(ForeignCitation("openai_chat", raw),)),
        )

    def test_a_citation_of_nothing_is_reported(self) -> None:
        ledger = Ledger()
        fold_chunks(chunk(self.cite(0, 1)), STOP, given=inbound(ledger))
        assert [loss.path for loss in ledger] == ["choices[0].delta.annotations"]


class TestFailures:
    @pytest.mark.parametrize(
        ("frame", "kind"),
        [
            ({"error": {"message": "boom", "type": "server_error"}}, FaultKind.UPSTREAM_FAILED),
            ({"error": {"message": "boom", "code": "slow_down"}}, FaultKind.OVERLOADED),
            ({"error": {"message": "boom", "code": 429}}, FaultKind.RATE_LIMITED),
            ({"error": "boom"}, FaultKind.UPSTREAM_FAILED),
        ],
    )
    def test_error_frames(self, frame: dict[str, Any], kind: FaultKind) -> None:
        """An object or a string, the message is kept. req: 155"""
        events = read_chunks(chunk({"content": "a"}), frame)
        assert failure(events) == "boom"
        assert isinstance(events[-1], Failed)
        assert events[-1].fault.kind is kind
        assert Delta(0, "a") in events

    def test_a_named_error_event(self) -> None:
        events = read_stream(b'event: error\ndata: {"message":"boom"}\n\n')
        assert failure(events) == "boom"

    @pytest.mark.parametrize(
        ("choices", "part"),
        [
            ([{"index": 1, "delta": {"content": "x"}}], "more than one choice"),
            ([{"index": 0, "delta": {}}, {"index": 1, "delta": {}}], "2 choices"),
            ([{"index": 0, "delta": {"role": "user"}}], "another role"),
            (["x"], "choices"),
            (5, "choices"),
            ({"a": 1}, "choices"),
        ],
    )
    def test_several_choices_and_other_roles(self, choices: Any, part: str) -> None:
        """Only one choice of the assistant's can be shown. req: 61, 96"""
        assert part in failure(read_chunks({**HEAD, "choices": choices}))

    @pytest.mark.parametrize(
        "stream", [b"data: <html>\n\n", b"data: [1]\n\n", b'data: {"a":\n\n', b"", b"data: 5\n\n"]
    )
    def test_what_is_no_stream_of_chunks(self, stream: bytes) -> None:
        assert failure(read_stream(stream))

    def test_another_protocols_stream(self) -> None:
        assert failure(read_stream(b'event: message_start\ndata: {"type":"message_start"}\n\n'))


@pytest.mark.parametrize(
    "delta",
    [
        {"tool_calls": 5},
        {"tool_calls": [5, None, {"index": "x", "function": 5}]},
        {"content": 5, "refusal": {}, "annotations": {}, "reasoning": []},
        {"reasoning_details": {"a": 1}, "annotations": [5, {"type": "url_citation"}]},
        {"function_call": "x"},
    ],
)
def test_wrong_types_say_nothing(delta: dict[str, Any]) -> None:
    assert fold_chunks(chunk(delta), STOP).blocks == ()


def test_numbers_that_are_none() -> None:
    head = b'data: {"id":5,"created":"now","model":null,'
    usage = b'"usage":{"prompt_tokens":0.5,"completion_tokens":5.0,"total_tokens":-1}'
    choice = b'"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],'
    answer = fold(read_stream(head + choice + usage + b"}\n\n"))
    assert (answer.id, answer.created, answer.model) == ("", 0, "")
    assert answer.usage == Usage(input=0, output=5)


def test_framing_of_real_servers() -> None:
    """CRLF, comments, no space, several data lines, [DONE] with spaces. req: 123, 124, 125, 128"""
    pretty = b'data: {"id":"up_1","created":5,"model":"up",\ndata: "choices":[{"index":0,\n'
    pretty += b'data: "delta":{"content":"a"}}]}\n\n'
    stream = b": OPENROUTER PROCESSING\r\n\r\n" + pretty.replace(b"\n", b"\r\n")
    stream += sse(STOP, done=False).replace(b"data: ", b"data:") + b"data: [DONE] \n\n"
    assert fold(read_stream(stream)).blocks == (Text(text="a"),)
    large = chunk({"content": "x" * 2_000_000})
    assert fold_chunks(large, STOP).blocks == (Text(text="x" * 2_000_000),)


class TestAccounting:
    def losses(self, *chunks: dict[str, Any]) -> set[tuple[str, Any]]:
        ledger = Ledger()
        fold_chunks(*chunks, given=inbound(ledger))
        return {(loss.path, loss.kind) for loss in ledger}

    def test_fields_without_a_home_are_reported(self) -> None:
        found = self.losses(
            {**chunk({"content": "a"}), "moderation": {"x": 1}},
            chunk({"audio": {"data": "x"}, "content": "b"}),
            chunk({"content": "c"}, something=1),
            STOP,
        )
        assert found == {
            ("moderation", KNOB),
            ("choices[0].delta.audio", CONTENT),
            ("choices[0].something", KNOB),
        }

    def test_meaningless_fields_are_not(self) -> None:
        found = self.losses(
            {**chunk({"content": "a", "audio": None}), "obfuscation": "xyz", "error": None},
            {**chunk({"content": "b"}), "prompt_filter_results": [{"a": 1}]},
            chunk({"content": "c"}, content_filter_results={"hate": {}}),
            STOP,
        )
        assert found == set()

    def test_the_fingerprint_is_no_news(self) -> None:
        """It is in every answer: reporting it would bury what was really lost."""
        ledger = Ledger()
        role = {**ROLE, "system_fingerprint": "fp"}
        read_stream(sse(role, chunk({"content": "a"}), STOP), inbound(ledger))
        assert not len(ledger)


class TestWhole:
    def read(self, body: dict[str, Any]) -> Any:
        return fold(CODEC.translate.read_response(body, inbound()))

    def test_everything_in_order(self) -> None:
        """Reasoning, text, refusal, calls; exactly one choice. req: 55, 61"""
        answer = self.read(
            completion(
                {
                    "reasoning_content": "hm",
                    "content": "a",
                    "refusal": "no",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url_citation": {
                                "start_index": 0,
                                "end_index": 1,
                                "title": "T",
                                "url": "u",
                            },
                        }
                    ],
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "f", "arguments": "{}"},
                        },
                        {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}},
                    ],
                },
                "tool_calls",
                usage=USAGE,
                service_tier="default",
            )
        )
        assert answer.id == "up_1"
        assert answer.model == "up"
        assert answer.created == 5
        assert answer.blocks == (
            Reasoning(parts=("hm",), style="raw"),
            Text(text="a", annotations=(UrlCitation(url="u", title="T", start=0, end=1),)),
            Refusal(text="no"),
            ToolCall(id="c1", name="f", arguments="{}"),
            ToolCall(id="c2", name="g", arguments="x", custom=True),
        )
        assert answer.finish == Finish(FinishReason.TOOL_CALLS)
        assert answer.usage == Usage(input=9, output=5)
        assert answer.service_tier == "default"

    def test_calls_with_equal_ids_or_none_stay_apart(self) -> None:
        call = {"function": {"name": "f", "arguments": "{}"}}
        answer = self.read(completion({"tool_calls": [call, call]}, "stop"))
        ids = [block.id for block in answer.blocks]
        assert len(set(ids)) == 2
        assert answer.finish.reason is FinishReason.TOOL_CALLS

    def test_a_blank_reason_is_an_end(self) -> None:
        """Some servers leave it blank, in streams too; the whole answer is there."""
        answer = self.read(completion({"content": "a"}, finish=""))
        assert answer.finish == Finish(FinishReason.STOP)

    def test_nothing_said_is_an_answer_if_it_finished(self) -> None:
        """Models do answer nothing. req: 62, 67"""
        assert self.read(completion({"content": ""})).blocks == ()

    @pytest.mark.parametrize(
        ("body", "part"),
        [
            ({}, "no choices"),
            (completion({}) | {"choices": []}, "0 choices"),
            (completion({}) | {"choices": [{}, {}]}, "2 choices"),
            (completion({}) | {"choices": [{"index": 0}]}, "no message"),
            (completion({}) | {"choices": ["x"]}, "no message"),
            (completion({"content": "a"}, finish=None), "before the model finished"),
            (completion({"content": "a"}, finish="error"), "error"),
            ({"error": {"message": "boom"}}, "boom"),
            (completion({"content": "a"}) | {"error": {"message": "boom"}}, "boom"),
            ({"type": "message", "content": []}, "no choices"),
        ],
    )
    def test_what_is_no_answer(self, body: dict[str, Any], part: str) -> None:
        """An error in a 200, no or several choices, no finish: never a success. req: 61, 62"""
        with pytest.raises(UpstreamError, match=part):
            CODEC.translate.read_response(body, inbound())

    def test_paths_name_the_message(self) -> None:
        ledger = Ledger()
        list(CODEC.translate.read_response(completion({"audio": {"id": "x"}}), inbound(ledger)))
        assert [loss.path for loss in ledger] == ["choices[0].message.audio"]
