"""Streams of Responses servers, and how else they are written."""

from __future__ import annotations

import pytest

from dragoman.canonical.errors import FaultKind
from tests.protocols.openai_responses.upstream import (
    call,
    events_of,
    frame_events,
    item_events,
    message,
    reasoning,
    response,
    stream_of,
    text,
)
from tests.tables.odd import Row, check, ids
from tests.tables.odd_responses import ANSWER, EVENTS, HELLO, NAMELESS
from tests.tables.requests import JsonObject, R

EXACT = stream_of(EVENTS)
CALLING = events_of(response(call('{"a":1}')))
CALLED = call('{"a":1}')
ONE = message(text("one"))
CALLED_ANEW = {**CALLING[-1], "response": response(call('{"a":1}', call_id="call_9"))}


def without(kind: str) -> bytes:
    """The stream without events of a kind."""
    return stream_of(event for event in EVENTS if event["type"] != f"response.{kind}")


def beside(event: JsonObject) -> bytes:
    """A stream with one more event in it."""
    events = events_of(HELLO)
    return stream_of([*events[:4], event, *events[4:]])


def late(*items: JsonObject, listed: bool = True) -> bytes:
    """A stream that goes on with items that are over; its whole output is `listed` or empty."""
    *body, terminal = events_of(response(*items))
    again = {event["type"]: event for event in body if event["type"].endswith(".delta")}
    if not listed:
        terminal = {**terminal, "response": response()}
    return stream_of([*body, *({**event, "delta": "late"} for event in again.values()), terminal])


def ended_by(*ending: JsonObject) -> bytes:
    """A stream that has begun and ends otherwise."""
    return stream_of([*events_of(HELLO)[:5], *ending])


CUT_SHORT = {
    **ANSWER,
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
}


def done(status: str | None) -> bytes:
    """A stream that ends as the Realtime API's do."""
    ended = CUT_SHORT if status == "incomplete" else ANSWER
    return stream_of(
        [*EVENTS[:-1], {"type": "response.done", "response": {**ended, "status": status}}]
    )


