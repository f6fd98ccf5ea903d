"""Streams of Chat servers, and how else they are written."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.call_ids import made_id
from dragoman.canonical.errors import FaultKind
from tests.tables.cells import (
    CHAT_USAGE,
    ROLE,
    STOP,
    chat_chunk,
    chat_stream,
)
from tests.tables.odd import Row, check, ids, told
from tests.tables.odd_chat import (
    CALLS,
    PLAIN,
    THOUGHT,
    TWO,
    X,
    at,
    delta,
    first,
    fragment,
    whole_chunk,
)
from tests.tables.requests import C, JsonObject


def together(*chunks: JsonObject) -> JsonObject:
    """A chunk with the choices of all of them."""
    return {**chunks[0], "choices": [chunk["choices"][0] for chunk in chunks]}


def doubled(chunk: JsonObject) -> JsonObject:
    """A chunk that says its delta as a message as well."""
    choice = chunk["choices"][0]
    return {**chunk, "choices": [{**choice, "message": choice["delta"]}]}


def again(chunk: JsonObject, answer_id: str = "b") -> JsonObject:
    """A chunk with another id."""
    return {**chunk, "id": f"chatcmpl-{answer_id}"}


SECOND_ID = made_id("call_", "chatcmpl-theirs:1600000000:1")
COUNTS: JsonObject = {
    "prompt_tokens": 9,
    "completion_tokens": 5,
    "total_tokens": 14,
    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
COUNTED = chat_stream(ROLE, X, STOP, chat_chunk(usage=COUNTS))


def detail(**members: Any) -> JsonObject:
    """A fragment of an entry of reasoning details."""
    return delta(reasoning_details=[{"index": 0, **members}])


def cited(start: int, end: int, **members: Any) -> JsonObject:
    citation = {"start_index": start, "end_index": end, "title": "T", "url": "u", **members}
    return delta(annotations=[{"type": "url_citation", "url_citation": citation}])


def counting(**members: Any) -> bytes:
    """A stream with other members of usage."""
    return chat_stream(ROLE, X, {**STOP, "usage": {**CHAT_USAGE, **members}})


def counted(**details: Any) -> bytes:
    """The same with the members where they belong."""
    return chat_stream(ROLE, X, STOP, chat_chunk(usage={**CHAT_USAGE, **details}))


def finished(word: str | None, *chunks: JsonObject, **choice: Any) -> bytes:
    """A stream that ends with this finish reason."""
    last = delta(word)
    last["choices"][0].update(choice)
    return chat_stream(ROLE, *(chunks or [X]), last)


A_CALL = first(0, "c1", "f", "{}")
BOTH = chat_stream(ROLE, X, A_CALL, CALLS)
A_FINISHED = finished("tool_calls", A_CALL)
ODD_CHOICE = {**X["choices"][0], "something": 1}
FAILURES = ("error", "insufficient_system_resource", "abort", "cancelled", "network_error")
TOOL_WORDS = ("tool_calls", "tool_call", "tool_use", "function_call")
END = ("end_turn",)
LENGTH = (
    *("incomplete", "max_length", "max_new_tokens", "max_output_tokens", "max_tokens"),
    *("model_context_window_exceeded", "model_length", "repetition", "token_limit"),
)
FROM_CHAT = [
    *(
        Row(f"tool calls, {how}", chat_stream(ROLE, *chunks, CALLS), TWO)
        for how, chunks in {
            "id and name repeated": [
                first(0, "c1", "f", '{"a"'),
                first(0, "c1", "f", ":1}"),
                first(1, "c2", "g", '{"b":2}'),
                first(1, "c2", "g", ""),
            ],
            "no index": [
                first(None, "c1", "f"),
                fragment(None, '{"a":1}'),
                first(None, "c2", "g", '{"b":2}'),
            ],
            "a new id with every fragment": [
                first(0, "c1", "f"),
                fragment(0, '{"a":1}', id="zz1"),
                first(1, "c2", "g"),
                fragment(1, '{"b":2}', id="zz2"),
            ],
            "id after the name": [
                fragment(0, "", name="f"),
                fragment(0, '{"a"', id="c1"),
                fragment(0, ":1}"),
                first(1, "c2", "g", '{"b":2}'),
            ],
            "name after the arguments began": [
                fragment(0, '{"a"', id="c1"),
                fragment(0, ":1}", name="f"),
                first(1, "c2", "g", '{"b":2}'),
            ],
            "arguments as an object": [
                delta(
                    tool_calls=[
                        {"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}},
                        {"id": "c2", "function": {"name": "g", "arguments": {"b": 2}}},
                    ]
                )
            ],
            "a first fragment without arguments": [
                fragment(0, None, id="c1", name="f"),
                fragment(0, '{"a":1}'),
                first(1, "c2", "g", '{"b":2}'),
            ],
            "names in fragments": [
                first(0, "c1", "f", '{"a":1}'),
                fragment(1, None, id="c2", name=""),
                fragment(1, '{"b":2}', name="g"),
            ],
            "blank pieces of a call that is over": [
                first(0, "c1", "f", '{"a":1}'),
                first(1, "c2", "g", '{"b":2}'),
                fragment(0, " "),
                fragment(0, ""),
            ],
        }.items()
    ),
    *(
        Row(
            f"a name in fragments, {how}",
            chat_stream(ROLE, *chunks, CALLS),
            chat_stream(ROLE, first(0, "c1", "get_weather", "{}"), CALLS),
        )
        for how, chunks in {
            "the id once": [
                first(0, "c1", "get_"),
                fragment(0, None, name="wea"),
                fragment(0, "{}", name="ther"),
            ],
            "the id in each": [
                first(0, "c1", "get_"),
                first(0, "c1", "weather"),
                fragment(0, "{}"),
            ],
            "as far as it goes": [
                first(0, "c1", "get_"),
                first(0, "c1", "get_weather"),
                fragment(0, "{}"),
            ],
        }.items()
    ),
    Row(
        "two calls of one id",
        chat_stream(ROLE, first(0, "c1", "f", "{}"), first(1, "c1", "f", "{}"), CALLS),
        chat_stream(
            ROLE,
            first(0, "c1", "f", "{}"),
            first(1, SECOND_ID, "f", "{}"),
            CALLS,
        ),
    ),
    Row(
        "a whole completion as one event",
        chat_stream(whole_chunk({"role": "assistant", "content": "x"}, "stop")),
        PLAIN,
    ),
    Row(
        "calls in a whole completion as one event",
        chat_stream(
            whole_chunk(
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c1", "function": {"name": "f", "arguments": '{"a":1}'}},
                        {"id": "c2", "function": {"name": "g", "arguments": '{"b":2}'}},
                    ],
                },
                "tool_calls",
            )
        ),
        TWO,
    ),
    Row(
        "messages in place of deltas",
        chat_stream(whole_chunk({"content": "x"}), whole_chunk({"content": ""}, "stop")),
        PLAIN,
    ),
    Row(
        "a message that repeats its deltas",
        chat_stream(ROLE, X, whole_chunk({"content": "x"}, "stop")),
        PLAIN,
        {"choices[0].message": "knob"},
    ),
    Row(
        "more of a call that is over",
        chat_stream(ROLE, A_CALL, first(1, "c2", "g"), fragment(0, "x")),
    ),
    Row(
        "two calls without ids at one index",
        chat_stream(ROLE, fragment(0, "{}", name="f"), fragment(0, "{}", name="f", id=""), CALLS),
        chat_stream(
            ROLE,
            first(0, f"call_{'a' * 24}", "f", "{}"),
            first(1, f"call_{'b' * 24}", "f", "{}"),
            CALLS,
        ),
    ),
    Row("a call without a name", chat_stream(ROLE, fragment(0, "{}", id="c1"), CALLS)),
    Row(
        "text after a call",
        chat_stream(ROLE, A_CALL, X, CALLS),
        chat_stream(ROLE, A_CALL, {**ROLE, **X}, CALLS),
    ),
    *(
        Row(
            f"reasoning in {', '.join(members)}",
            chat_stream(ROLE, delta(**members), X, STOP),
            THOUGHT,
        )
        for members in (
            {"reasoning": "hm"},
            {"reasoning_content": "hm", "reasoning": "hm"},
        )
    ),
    Row(
        "content as parts",
        chat_stream(
            ROLE,
            delta(
                content=[
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    {"type": "text", "text": "x"},
                ]
            ),
            STOP,
        ),
        THOUGHT,
    ),
    Row(
        "an entry of reasoning details in fragments",
        chat_stream(
            ROLE,
            detail(type="reasoning.text", text="h"),
            detail(text="m", format=None),
            detail(signature="SIG"),
            X,
            STOP,
        ),
        chat_stream(ROLE, detail(type="reasoning.text", text="hm", signature="SIG"), X, STOP),
    ),
    Row(
        "an entry that says nothing",
        chat_stream(ROLE, detail(type="reasoning.text", text=""), X, STOP),
        PLAIN,
    ),
    *(
        Row(f"finish reason {word}", finished(word), PLAIN)
        for word in ("eos", "eos_token", "complete", "STOP", "stop_sequence", *TOOL_WORDS, *END)
    ),
    *(
        Row(
            f"finish reason {word} beside a call",
            finished(word, A_CALL),
            finished("tool_calls", A_CALL),
        )
        for word in ("stop", *TOOL_WORDS, *END)
    ),
    *(Row(f"finish reason {word}", finished(word), finished("length")) for word in LENGTH),
    *(
        Row(f"finish reason {word}", finished(word), finished("content_filter"))
        for word in ("safety", "sensitive", "refusal", "recitation")
    ),
    *(
        Row(f"finish reason {word} is a failure", finished(word))
        for word in (*FAILURES, "MALFORMED_FUNCTION_CALL")
    ),
    Row(
        "a finish reason that nobody knows",
        finished("tired"),
        PLAIN,
        {"choices[0].finish_reason": "converted"},
    ),
    *(
        Row(f"no stop string: {matched!r}", finished("stop", stop_reason=matched), PLAIN)
        for matched in (None, 128001, "", "stop")
    ),
    Row("finish reason with the last piece", chat_stream(ROLE, delta("stop", content="x")), PLAIN),
    Row("blank finish reason", finished(""), PLAIN),
    *(
        Row(f"blank finish reason beside the delta {value!r}", finished("", delta=value), PLAIN)
        for value in ("", ["x"], 5, None)
    ),
    Row("blank finish reason without a terminator", chat_stream(ROLE, X, delta(""), done=False)),
    Row("blank finish reason beside content", chat_stream(ROLE, delta("", content="x"))),
    Row(
        "nothing more after the finish",
        chat_stream(ROLE, X, STOP, delta(), delta(content=""), delta("stop", role="assistant")),
        PLAIN,
    ),
    Row(
        "a finish reason in every chunk",
        chat_stream(
            delta("stop", role="assistant", content=""), delta("stop", content="x"), X, STOP
        ),
        chat_stream(ROLE, X, X, STOP),
    ),
    Row(
        "a finish reason in every chunk, of which the last counts",
        chat_stream(delta("stop", content="x"), delta("length", content="x")),
        chat_stream(ROLE, X, X, delta("length")),
    ),
    Row(
        "pieces after a chunk with all and a reason",
        chat_stream(ROLE, delta("stop", content="x"), X),
    ),
    *(
        Row(f"text in one choice, a call in another, {how}", chat_stream(*made), BOTH)
        for how, made in {
            "after it": [ROLE, X, STOP, at(1, A_CALL), at(1, CALLS)],
            "before it": [at(0, ROLE), X, at(1, A_CALL), at(1, CALLS), STOP],
            "in the second": [at(1, ROLE), at(1, X), at(1, STOP), A_CALL, CALLS],
            "in one chunk": [ROLE, together(X, at(1, A_CALL)), together(STOP, at(1, CALLS))],
        }.items()
    ),
    *(
        Row(f"two choices with {what}", chat_stream(ROLE, *made))
        for what, made in {
            "text": [X, at(1, X), STOP, at(1, STOP)],
            "text, the second first": [at(1, X), X, STOP, at(1, STOP)],
            "text, in one chunk without indexes": [together(at(None, X), at(None, X)), STOP],
            "calls": [A_CALL, at(1, A_CALL), CALLS, at(1, CALLS)],
            "a call that never ends": [X, STOP, at(1, A_CALL)],
        }.items()
    ),
    Row(
        "text that was cut in one choice, a call in another",
        chat_stream(ROLE, X, delta("length"), at(1, A_CALL), at(1, CALLS)),
        chat_stream(ROLE, X, A_CALL, delta("length")),
    ),
    Row("arguments that are null", finished("tool_calls", first(0, "c1", "f", "null")), A_FINISHED),
    Row(
        "arguments that are null, in pieces",
        finished("tool_calls", first(0, "c1", "f", "nu"), fragment(0, "ll")),
        A_FINISHED,
    ),
    Row("a text beside the content", chat_stream(ROLE, delta(text="x"), STOP), PLAIN),
    Row("content that is false", chat_stream(ROLE, delta(content=False), X, STOP), PLAIN),
    Row(
        "reasoning in blocks of thoughts",
        chat_stream(ROLE, delta(thinking_blocks=[{"thinking": "hm"}]), X, STOP),
        THOUGHT,
    ),
    Row(
        "reasoning once more in its details",
        chat_stream(
            ROLE,
            delta(reasoning_content="h"),
            delta(reasoning_content="m"),
            delta(reasoning_details=[{"type": "reasoning.text", "text": "hm", "index": 0}]),
            X,
            STOP,
        ),
        THOUGHT,
    ),
    Row(
        "a message that is the delta beside it, with pieces of a call",
        chat_stream(ROLE, *map(doubled, (first(0, "c1", "f", '{"a":'), fragment(0, "1}"))), CALLS),
        chat_stream(ROLE, first(0, "c1", "f", '{"a":1}'), CALLS),
        {"choices[0].message": "knob"},
    ),
    Row("another answer in its middle", chat_stream(ROLE, X, again(ROLE), X, STOP)),
    Row(
        "another answer before anything of the first",
        chat_stream(ROLE, again(ROLE), again(X), again(STOP)),
        PLAIN,
    ),
    Row(
        "an id for each chunk, and a role in each",
        chat_stream(ROLE, *(again(delta(role="assistant", content="x"), n) for n in "bcd"), STOP),
        chat_stream(ROLE, X, X, X, STOP),
    ),
    Row(
        "a citation after the finish",
        chat_stream(ROLE, X, STOP, cited(0, 1)),
        PLAIN,
        {"choices[0].delta.annotations": "knob"},
    ),
    *(
        Row(f"usage {where}", chat_stream(ROLE, X, *chunks), COUNTED)
        for where, chunks in {
            "on the finish chunk": [{**STOP, "usage": COUNTS}],
            "before the finish": [chat_chunk(usage=COUNTS), STOP],
            "twice": [{**STOP, "usage": CHAT_USAGE}, chat_chunk(usage=COUNTS)],
            "and then none": [{**STOP, "usage": COUNTS}, chat_chunk(usage=None)],
            "beside choices of null": [STOP, {**chat_chunk(usage=COUNTS), "choices": None}],
        }.items()
    ),
    Row(
        "cached tokens as DeepSeek counts them",
        counting(prompt_cache_hit_tokens=4),
        counted(prompt_tokens_details={"cached_tokens": 4}),
    ),
    Row(
        "cached tokens beside the others",
        counting(cached_tokens=4),
        counted(prompt_tokens_details={"cached_tokens": 4}),
    ),
    Row(
        "reasoning tokens beside the others",
        counting(reasoning_tokens=4),
        counted(completion_tokens_details={"reasoning_tokens": 4}),
    ),
    Row(
        "counts without a counterpart",
        counting(prompt_tokens_details={"audio_tokens": 7, "image_tokens": 0}),
        counted(),
        {"usage.prompt_tokens_details.audio_tokens": "knob"},
    ),
    Row(
        "numbers that are none",
        b'data: {"id":5,"created":"now","model":null,"choices":[{"delta":{"content":"x"},'
        b'"finish_reason":"stop"}],"usage":{"prompt_tokens":0.5,"completion_tokens":5.0,'
        b'"total_tokens":-1}}\n\n',
        chat_stream(
            {**delta(content="x"), "created": 5},
            STOP,
            chat_chunk(usage={"prompt_tokens": 0, "completion_tokens": 5}),
        ),
    ),
    Row(
        "a citation before its text",
        chat_stream(ROLE, cited(0, 1), X, STOP),
        chat_stream(ROLE, X, cited(0, 1), STOP),
    ),
    Row(
        "a citation of nothing",
        chat_stream(ROLE, cited(0, 1), STOP),
        chat_stream(ROLE, STOP),
        {"choices[0].delta.annotations": "knob"},
    ),
    *(
        Row(
            f"members of wrong types: {members}",
            chat_stream(ROLE, delta(**members), STOP),
            FaultKind.UPSTREAM_FAILED if "content" in lost.values() else chat_stream(ROLE, STOP),
            lost,
        )
        for members, lost in (
            ({"tool_calls": 5}, {"choices[0].delta.tool_calls": "content"}),
            (
                {"tool_calls": [5, None, {"index": "x", "function": 5}]},
                {"choices[0].delta.tool_calls": "content"},
            ),
            ({"content": None, "refusal": {}, "annotations": {}, "reasoning": []}, {}),
            (
                {"reasoning_details": {"a": 1}, "annotations": [5, {"type": "url_citation"}]},
                {"choices[0].delta.annotations": "knob"},
            ),
            ({"function_call": "x"}, {}),
        )
    ),
    *(
        Row(f"choices: {choices!r}", chat_stream(ROLE, {**ROLE, "choices": choices}))
        for choices in (["x"], 5, {"a": 1})
    ),
    *(
        Row(f"error: {error!r}", chat_stream(ROLE, X, {"error": error}), kind)
        for error, kind in (
            ({"message": "boom", "type": "server_error"}, FaultKind.UPSTREAM_FAILED),
            ({"message": "boom", "code": "slow_down"}, FaultKind.OVERLOADED),
            ({"message": "boom", "code": 429}, FaultKind.RATE_LIMITED),
            ("boom", FaultKind.UPSTREAM_FAILED),
        )
    ),
    Row(
        "an event named error",
        b'event: error\ndata: {"message":"boom","code":"rate_limit_exceeded"}\n\n',
        FaultKind.RATE_LIMITED,
    ),
    Row("a stream of Messages", b'event: message_start\ndata: {"type":"message_start"}\n\n'),
    *(
        Row(f"no chunks: {data!r}", data)
        for data in (b"data: <html>\n\n", b"data: [1]\n\n", b'data: {"a":\n\n', b"", b"data: 5\n\n")
    ),
    Row(
        "members without a counterpart",
        chat_stream(
            ROLE,
            {**delta(content="x"), "moderation": {"x": 1}, "obfuscation": "xyz", "error": None},
            {**delta(audio={"data": "x"}, content="y"), "prompt_filter_results": [{"a": 1}]},
            {**STOP, "system_fingerprint": "fp"},
        ),
        chat_stream(ROLE, X, delta(content="y"), STOP),
        {"choices[0].delta.audio": "content", "moderation": "knob"},
    ),
    Row(
        "a member of a choice without a counterpart",
        chat_stream(ROLE, chat_chunk({"content": "x"}), {**X, "choices": [ODD_CHOICE]}, STOP),
        chat_stream(ROLE, X, X, STOP),
        {"choices[0].something": "knob"},
    ),
]


@pytest.mark.parametrize("row", FROM_CHAT, ids=ids(FROM_CHAT))
def test_row(row: Row) -> None:
    """Never a false success, nor a failure of what can be read. req: 94, 127, 156, 163"""
    check(C, row)


def test_places_of_citations_are_counted_in_their_block() -> None:
    """Servers count them in the whole answer; one that began before the block is of all of it."""
    found = told(
        C,
        chat_stream(
            ROLE, X, delta(reasoning="hm"), delta(content="defg"), cited(2, 4), cited(0, 1), STOP
        ),
    )
    assert found.answer is not None
    (part,) = found.answer["output"][-1]["content"]
    places = [(note["start_index"], note["end_index"]) for note in part["annotations"]]
    assert places == [(1, 3), (0, 4)]
