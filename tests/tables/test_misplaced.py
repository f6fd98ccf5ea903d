"""Streams that say something where the protocol has nothing said: at ends, beside what says it, in
the other member for calls. It is read once, or the answer fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.http import events
from tests.library import translate_request
from tests.losses.clients import asking
from tests.protocols.openai_responses.upstream import events_of, message, response
from tests.protocols.openai_responses.upstream import stream_of as responses_stream
from tests.protocols.openai_responses.upstream import text as output_text
from tests.tables.cells import (
    ROLE,
    STOP,
    block,
    chat_stream,
    chunks,
    message_end,
    message_start,
    named_stream,
    text_block,
    tool_block,
)
from tests.tables.odd import Row, check, ids
from tests.tables.odd_chat import CALLS, PLAIN, THOUGHT, X, delta, fragment
from tests.tables.odd_messages import again
from tests.tables.requests import A, C, JsonObject, R

ARGUMENTS = '{"a":1}'
CALLED = fragment(0, ARGUMENTS, id="c1", type="function", name="f")
LEGACY = delta(function_call={"name": "f", "arguments": ARGUMENTS})
ONE = chat_stream(ROLE, CALLED, CALLS)
OTHER = delta(function_call={"name": "g", "arguments": "{}"})


def choice(**members: Any) -> JsonObject:
    """A chunk whose choice has no delta."""
    return {**X, "choices": [{"index": 0, "finish_reason": None, **members}]}


CHAT_ROWS = [
    Row("a call of which nothing came", chat_stream(ROLE, X, fragment(0, ""), CALLS)),
    Row("the same in an answer without calls", chat_stream(ROLE, X, fragment(0, ""), STOP), PLAIN),
    Row("a call, and the same in the older member", chat_stream(ROLE, CALLED, LEGACY, CALLS), ONE),
    Row(
        "a call in pieces, and its twin between them",
        chat_stream(
            ROLE,
            fragment(0, '{"a"', id="c1", type="function", name="f"),
            delta(function_call={"name": "f", "arguments": '{"a"'}),
            fragment(0, ":1}"),
            delta(function_call={"arguments": ":1}"}),
            CALLS,
        ),
        ONE,
    ),
    Row(
        "another call in the older member",
        chat_stream(ROLE, CALLED, OTHER, CALLS),
        chat_stream(ROLE, CALLED, fragment(1, "{}", type="function", name="g"), CALLS),
    ),
    Row("text in the choice", chat_stream(ROLE, choice(content="x", delta={}), STOP), PLAIN),
    Row("the same in its delta", chat_stream(ROLE, {**X, "choices": [
        {**X["choices"][0], "content": "x"}]}, STOP), PLAIN),
    Row("another text there", chat_stream(ROLE, {**X, "choices": [
        {**X["choices"][0], "content": "y"}]}, STOP)),
    Row("reasoning in the choice", chat_stream(ROLE, choice(reasoning="hm"), X, STOP), THOUGHT),
    Row("a call in the choice", chat_stream(
        ROLE, choice(tool_calls=CALLED["choices"][0]["delta"]["tool_calls"]), CALLS), ONE),
    Row(
        "text beside the choices, and nothing else",
        chat_stream(ROLE, {**delta(), "content": "x"}, STOP),
        lost={"content": "content"},
    ),
]  # fmt: skip

BEGIN = message_start(input_tokens=5)
END, OVER = message_end()
SAID = named_stream(BEGIN, *text_block(0, "x"), END, OVER)
CONTENT = [{"type": "text", "text": "x"}]
USED = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
HM = [{"type": "thinking_delta", "thinking": "hm"}]


def stopped(start: JsonObject, **members: Any) -> bytes:
    """A block without pieces, and what its end has."""
    head, end = block(0, start)
    return named_stream(BEGIN, head, {**end, **members}, END, OVER)


MESSAGES_ROWS = [
    Row("the text in its block's end", stopped({"type": "text", "text": ""},
        content_block=CONTENT[0]), SAID),
    Row("bare", stopped({"type": "text", "text": ""}, text="x"), SAID),
    Row("once more", named_stream(
        BEGIN, *text_block(0, "x")[:-1],
        {**text_block(0)[-1], "content_block": CONTENT[0]}, END, OVER), SAID),
    Row("thinking in its block's end", stopped({"type": "thinking", "thinking": ""},
        thinking="hm"), named_stream(
            BEGIN, *block(0, {"type": "thinking", "thinking": ""}, *HM), END, OVER)),
    Row("an input in its block's end", stopped(USED, content_block={**USED, "input": {"a": 1}}),
        named_stream(BEGIN, *block(
            0, USED, {"type": "input_json_delta", "partial_json": ARGUMENTS}), END, OVER)),
    *(
        Row(f"{name} in the end of the message", named_stream(BEGIN, end, OVER), SAID)
        for name, end in (
            ("content", {**END, "delta": {**END["delta"], "content": CONTENT}}),
            ("one text", {**END, "delta": {**END["delta"], "content": "x"}}),
            ("text", {**END, "delta": {**END["delta"], "text": "x"}}),
        )
    ),
    Row("a piece there", named_stream(
        BEGIN, {"type": "message_delta", "delta": {"type": "text_delta", "text": "x"}},
        END, OVER), SAID),
    Row("all of it in the last event", named_stream(
        BEGIN, {**OVER, "message": {"content": CONTENT, "stop_reason": "end_turn"}}),
        named_stream(BEGIN, *text_block(0, "x"), {**END, "usage": {}}, OVER)),
    Row("all of it once more", named_stream(
        BEGIN, *text_block(0, "x"), END, {**OVER, "message": {"content": CONTENT}}), SAID),
    Row("more in a block's end than in its pieces", named_stream(
        BEGIN, *text_block(0, "x")[:-1],
        {**text_block(0)[-1], "content_block": {"type": "text", "text": "xy"}}, END, OVER),
        named_stream(BEGIN, *text_block(0, "x", "y"), END, OVER)),
    Row("something else there", named_stream(
        BEGIN, *text_block(0, "x")[:-1],
        {**text_block(0)[-1], "content_block": {"type": "text", "text": "y"}}, END, OVER)),
    Row("another input there", named_stream(
        BEGIN, *tool_block(0, 1, ARGUMENTS, name="f")[:-1],
        {**text_block(0)[-1], "content_block": {**USED, "input": {"a": 2}}}, END, OVER)),
    Row("more in the last event", named_stream(
        BEGIN, *text_block(0, "x"), END,
        {**OVER, "message": {"content": [{"type": "text", "text": "xy"}]}}),
        named_stream(BEGIN, *text_block(0, "x"), *text_block(1, "y"), END, OVER)),
    Row("a call that only the last event has", named_stream(
        BEGIN, *text_block(0, "x"), END,
        {**OVER, "message": {"content": [*CONTENT, {**USED, "input": {"a": 1}}]}}),
        named_stream(BEGIN, *text_block(0, "x"), *block(
            1, USED, {"type": "input_json_delta", "partial_json": ARGUMENTS}), END, OVER)),
    Row("something else in the last event", named_stream(
        BEGIN, *text_block(0, "x"), END,
        {**OVER, "message": {"content": [{"type": "text", "text": "y"}]}})),
    Row("another call there", named_stream(
        BEGIN, *tool_block(0, 1, ARGUMENTS, name="f"), END,
        {**OVER, "message": {"content": [{**USED, "input": {"a": 2}}]}})),
    Row("an input as text", named_stream(BEGIN, *block(0, {**USED, "input": ARGUMENTS}), END, OVER),
        named_stream(BEGIN, *block(
            0, USED, {"type": "input_json_delta", "partial_json": ARGUMENTS}), END, OVER)),
    Row("an input as text that is none", named_stream(
        BEGIN, *block(0, {"type": "call", "id": "t", "name": "f", "arguments": "a"}), END, OVER)),
    Row("reasoning under another name, in deltas of text", named_stream(
        BEGIN, *block(0, {"type": "reasoning", "text": ""}, {"type": "text_delta", "text": "h"},
            {"type": "text_delta", "text": "m"}), *text_block(1, "x"), END, OVER),
        named_stream(BEGIN, *block(0, {"type": "thinking", "thinking": ""}, *HM),
            *text_block(1, "x"), END, OVER)),
]  # fmt: skip

WHOLE = message(output_text("x"))
BARE = {**WHOLE, "content": []}
ITEM = {"type": "response.output_item.added", "output_index": 0, "item": BARE}


def finished(item: JsonObject) -> bytes:
    """A stream of one item, of which there are no pieces."""
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    first, last = events_of(response())[0], events_of(response(item))[-1]
    return responses_stream([first, ITEM, done, last])


HEAD = {"type": "function_call", "id": "x", "call_id": "c", "name": "h", "arguments": ""}
RESPONSES_ROWS = [
    Row(
        "arguments in another place, under the id of a call that comes later",
        responses_stream(
            [
                events_of(response())[0],
                {
                    "type": "response.function_call_arguments.done",
                    "item_id": "x",
                    "output_index": 1,
                    "arguments": ARGUMENTS,
                },
                {"type": "response.output_item.added", "output_index": 3, "item": HEAD},
                {
                    "type": "response.output_item.done",
                    "output_index": 3,
                    "item": {**HEAD, "id": "y", "call_id": "d", "arguments": '{"b":2}'},
                },
                events_of(response())[-1],
            ]
        ),
    ),
    *(
        Row(f"{name} of a message", finished({**BARE, name: "x"}), finished(WHOLE))
        for name in ("text", "output_text")
    ),
    Row("beside its parts", finished({**WHOLE, "text": "x"}), finished(WHOLE)),
    Row(
        "an answer of nothing but what nobody reads",
        responses_stream(events_of({**response(), "output": [{**BARE, "answer": "x"}]})),
        lost={
            f"response.output_item.{kind}[0].item.answer": "content" for kind in ("added", "done")
        },
    ),
]


@pytest.mark.parametrize("row", CHAT_ROWS, ids=ids(CHAT_ROWS))
def test_chat(row: Row) -> None:
    """A call is made once, and text arrives."""
    check(C, row)


@pytest.mark.parametrize("row", MESSAGES_ROWS, ids=ids(MESSAGES_ROWS))
def test_messages(row: Row) -> None:
    """Text arrives, wherever it stands."""
    check(A, row)


@pytest.mark.parametrize("row", RESPONSES_ROWS, ids=ids(RESPONSES_ROWS))
def test_responses(row: Row) -> None:
    """Text arrives, wherever it stands."""
    check(R, row)


def passed(protocol: str, stream: bytes) -> tuple[bytes, str]:
    """A stream within one protocol as the client is given it, and why it failed."""
    made = translate_request(protocol, protocol, json.dumps(asking(protocol, stream=True)).encode())
    translator = made.open_stream()
    written = translator.feed(stream) + translator.finish()
    fault = translator.outcome.fault
    return written, "" if fault is None else fault.message


def with_id(event: JsonObject, name: str) -> JsonObject:
    held = {**event["response"], "id": name} if "response" in event else None
    return event if held is None else {**event, "response": held}


SECOND = {
    C: chat_stream(
        ROLE, X, X, *({**one, "id": "other"} for one in (ROLE, delta(content="y"), STOP))
    ),
    A: named_stream(BEGIN, *text_block(0, "x"), again("other"), *text_block(0, "y"), END, OVER),
    R: responses_stream(
        events_of(response(WHOLE))[:-1]
        + [with_id(event, "other") for event in events_of(response(message(output_text("y"))))]
    ),
}


@pytest.mark.parametrize("protocol", [C, A, R])
def test_a_second_answer_within_one_protocol(protocol: str) -> None:
    """Clients would join the two."""
    written, why = passed(protocol, SECOND[protocol])
    assert why.endswith("begins in it")
    assert b"x" in written
    assert b'"y"' not in written
    assert b"begins in it" in written


def test_a_second_answer_right_after_the_first_piece() -> None:
    other = ({**one, "id": "other"} for one in (ROLE, delta(content="y"), STOP))
    written, why = passed(C, chat_stream(ROLE, X, *other))
    assert why.endswith("begins in it")
    assert b'"y"' not in written


def test_ids_and_roles_that_every_chunk_has_are_no_second_answer() -> None:
    made = [
        {**X, "id": f"c{number}", "choices": [
            {**X["choices"][0], "delta": {"role": "assistant", "content": "x"}}]}
        for number in range(4)
    ]  # fmt: skip
    written, why = passed(C, chat_stream(ROLE, *made, STOP))
    assert not why
    texts = [chunk["choices"][0]["delta"].get("content") for chunk in chunks(written)[:-1]]
    assert texts.count("x") == 4


def test_types_that_stand_in_names_alone() -> None:
    """Clients read the type from the data."""
    told = events_of(response(WHOLE))
    stream = b""
    for event in told:
        bare = {name: value for name, value in event.items() if name != "type"}
        stream += b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(bare).encode())
    written, why = passed(R, stream)
    assert not why
    assert [event["type"] for _, event in events(written)] == [event["type"] for event in told]
