"""Streams whose words and shapes are not the protocol's own, and what they mean all the same.

Text that stands in a place nobody named is text; what cannot be read as any is lost content.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocols.openai_responses.upstream import events_of, message, response
from tests.protocols.openai_responses.upstream import stream_of as responses_stream
from tests.protocols.openai_responses.upstream import text as output_text
from tests.tables.cells import (
    ROLE,
    STOP,
    block,
    chat_stream,
    message_end,
    message_start,
    named_stream,
    text_block,
)
from tests.tables.odd import Row, check, ids
from tests.tables.odd_chat import (
    CALLS,
    PLAIN,
    THOUGHT,
    X,
    delta,
    first,
    fragment,
    whole_chunk,
)
from tests.tables.requests import A, C, JsonObject, R

TWICE = chat_stream(ROLE, delta(content="Go"), delta(content="od"), STOP)


def said(content: str) -> bytes:
    return chat_stream(ROLE, delta(content=content), STOP)


def unended(chunk: JsonObject) -> JsonObject:
    """A chunk whose finish reason is a null in words."""
    return {**chunk, "choices": [{**chunk["choices"][0], "finish_reason": "null"}]}


def message_chunk(message: Any) -> JsonObject:
    """A chunk with a whole message and no end."""
    return whole_chunk(message)


CALLED = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
CALLED_TOO = {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}}

CHAT_ROWS = [
    *(
        Row(f"the role {role}", chat_stream(delta(role=role), X, STOP), PLAIN)
        for role in ("model", "Assistant", "ai")
    ),
    Row("another speaker", chat_stream(delta(role="Tool", content="x"), STOP)),
    Row("a finish word", chat_stream(ROLE, X, delta("normal")), PLAIN),
    Row(
        "an answer cut for its repetition",
        chat_stream(ROLE, X, delta("repetition")),
        chat_stream(ROLE, X, delta("length")),
    ),
    Row("null in words", chat_stream(unended(ROLE), unended(X), STOP), PLAIN),
    Row("nothing but null in words", chat_stream(ROLE, unended(X))),
    Row(
        "frames without data",
        b"data:\n\ndata: \n\nevent: ping\ndata:\n\n" + chat_stream(ROLE, X, STOP),
        PLAIN,
    ),
    *(
        Row(f"reasoning in {name}", chat_stream(ROLE, delta(**{name: "hm"}), X, STOP), THOUGHT)
        for name in ("thinking", "reasoning_text")
    ),
    Row(
        "texts for objects",
        chat_stream(
            {**X, "choices": [{"index": 0, "delta": "Go", "finish_reason": None}]},
            {**X, "choices": [{"index": 0, "delta": "od", "finish_reason": "stop"}]},
        ),
        TWICE,
    ),
    Row(
        "a call without a function",
        chat_stream(
            ROLE,
            delta(tool_calls=[{"index": 0, "id": "c1", "name": "f", "arguments": '{"a":1}'}]),
            CALLS,
        ),
        chat_stream(ROLE, first(0, "c1", "f", '{"a":1}'), CALLS),
    ),
    Row("a number for a text", chat_stream(ROLE, delta(content=5), STOP), said("5")),
    *(
        Row(
            f"nothing to be read in {name}",
            chat_stream(ROLE, delta(**{name: value}), X, STOP),
            PLAIN,
            {f"choices[0].delta.{name}": "content"},
        )
        for name, value in (("images", [{"type": "image_url"}]), ("audio", {"data": "AA=="}))
    ),
    Row(
        "messages that each repeat the text so far",
        chat_stream(
            whole_chunk({"role": "assistant", "content": "Go"}),
            whole_chunk({"role": "assistant", "content": "Good"}),
            whole_chunk({"role": "assistant", "content": "Good"}, "stop"),
        ),
        TWICE,
        {"choices[0].message": "knob"},
    ),
    Row(
        "messages that say all so far, with calls",
        chat_stream(
            whole_chunk({"content": "Good"}),
            whole_chunk({"content": "Good", "tool_calls": [CALLED]}),
            whole_chunk({"content": "Good", "tool_calls": [CALLED, CALLED_TOO]}, "tool_calls"),
        ),
        chat_stream(
            delta(content="Good"), first(0, "c1", "f", '{"a":1}'), first(1, "c2", "g", "{}"), CALLS
        ),
        {"choices[0].message": "knob"},
    ),
    *(
        Row(f"messages that are {what}", chat_stream(*map(message_chunk, messages), STOP))
        for what, messages in {
            "pieces": ({"content": "Go"}, {"content": "od"}),
            "pieces, and then all of them": (
                {"content": "Go"},
                {"content": "od"},
                {"content": "Good"},
            ),
            "one text and then another": (
                {"content": "an"},
                {"content": "antelope an"},
                {"content": "d"},
            ),
            "other calls": ({"tool_calls": [CALLED]}, {"tool_calls": [CALLED_TOO]}),
        }.items()
    ),
    Row(
        "deltas after a whole message",
        chat_stream(whole_chunk({"content": "Good"}), delta(content="Good"), STOP),
    ),
    Row(
        "texts of completions",
        chat_stream(
            {**X, "choices": [{"index": 0, "text": "Go", "finish_reason": None}]},
            {**X, "choices": [{"index": 0, "text": "Go", "finish_reason": None}]},
            {**X, "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]},
        ),
        said("GoGo"),
    ),
    Row(
        "two calls of one name at one index",
        chat_stream(
            fragment(0, '{"a":1}', id="", name="f"), fragment(0, '{"a":2}', id="", name="f"), CALLS
        ),
        chat_stream(
            first(0, f"call_{'a' * 24}", "f", '{"a":1}'),
            first(1, f"call_{'b' * 24}", "f", '{"a":2}'),
            CALLS,
        ),
    ),
    Row(
        "a call once more as a function call",
        chat_stream(
            *(
                delta(
                    function_call={"name": "f", "arguments": text},
                    tool_calls=[
                        {
                            "index": 0,
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "f", "arguments": text},
                        }
                    ],
                )
                for text in ('{"a":', "1}")
            ),
            CALLS,
        ),
        chat_stream(first(0, "c1", "f", '{"a":1}'), CALLS),
    ),
    Row(
        "a function call beside another call",
        chat_stream(
            delta(
                function_call={"name": "g", "arguments": "{}"},
                tool_calls=[{**CALLED, "index": 0}],
            ),
            CALLS,
        ),
        chat_stream(
            first(0, "c1", "f", '{"a":1}'),
            first(1, f"call_{'a' * 24}", "g", "{}"),
            CALLS,
        ),
    ),
    *(
        Row(
            f"arguments in {name}",
            chat_stream(
                ROLE,
                delta(tool_calls=[{"index": 0, "id": "c1", "name": "f", name: {"a": 1}}]),
                CALLS,
            ),
            chat_stream(ROLE, first(0, "c1", "f", '{"a":1}'), CALLS),
        )
        for name in ("parameters", "input")
    ),
    *(
        Row(
            f"reasoning in the part {part}",
            chat_stream(ROLE, delta(**beside, content=[part]), X, STOP),
            THOUGHT,
        )
        for part, beside in (
            ({"type": "reasoning", "text": "hm"}, {}),
            ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, {}),
            ({"type": "thinking", "thinking": "hm"}, {"reasoning_content": "hm"}),
        )
    ),
    Row(
        "a whole message that writes its arguments anew",
        chat_stream(
            ROLE,
            first(0, "c1", "f", '{"a": 1}'),
            whole_chunk({"content": None, "tool_calls": [CALLED]}, "tool_calls"),
        ),
        chat_stream(ROLE, first(0, "c1", "f", '{"a": 1}'), CALLS),
        {"choices[0].message": "knob"},
    ),
]

BEGIN = message_start(input_tokens=5)
ENDING = message_end()
SAID = named_stream(BEGIN, *text_block(0, "Go", "od"), *ENDING)
OPENED, GO, OD, CLOSED = text_block(0, "Go", "od")


def changed(value: Any) -> bytes:
    """The stream with another index in each event; none for `...`."""
    made = []
    for event in (OPENED, GO, OD, CLOSED):
        rest = {name: event[name] for name in event if name != "index"}
        made.append(rest if value is ... else {**rest, "index": value})
    return named_stream(BEGIN, *made, *ENDING)


def piece(**members: Any) -> JsonObject:
    return {"type": "content_block_delta", "index": 0, "delta": members}


def begun(**members: Any) -> JsonObject:
    return {"type": "content_block_start", "index": 0, "content_block": members}


MESSAGES_ROWS = [
    *(Row(f"the index {value!r}", changed(value), SAID) for value in ("0", None, ...)),
    *(
        Row(
            f"a delta that is {head}",
            named_stream(BEGIN, OPENED, piece(**head, text="Go"), OD, CLOSED, *ENDING),
            SAID,
        )
        for head in ({}, {"type": "text"}, {"type": "output_text_delta"})
    ),
    *(
        Row(
            f"a block that is {head}",
            named_stream(BEGIN, begun(**head, text="Go"), OD, CLOSED, *ENDING),
            SAID,
        )
        for head in ({}, {"type": "output_text"}, {"type": None})
    ),
    Row(
        "thinking under other names",
        named_stream(
            BEGIN,
            begun(type="reasoning", reasoning=""),
            piece(type="reasoning_delta", reasoning="hm"),
            CLOSED,
            *text_block(1, "x"),
            *ENDING,
        ),
        named_stream(
            BEGIN,
            *block(
                0,
                {"type": "thinking", "thinking": ""},
                {"type": "thinking_delta", "thinking": "hm"},
            ),
            *text_block(1, "x"),
            *ENDING,
        ),
    ),
    Row(
        "a block that cannot be read",
        named_stream(
            BEGIN, *block(0, {"type": "picture", "data": "x"}), *text_block(1, "Good"), *ENDING
        ),
        SAID,
        {"content[0]": "content"},
    ),
    Row(
        "arguments as an object, and a number that no double holds",
        named_stream(
            BEGIN,
            *block(
                0,
                {"type": "tool_use", "id": "t", "name": "f", "input": {}},
                {"type": "input_json_delta", "partial_json": {"a": 1}},
            ),
            *message_end("tool_use"),
        ),
        named_stream(
            BEGIN,
            *block(
                0,
                {"type": "tool_use", "id": "t", "name": "f", "input": {}},
                {"type": "input_json_delta", "partial_json": '{"a":1}'},
            ),
            *message_end("tool_use"),
        ),
    ),
    Row(
        "a call of another type",
        named_stream(
            BEGIN,
            *block(0, {"type": "function_call", "id": "t", "name": "f", "arguments": '{"a":1}'}),
            *message_end("tool_use"),
        ),
        named_stream(
            BEGIN,
            *block(0, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}),
            *message_end("tool_use"),
        ),
    ),
    Row("an empty event", b"event: ping\ndata:\n\n" + SAID, SAID),
    Row(
        "nothing in the place of an input that the start has",
        named_stream(
            BEGIN,
            *block(
                0,
                {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
                {"type": "input_json_delta", "partial_json": "{}"},
            ),
            *message_end("tool_use"),
        ),
        named_stream(
            BEGIN,
            *block(0, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}),
            *message_end("tool_use"),
        ),
    ),
    Row("a reason that failed", named_stream(BEGIN, *text_block(0, "x"), *message_end("error"))),
    Row("a null in words", named_stream(BEGIN, *text_block(0, "x"), *message_end("null"))),
]


def streamed(*items: JsonObject) -> bytes:
    return responses_stream(events_of(response(*items)))


GOOD = message(output_text("Good"))
HELLO = streamed(GOOD)
THINKING = "<think>hm</think>\n\nGood"


def last(*items: JsonObject, **members: Any) -> bytes:
    """Nothing but the last event."""
    begun, *_, ended = events_of(response())
    return responses_stream([begun, {**ended, "response": {**response(*items), **members}}])


def otherwise(said: str, whole: str) -> bytes:
    """A text that is another one in the last event."""
    made = events_of(response(message(output_text(said))))
    ended = events_of(response(message(output_text(whole))))
    return responses_stream([*made[:-1], ended[-1]])


def pieces(*events: JsonObject, **members: Any) -> bytes:
    """Events of an item between the first and the last event, which lists nothing."""
    begun, *_, ended = events_of(response())
    ended = {**ended, "response": {**ended["response"], **members}}
    return responses_stream([begun, *events, ended])


def text_delta(**members: Any) -> JsonObject:
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    return {"type": "response.output_text.delta", **place, **members}


REASONED = {"type": "reasoning", "id": "r"}
HM = [{"type": "reasoning_text", "text": "hm"}]
CALLING = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f"}

RESPONSES_ROWS = [
    Row("a delta that is called text", pieces(text_delta(text="Good")), HELLO),
    *(
        Row(f"the delta {value!r}", pieces(text_delta(delta=value)))
        for value in ({"text": "Good"}, ["Good"], 5)
    ),
    *(Row(f"the output {value!r}", pieces(output=value)) for value in ("Good", GOOD)),
    *(
        Row(
            f"the reasoning {value!r}",
            last({**REASONED, "content": value}, GOOD),
            last({**REASONED, "content": HM}, GOOD),
        )
        for value in ("hm", ["hm"])
    ),
    Row(
        "a text in an object",
        last({**GOOD, "content": [{"type": "output_text", "text": {"value": "Good"}}]}),
        HELLO,
    ),
    Row(
        "arguments that end as an object",
        pieces(
            {"type": "response.output_item.added", "output_index": 0, "item": CALLING},
            {
                "type": "response.function_call_arguments.done",
                "output_index": 0,
                "item_id": "fc",
                "arguments": {"a": 1},
            },
        ),
        last({**CALLING, "arguments": '{"a":1}'}),
    ),
    *(
        Row(f"the content {content!r}", last({**GOOD, "content": content}), HELLO)
        for content in (
            "Good",
            ["Good"],
            {"type": "output_text", "text": "Good"},
            [{"type": "markdown", "text": "Good"}],
            [{"text": "Good"}],
        )
    ),
    Row("a part in an item's place", last({"type": "output_text", "text": "Good"}), HELLO),
    Row("an item without a type", last({"role": "assistant", "content": ["Good"]}), HELLO),
    Row(
        "a call of another type",
        last({"type": "tool_call", "call_id": "c", "name": "f", "arguments": "{}"}),
        last({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}),
    ),
    Row(
        "a text that the start of a part has",
        responses_stream(
            [
                events_of(response())[0],
                {
                    "type": "response.content_part.added",
                    "content_index": 0,
                    "part": {"type": "output_text", "text": "Go"},
                },
                {"type": "response.output_text.delta", "content_index": 0, "delta": "od"},
                events_of(response())[-1],
            ]
        ),
        HELLO,
    ),
    Row(
        "reasoning in a part of a message",
        last(message({"type": "reasoning_text", "text": "hm"}, output_text("Good"))),
        last(
            {
                "type": "reasoning",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "hm"}],
            },
            GOOD,
        ),
    ),
    Row(
        "a part that cannot be read",
        last(message({"type": "picture", "url": "x"}, output_text("Good"))),
        HELLO,
        {"response.output[0].content[0]": "content"},
    ),
    Row(
        "an item that cannot be read",
        last({"type": "picture", "url": "x"}, GOOD),
        HELLO,
        {"response.output[0]": "content"},
    ),
    Row(
        "thoughts that are taken out at the end",
        otherwise(THINKING, "Good"),
        streamed(message(output_text(THINKING))),
    ),
    Row("other words at the end", otherwise(THINKING, "Bad")),
    Row(
        "completed while it goes on",
        last({**GOOD, "status": "in_progress"}, status="in_progress"),
    ),
    Row("an empty event", b"data:\n\n" + HELLO, HELLO),
]


@pytest.mark.parametrize("row", CHAT_ROWS, ids=ids(CHAT_ROWS))
def test_chat(row: Row) -> None:
    check(C, row)


@pytest.mark.parametrize("row", MESSAGES_ROWS, ids=ids(MESSAGES_ROWS))
def test_messages(row: Row) -> None:
    check(A, row)


@pytest.mark.parametrize("row", RESPONSES_ROWS, ids=ids(RESPONSES_ROWS))
def test_responses(row: Row) -> None:
    check(R, row)