FROM_RESPONSES = [
    *(
        Row(f"no events {kind}", without(kind), EXACT)
        for kind in (
            "in_progress",
            "content_part.added",
            "content_part.done",
            "output_text.delta",
            "output_text.done",
            "refusal.delta",
            "output_text.annotation.added",
            "reasoning_summary_part.added",
            "reasoning_summary_part.done",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "custom_tool_call_input.delta",
            "custom_tool_call_input.done",
            "output_item.added",
            "output_item.done",
        )
    ),
    *(
        Row(f"response.done of a response that is {status}", done(status), means)
        for status, means in (
            ("completed", EXACT),
            (None, EXACT),
            ("incomplete", stream_of(events_of(CUT_SHORT))),
            ("failed", FaultKind.UPSTREAM_FAILED),
        )
    ),
    Row(
        "an empty input before its pieces",
        stream_of([*CALLING[:3], {**CALLING[3], "delta": "{}"}, *CALLING[3:]]),
        stream_of(CALLING),
    ),
    *(
        Row(
            f"reasoning in its {name}",
            stream_of(events_of(HELLO)[:2])
            + stream_of(
                frame_events(
                    response({"type": "reasoning", "id": "rs", name: "hm"}, *HELLO["output"])
                )
            ),
            stream_of(
                events_of(
                    response(
                        {
                            "type": "reasoning",
                            "id": "rs",
                            "summary": [],
                            "content": [{"type": "reasoning_text", "text": "hm"}],
                        },
                        *HELLO["output"],
                    )
                )
            ),
        )
        for name in ("text", "reasoning")
    ),
    Row(
        "two parts of one index that begin with their text",
        stream_of(
            [
                *events_of(HELLO)[:3],
                *({**events_of(HELLO)[3], "part": text(said)} for said in ("Hel", "lo")),
                {"type": "response.completed", "response": response()},
            ]
        ),
        stream_of(events_of(HELLO)),
    ),
    Row(
        "another response in its middle",
        ended_by({**EVENTS[0], "response": {**EVENTS[0]["response"], "id": "resp_2"}}, EVENTS[-1]),
    ),
    Row(
        "another response before anything of the first",
        stream_of([events_of(response(id="resp_0"))[0], *EVENTS]),
        EXACT,
    ),
    Row("the last event is all there is", stream_of(frame_events(ANSWER)), EXACT),
    Row(
        "a part whose type is a list",
        stream_of(frame_events(response(message({"type": [], "url": "x"}, text("Hello"))))),
        stream_of(events_of(HELLO)),
        {"response.output[0].content[0]": "content"},
    ),
    Row(
        "the last event repeats nothing",
        stream_of([*EVENTS[:-1], {**EVENTS[-1], "response": {**ANSWER, "output": []}}]),
        EXACT,
    ),
    *(
        Row(
            f"no {name} in any event",
            stream_of(
                {key: value for key, value in event.items() if key != name} for event in EVENTS
            ),
            EXACT,
        )
        for name in ("item_id", "output_index", "logprobs")
    ),
    Row("no names", stream_of(EVENTS, named=False), EXACT),
    Row(
        "other ids in the last event",
        stream_of(
            [
                *EVENTS[:-1],
                {
                    **EVENTS[-1],
                    "response": {
                        **ANSWER,
                        "output": [
                            {**item, "id": f"{item['id']}_again"} for item in ANSWER["output"]
                        ],
                    },
                },
            ]
        ),
        EXACT,
    ),
    Row(
        "another call id in the last event",
        stream_of([*CALLING[:-1], CALLED_ANEW]),
        stream_of(CALLING),
    ),
    Row(
        "a comment before and a terminator after",
        b": keepalive\n\n" + EXACT + b"data: [DONE] \n\n",
        EXACT,
    ),
    *(
        Row(
            f"event {event['type']} {', '.join(lost)}",
            beside(event),
            stream_of(events_of(HELLO)),
            lost,
        )
        for event, lost in (
            ({"type": "keepalive"}, {}),
            ({"type": "ping"}, {}),
            ({"type": "response.mystery", "x": 1}, {"response.mystery": "knob"}),
            ({"type": "response.audio.delta", "delta": "x"}, {"response.audio.delta": "content"}),
            (
                {"type": "response.web_search_call.searching", "output_index": 0},
                {"response.web_search_call.searching": "knob"},
            ),
            (
                {"type": "response.output_text.delta", "delta": "", "mood": 1},
                {"response.output_text.delta.mood": "knob"},
            ),
            ({"type": "response.output_text.delta", "delta": "", "obfuscation": "x"}, {}),
        )
    ),
    Row(
        "raw reasoning by the name Open Responses has",
        stream_of(
            {**event, "type": event["type"].replace("reasoning_text", "reasoning")}
            for event in events_of(
                response(reasoning(content=[{"type": "reasoning_text", "text": "hm"}]))
            )
        ),
        stream_of(
            events_of(response(reasoning(content=[{"type": "reasoning_text", "text": "hm"}])))
        ),
    ),
    Row(
        "reasoning whose part is not announced",
        stream_of(
            frame_events(
                response(reasoning(content=[{"type": "reasoning_text", "text": "hm"}])),
                {
                    "type": "response.reasoning_text.delta",
                    "item_id": "rs_u1",
                    "output_index": 0,
                    "content_index": 0,
                    "delta": "hm",
                },
            )
        ),
        stream_of(
            events_of(response(reasoning(content=[{"type": "reasoning_text", "text": "hm"}])))
        ),
    ),
    Row(
        "text by its older type",
        stream_of(frame_events(response(message({"type": "text", "text": "Hello"})))),
        stream_of(events_of(HELLO)),
    ),
    Row(
        "content that is a string",
        stream_of(frame_events(response({**message(), "content": "Hello"}))),
        stream_of(events_of(HELLO)),
    ),
    Row(
        "two forms of reasoning in one item",
        stream_of(
            events_of(
                response(reasoning("short", content=[{"type": "reasoning_text", "text": "long"}]))
            )
        ),
        stream_of(events_of(response(reasoning("short")))),
        {
            "response.output[0]": "knob",
            "response.output_item.done[0].item.content": "knob",
        },
    ),
    Row(
        "arguments in the first event too",
        stream_of(
            {**event, "item": call('{"a":1}')} if event["type"].endswith("item.added") else event
            for event in events_of(response(call('{"a":1}')))
        ),
        stream_of(events_of(response(call('{"a":1}')))),
    ),
    Row(
        "arguments before the name",
        stream_of(
            frame_events(
                response(call('{"a":1}')),
                {
                    "type": "response.function_call_arguments.delta",
                    "item_id": "fc_u1",
                    "output_index": 0,
                    "delta": '{"a',
                },
            )
        ),
        stream_of(events_of(response(call('{"a":1}')))),
    ),
    *(
        Row(
            f"texts when their items are over, listed: {listed}",
            late(message(text("Hi")), reasoning("s"), listed=listed),
        )
        for listed in (True, False)
    ),
    Row("arguments when their call is over", late(call("{}"))),
    *(
        Row(
            f"every item and part numbered 0{extra}",
            stream_of(
                [
                    {
                        name: 0 if name.endswith("_index") else content
                        for name, content in event.items()
                        if name not in left_out
                    }
                    for event in EVENTS
                    if not event["type"].startswith(silent)
                ]
            ),
            EXACT,
        )
        for extra, left_out, silent in (
            ("", (), "none"),
            (", not named in their pieces", ("item_id",), "none"),
            (", not announced", (), "response.output_item.added"),
            (", without an end", (), ("response.output_item.done", "response.content_part.done")),
        )
    ),
    Row(
        "every item numbered 0 and without an id",
        stream_of(
            {
                name: (
                    {key: value for key, value in content.items() if key != "id"}
                    if name == "item"
                    else 0
                    if name == "output_index"
                    else content
                )
                for name, content in event.items()
                if name != "item_id"
            }
            for event in events_of(NAMELESS)
        ),
        stream_of(events_of(NAMELESS)),
        {"content": "converted"},
    ),
    Row(
        "every item of one name and number",
        stream_of(
            {
                name: (
                    {**content, "id": "item_0"}
                    if name == "item"
                    else 0
                    if name == "output_index"
                    else "item_0"
                    if name == "item_id"
                    else content
                )
                for name, content in event.items()
            }
            for event in events_of(NAMELESS)
        ),
        stream_of(events_of(NAMELESS)),
        {"content": "converted"},
    ),
    Row(
        "another name in every event",
        stream_of(
            {
                name: (
                    {**content, "id": f"{content['id']}_{number}"}
                    if name == "item"
                    else f"{content}_{number}"
                    if name == "item_id"
                    else content
                )
                for name, content in event.items()
            }
            for number, event in enumerate(events_of(NAMELESS))
        ),
        stream_of(events_of(NAMELESS)),
        {"content": "converted"},
    ),
    Row(
        "a text of which a piece is missing",
        stream_of([*events_of(HELLO)[:4], *events_of(HELLO)[5:]]),
    ),
    Row(
        "a whole that is written otherwise",
        stream_of(
            {**event, "arguments": '{ "a": 1 }'} if "arguments" in event else event
            for event in events_of(response(call('{"a":1}')))
        ),
        stream_of(events_of(response(call('{"a":1}')))),
    ),
    Row(
        "a call of which nothing but its head came",
        stream_of(
            [*frame_events(response(output=[]), *item_events(call("{}"), 0)[:1])],
        ),
    ),
    Row(
        "an item that was announced whole and never again",
        stream_of(
            frame_events(
                response(output=[]),
                {
                    "type": "response.output_item.added",
                    "output_index": 0,
                    "item": message(text("Hello")),
                },
            )
        ),
        stream_of(events_of(HELLO)),
    ),
    *(
        Row(
            f"completed, with the status {status}",
            ended_by({"type": "response.completed", "response": {**response(), "status": status}}),
        )
        for status in ("queued", "cancelled", "expired")
    ),
    Row(
        "completed, its object still in progress",
        ended_by(
            {
                "type": "response.completed",
                "response": {**HELLO, "status": "in_progress"},
            }
        ),
        stream_of(events_of(HELLO)),
        {"response.status": "converted"},
    ),
    *(
        Row(
            f"completed, but {said}",
            stream_of(
                [
                    *events_of(HELLO)[:-1],
                    {"type": "response.completed", "response": {**HELLO, **said}},
                ]
            ),
            stream_of(
                [
                    *events_of(HELLO)[:-1],
                    {
                        "type": "response.incomplete",
                        "response": {
                            **HELLO,
                            "status": "incomplete",
                            "incomplete_details": {"reason": reason},
                        },
                    },
                ]
            ),
        )
        for said, reason in (
            ({"status": "incomplete"}, "max_output_tokens"),
            (
                {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
                "max_output_tokens",
            ),
            (
                {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
                "content_filter",
            ),
            ({"incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        )
    ),
    # req: 70
    Row(
        "calls side by side",
        stream_of(
            frame_events(
                response(call('{"a":1}'), call('{"b":2}', id="fc_u2", call_id="call_9", name="h")),
                *(
                    event
                    for pair in zip(
                        item_events(call('{"a":1}'), 0),
                        item_events(call('{"b":2}', id="fc_u2", call_id="call_9", name="h"), 1),
                        strict=True,
                    )
                    for event in pair
                ),
            )
        ),
        stream_of(
            events_of(
                response(call('{"a":1}'), call('{"b":2}', id="fc_u2", call_id="call_9", name="h"))
            )
        ),
    ),
    *(
        Row(f"error {code}, told as {ending['type']}", ended_by(ending), kind)
        for code, kind in (
            ("rate_limit_exceeded", FaultKind.RATE_LIMITED),
            ("insufficient_quota", FaultKind.PAYMENT_REQUIRED),
            ("context_length_exceeded", FaultKind.CONTEXT_TOO_LONG),
            ("server_is_overloaded", FaultKind.OVERLOADED),
            ("server_error", FaultKind.UPSTREAM_FAILED),
            ("invalid_prompt", FaultKind.INVALID_REQUEST),
            ("bio_policy", FaultKind.INVALID_REQUEST),
            ("image_too_large", FaultKind.INVALID_REQUEST),
            ("empty_image_file", FaultKind.INVALID_REQUEST),
            ("something_new", FaultKind.UPSTREAM_FAILED),
        )
        for ending in (
            {
                "type": "response.failed",
                "response": response(status="failed", error={"code": code, "message": "m"}),
            },
            {"type": "error", "code": code, "message": "m", "param": None},
        )
    ),
    *(
        Row(
            f"signs of life that are broken: {data!r}",
            stream_of(events_of(HELLO)[:1])
            + b"event: response.in_progress\ndata: "
            + data
            + b"\n\n"
            + stream_of(events_of(HELLO)[1:]),
        )
        for data in (b"{", b"5", b'{"type":"response.in_progress","response":"\xff"}')
    ),
    Row(
        "an error in an object of its own",
        ended_by({"type": "error", "error": {"code": "rate_limit_exceeded", "message": "m"}}),
        FaultKind.RATE_LIMITED,
    ),
    Row(
        "failed under the name of success",
        ended_by(
            {
                "type": "response.completed",
                "response": response(
                    status="failed", error={"code": "rate_limit_exceeded", "message": "m"}
                ),
            }
        ),
        FaultKind.RATE_LIMITED,
    ),
    Row(
        "messages listed after the call, the one without pieces under another id",
        stream_of(
            frame_events(
                response(CALLED, message(text("two"), id="msg_u9"), ONE),
                *item_events(message(text("two"), id="msg_u2"), 0)[:1],
                *item_events(ONE, 1)[:3],
                *item_events(CALLED, 2),
            )
        ),
        stream_of(events_of(response(ONE, message(text("two"), id="msg_u2"), CALLED))),
        {"content": "converted"},
    ),
    *(
        Row(
            f"only a client could do {kind}",
            stream_of(events_of(response({"type": kind, "id": "x_1", "call_id": "c"}))),
        )
        for kind in ("computer_call", "shell_call", "apply_patch_call", "local_shell_call")
    ),
    *(
        Row(f"no events: {data[:50]!r}", data)
        for data in (
            b"",
            b"data: nonsense\n\n",
            b"data: [1]\n\n",
            b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\ndata: [DONE]\n\n',
            b'event: message_start\ndata: {"type":"message_start","message":{}}\n\n',
            b'data: {"error":{"message":"overloaded"}}\n\n',
            b'data: {"error":"overloaded"}\n\n',
            b'event: x\ndata: {"type":"response.output_text.delta","delta":"\xff"}\n\n',
        )
    ),
    *(
        Row(
            f"cut after {kept} events",
            stream_of(events_of(response(reasoning("Think"), call('{"a":1}')))[:kept]),
        )
        for kept in range(1, 15)
    ),
]


@pytest.mark.parametrize("row", FROM_RESPONSES, ids=ids(FROM_RESPONSES))
def test_row(row: Row) -> None:
    """Never a false success, nor a failure of what can be read. req: 115, 128, 163"""
    check(R, row)
