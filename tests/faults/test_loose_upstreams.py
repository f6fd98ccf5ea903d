"""Answers in words and shapes that are not quite the protocol's, over sockets: whole and streamed,
in every pair."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from dragoman.server.testing import RunningGateway
from tests.faults.asking import KEY, ask, saying
from tests.faults.conftest import Over, rested
from tests.faults.streams import CALLING, CREATED, DONE, PROTOCOL, F, H, Json, calls_of, ended
from tests.faults.upstream import Upstream
from tests.fuzz.readings import reading_of
from tests.fuzz.streams import decoded, fragment
from tests.gateway.clients import (
    APIS,
    PATHS,
    body,
    completed,
    stream_error,
    streamed_text,
    text_of,
)
from tests.gateway.http import call
from tests.protocols.openai_responses.upstream import call as function_item
from tests.protocols.openai_responses.upstream import events_of, message, response
from tests.protocols.openai_responses.upstream import text as output_text
from tests.tables.cells import (
    ROLE,
    STOP,
    block,
    chat_answer,
    chat_chunk,
    function_call,
    message_end,
    message_start,
    messages_answer,
    text_block,
    tool_block,
)
from tests.tables.odd_chat import whole_chunk

NAMES = ("get_weather", "f", "h")
AGAIN = ("get_weather", '{"a": 2}')


def tools(client: str) -> list[Json]:
    """What can be called."""
    schema = {"type": "object", "properties": {}}
    if client == "messages":
        return [{"name": name, "input_schema": schema} for name in NAMES]
    made = [{"name": name, "parameters": schema} for name in NAMES]
    if client == "chat":
        return [{"type": "function", "function": one} for one in made]
    return [{"type": "function", **one} for one in made]


@pytest.fixture(scope="module")
def gateway(over: Over) -> RunningGateway:
    return over(KEY)


@dataclass(frozen=True)
class Said:
    """What an upstream sends, streamed and whole (if it may come so), and what that says."""

    target: str
    events: list[Any]
    whole: Json | None = None
    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)


def called(*calls: Json) -> Json:
    return chat_answer({"role": "assistant", "content": None, "tool_calls": list(calls)})


def named(at: int | None, name: str, arguments: Any, call_id: str | None = "") -> Json:
    made = fragment(at or 0, arguments, id=call_id, type="function", name=name)
    if at is None:
        del made["choices"][0]["delta"]["tool_calls"][0]["index"]
    return made


def used(name: str, given: Any, call_id: str = "t") -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def piece(**delta: Any) -> Json:
    return {"type": "content_block_delta", "delta": delta}


TWINS = [
    function_item('{"a":1}', name="get_weather"),
    function_item('{"b":2}', id="fc_u2", name="h"),
]
_TEXT: Json = {"type": "text", "text": ""}
SILENT = {**response(message(output_text("Good"))), "error": {"code": None, "message": None}}
SAID: dict[str, Said] = {
    "calls of one index, name and no id": Said(
        "chat",
        [named(0, "get_weather", '{"a":1}'), named(0, "get_weather", '{"a":2}'), CALLING, DONE],
        called(
            {**function_call(arguments='{"a":1}'), "id": ""},
            {**function_call(arguments='{"a":2}'), "id": ""},
        ),
        calls=[F, AGAIN],
    ),
    "calls without an index, of which one is said again": Said(
        "chat",
        [
            named(None, "get_weather", '{"a":1}', "x"),
            named(None, "get_weather", '{"a":1}', "x"),
            named(None, "h", '{"b":2}', "y"),
            CALLING,
            DONE,
        ],
        calls=[F, H],
    ),
    "arguments as an object": Said(
        "chat",
        [named(0, "get_weather", {"a": 1}, "x"), CALLING, DONE],
        calls=[F],
    ),
    "a name in fragments": Said(
        "chat",
        [
            named(0, "get_", "", "x"),
            named(0, "weather", "", None),
            fragment(0, '{"a":1}'),
            CALLING,
            DONE,
        ],
        calls=[F],
    ),
    "messages that repeat the text so far": Said(
        "chat",
        [whole_chunk({"content": text}) for text in ("Go", "Good")]
        + [whole_chunk({"content": "Good"}, "stop"), DONE],
        text="Good",
    ),
    "messages that say all so far": Said(
        "chat",
        [whole_chunk({"content": text}) for text in ("ha", "ha", "haha!")] + [STOP, DONE],
        text="haha!",
    ),
    "texts in place of deltas": Said(
        "chat",
        [{**chat_chunk({}), "choices": [{"index": 0, "delta": text}]} for text in ("Go", "od")]
        + [STOP, DONE],
        text="Good",
    ),
    "a call in pieces, and then whole": Said(
        "chat",
        [
            named(0, "get_weather", "", "x"),
            fragment(0, '{"a":'),
            fragment(0, "1}"),
            named(0, "get_weather", '{"a":1}', "x"),
            CALLING,
            DONE,
        ],
        calls=[F],
    ),
    "nothing in the place of arguments, and then they": Said(
        "chat",
        [
            named(0, "get_weather", "{}", "x"),
            fragment(0, '{"a":'),
            fragment(0, "1}"),
            CALLING,
            DONE,
        ],
        calls=[F],
    ),
    "a call once more as a function call": Said(
        "chat",
        [
            chat_chunk(
                {
                    "function_call": {"name": "get_weather", "arguments": text},
                    **named(0, "get_weather", text, "x")["choices"][0]["delta"],
                }
            )
            for text in ('{"a":', "1}")
        ]
        + [CALLING, DONE],
        chat_answer(
            {
                "content": None,
                "function_call": {"name": "get_weather", "arguments": '{"a":1}'},
                "tool_calls": [function_call(1, "get_weather", '{"a":1}')],
            },
            "tool_calls",
        ),
        calls=[F],
    ),
    "an error that says nothing": Said(
        "chat",
        [{**chat_chunk({"content": "Good"}), "error": {"code": "", "message": None}}, STOP, DONE],
        {**chat_answer({"content": "Good"}), "error": {"code": "", "message": None}},
        "Good",
    ),
    "a response with an error that says nothing": Said(
        "responses",
        events_of(SILENT),
        SILENT,
        "Good",
    ),
    "blocks that begin with what their pieces say": Said(
        "messages",
        [
            message_start(),
            *block(
                0,
                {"type": "text", "text": "Good"},
                {"type": "text_delta", "text": "Go"},
                {"type": "text_delta", "text": "od"},
            ),
            *block(
                1,
                used("get_weather", {"a": 1}),
                {"type": "input_json_delta", "partial_json": '{"a": 1}'},
            ),
            *message_end("tool_use"),
        ],
        text="Good",
        calls=[F],
    ),
    "indexes in words, of blocks beside each other": Said(
        "messages",
        [
            message_start(),
            *(
                {**event, "index": str(event["index"])}
                for event in sorted(
                    [*tool_block(0, 1, '{"a":1}'), *tool_block(1, 2, '{"b":2}', name="h")],
                    key=lambda event: str(event["type"]) != "content_block_start",
                )
            ),
            *message_end("tool_use"),
        ],
        calls=[F, H],
    ),
    "parts that begin with what their pieces say": Said(
        "responses",
        [
            {**event, "part": {**event["part"], "text": "Good"}}
            if event["type"] == "response.content_part.added"
            else event
            for event in events_of(response(message(output_text("Good"))))
        ],
        text="Good",
    ),
    "what others said, among the items": Said(
        "responses",
        [
            CREATED,
            ended(
                {"type": "message", "role": "user", "content": [{"text": "Hi"}]},
                message(output_text("Good")),
            ),
        ],
        response(
            {"type": "message", "role": "user", "content": "Hi"}, message(output_text("Good"))
        ),
        "Good",
    ),
    "odd words": Said(
        "chat",
        [
            chat_chunk({"role": "model"}, "null"),
            chat_chunk({"content": "Good"}, "null"),
            chat_chunk({}, "normal"),
            DONE,
        ],
        chat_answer({"role": "ai", "content": "Good"}, "normal"),
        "Good",
    ),
    "blocks of one index": Said(
        "messages",
        [
            message_start(),
            *text_block(0, "Good"),
            *tool_block(0, 1, '{"a":', "1}"),
            *block(0, used("h", {}, "u"), {"type": "input_json_delta", "partial_json": '{"b":2}'}),
            *message_end("tool_use"),
        ],
        text="Good",
        calls=[F, H],
    ),
    "blocks and deltas without types or indexes": Said(
        "messages",
        [
            message_start(),
            {"type": "content_block_start", "content_block": {"type": "output_text", "text": "G"}},
            piece(text="o"),
            piece(type="text", text="od"),
            {"type": "content_block_stop"},
            *message_end(),
        ],
        messages_answer({"type": "output_text", "text": "Go"}, {"text": "od"}),
        "Good",
    ),
    "twins": Said(
        "messages",
        [
            message_start(),
            *block(0, used("get_weather", {"a": 1})),
            *block(1, used("h", {"b": 2})),
            *message_end("tool_use"),
        ],
        messages_answer(used("get_weather", {"a": 1}), used("h", {"b": 2}), stop="tool_use"),
        calls=[F, H],
    ),
    "twin items": Said("responses", events_of(response(*TWINS)), response(*TWINS), calls=[F, H]),
    "a text alone as the content": Said(
        "responses",
        [CREATED, ended({**message(), "content": ["Go", {"text": "od"}]})],
        response({**message(), "content": {"type": "markdown", "text": "Good"}}),
        "Good",
    ),
    "a part in an item's place": Said(
        "responses",
        [CREATED, ended({"type": "output_text", "text": "Good"})],
        response({"role": "assistant", "content": "Good"}),
        "Good",
    ),
    "a call in both members that have calls": Said(
        "chat",
        [
            named(0, "get_weather", '{"a":1}', "x"),
            chat_chunk({"function_call": {"name": "get_weather", "arguments": '{"a":1}'}}),
            CALLING,
            DONE,
        ],
        chat_answer(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [function_call(arguments='{"a":1}')],
                "function_call": {"name": "get_weather", "arguments": '{"a":1}'},
            }
        ),
        calls=[F],
    ),
    "all of it in the last event": Said(
        "messages",
        [
            message_start(),
            {
                "type": "message_stop",
                "message": messages_answer({"type": "text", "text": "Good"}),
            },
        ],
        text="Good",
    ),
    "an input and a text in the ends of their blocks": Said(
        "messages",
        [
            message_start(),
            {"type": "content_block_start", "index": 0, "content_block": _TEXT},
            {"type": "content_block_stop", "index": 0, "content_block": {**_TEXT, "text": "Good"}},
            {"type": "content_block_start", "index": 1, "content_block": used("get_weather", {})},
            {
                "type": "content_block_stop",
                "index": 1,
                "content_block": used("get_weather", {"a": 1}),
            },
            *message_end("tool_use"),
        ],
        text="Good",
        calls=[F],
    ),
    "more in the ends than in the pieces": Said(
        "messages",
        [
            message_start(),
            *text_block(0, "G")[:-1],
            {**text_block(0)[-1], "content_block": {**_TEXT, "text": "Go"}},
            message_end("tool_use")[0],
            {
                "type": "message_stop",
                "message": messages_answer(
                    {**_TEXT, "text": "Good"}, used("get_weather", {"a": 1})
                ),
            },
        ],
        text="Good",
        calls=[F],
    ),
    "a text beside the parts of its message": Said(
        "responses",
        [CREATED, ended({**message(), "content": [], "text": "Good"})],
        response({**message(), "content": [], "text": "Good"}),
        "Good",
    ),
    "thoughts that are taken out at the end": Said(
        "responses",
        [
            *events_of(response(message(output_text("<think>hm</think>Good"))))[:-1],
            ended(message(output_text("Good"))),
        ],
        text="<think>hm</think>Good",
    ),
}


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("name", SAID)
def test_all_of_it_arrives(
    gateway: RunningGateway, upstream: Upstream, name: str, client: str
) -> None:
    said = SAID[name]
    upstream.behaviours[KEY] = saying(*said.events, body=json.dumps(said.whole).encode())
    told = ask(gateway, client, said.target, stream=True, tools=tools(client))
    assert completed(client, told.body), told.body
    found = reading_of(PROTOCOL[client], decoded(told.body))
    assert (found.text, found.calls) == (said.text, said.calls)
    assert len(set(found.ids)) == len(said.calls)
    if said.whole is not None:
        told = ask(gateway, client, said.target, tools=tools(client))
        assert told.status == 200, told
        assert calls_of(client, told.json) == said.calls
        assert said.text in text_of(client, told)


NOTHING: Any = None
FAILING: dict[str, tuple[str, list[Any], Json]] = {
    "no reason": (
        "messages",
        [message_start(), *text_block(0, "Good"), *message_end(NOTHING)],
        messages_answer({"type": "text", "text": "Good"}, stop=NOTHING),
    ),
    "a null in words": (
        "messages",
        [message_start(), *text_block(0, "Good"), *message_end("null")],
        messages_answer({"type": "text", "text": "Good"}, stop="null"),
    ),
    "a reason that failed": (
        "messages",
        [message_start(), *text_block(0, "Good"), *message_end("network_error")],
        messages_answer({"type": "text", "text": "Good"}, stop="network_error"),
    ),
    "a choice without a message": (
        "chat",
        [ROLE, chat_chunk({}, "null"), DONE],
        {**chat_answer({}), "choices": [{"index": 0, "finish_reason": "stop"}]},
    ),
    "a choice that did not finish": (
        "chat",
        [ROLE, chat_chunk({"content": "Good"}, "FINISH_REASON_UNSPECIFIED"), DONE],
        chat_answer({"content": "Good"}, NOTHING),
    ),
    "completed, but cancelled": (
        "responses",
        [CREATED, ended(message(output_text("Good")), status="cancelled")],
        {**response(message(output_text("Good"))), "status": "cancelled"},
    ),
}


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("name", FAILING)
def test_what_is_not_whole_fails(
    gateway: RunningGateway, upstream: Upstream, name: str, client: str
) -> None:
    """Also for a client of the same protocol."""
    target, events, whole = FAILING[name]
    upstream.behaviours[KEY] = saying(*events, body=json.dumps(whole).encode())
    told = ask(gateway, client, target, stream=True)
    assert told.status >= 400 or stream_error(client, told.body) is not None
    assert client == target or not completed(client, told.body)
    assert ask(gateway, client, target).status >= 400


def test_one_of_two_whole_choices_did_not_finish(
    gateway: RunningGateway, upstream: Upstream
) -> None:
    made = chat_answer({"content": "Good"})
    other = {**made["choices"][0], "index": 1, "finish_reason": None}
    both = {**made, "choices": [*made["choices"], other]}
    upstream.behaviours[KEY] = saying(body=json.dumps(both).encode())
    assert ask(gateway, "chat", "chat", n=2).status >= 400


@pytest.mark.parametrize("client", APIS)
def test_a_number_that_no_double_holds(
    gateway: RunningGateway, upstream: Upstream, client: str
) -> None:
    whole = json.dumps(messages_answer(used("f", {"a": "N"}), stop="tool_use"))
    body = whole.replace('"N"', "1e400").encode()
    streams = (tool_block(0, 1, '{"a":1e', "400}"), block(0, used("f", {"a": "N"})))
    for events in streams:
        upstream.behaviours[KEY] = saying(
            message_start(), *events, *message_end("tool_use"), body=body
        )
        told = ask(gateway, client, "messages", stream=True)
        assert completed(client, told.body)
    told = ask(gateway, client, "messages")
    assert told.status == 200
    assert b"1e400" in told.body


LIKELY = {"token": "Good", "logprob": -0.25, "bytes": [71], "top_logprobs": []}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("client", "target"), [("chat", "responses"), ("responses", "chat")])
def test_token_probabilities_that_nobody_asked_for(
    gateway: RunningGateway, upstream: Upstream, client: str, target: str, stream: bool
) -> None:
    said = response(message(output_text("Good", logprobs=[LIKELY])))
    events: list[Any] = events_of(said)
    whole = said
    if target == "chat":
        chunk = chat_chunk({"content": "Good"})
        chunk["choices"][0]["logprobs"] = {"content": [LIKELY]}
        events, whole = [ROLE, chunk, STOP, DONE], chat_answer({"content": "Good"})
        whole["choices"][0]["logprobs"] = {"content": [LIKELY]}
    upstream.behaviours[KEY] = saying(*events, body=json.dumps(whole).encode())
    told = ask(gateway, client, target, stream=stream)
    found = streamed_text(client, told.body) if stream else text_of(client, told)
    assert found == "Good"
    assert b"0.25" not in told.body


@pytest.mark.parametrize("target", APIS)
def test_how_to_run_in_the_background_is_for_nobody_here(
    gateway: RunningGateway, upstream: Upstream, target: str
) -> None:
    upstream.behaviours.pop(KEY, None)
    rested(gateway)
    upstream.calls.clear()
    window = {"completion_window": "2h", "continuation_id": "job-7"}
    for stream in (False, True):
        made = body("responses", f"{target}/m", stream=stream, background_options=window)
        told = call(gateway.base_url, "POST", PATHS["responses"], made)
        assert told.status == 200
        assert "background_options" in told.headers["x-dragoman-losses"]
    assert all(b"completion_window" not in one.body for one in upstream.calls)
