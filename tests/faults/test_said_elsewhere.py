"""What streams say in other places than where it belongs, over sockets: it arrives, or it fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.server.testing import RunningGateway
from tests.faults.asking import KEY, ask, saying
from tests.faults.conftest import Over
from tests.faults.streams import CALLING, CREATED, DONE, PROTOCOL, F, H, ended
from tests.faults.upstream import Upstream
from tests.fuzz.readings import reading_of
from tests.fuzz.streams import decoded, fragment
from tests.gateway.clients import APIS, completed, stream_error
from tests.protocols.openai_responses.upstream import call, events_of, message, response, text
from tests.tables.cells import (
    ROLE,
    STOP,
    block,
    chat_chunk,
    function_call,
    message_end,
    message_start,
    text_block,
)
from tests.tables.odd_chat import whole_chunk

WEATHER = [function_call(arguments='{"a":1}')]


def tool(name: str, given: Any, call_id: str | None = "t") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def begun(*content: Any) -> dict[str, Any]:
    made = message_start()
    return {**made, "message": {**made["message"], "content": list(content)}}


def choice(index: int, chunk: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(chunk))
    made["choices"][0]["index"] = index
    return made


def pretty(event: dict[str, Any]) -> bytes:
    """The data of a frame of several lines."""
    return json.dumps(event, indent=1).replace("\n", "\ndata: ").encode()


TWO_CALLS = [
    fragment(0, '{"a":1}', id="x", type="function", name="get_weather"),
    fragment(0, "", id="x", type="function", name="h"),
    fragment(0, '{"b":2}'),
]
H_CALL = function_call(name="h", arguments='{"b":2}')
START: tuple[str, Any, None] = "get_weather", {}, None
SAID: dict[str, tuple[str, list[Any], str, list[tuple[str, str]]]] = {
    "a role, then a whole message": (
        "chat",
        [ROLE, whole_chunk({"content": "Good"}, "stop"), DONE],
        "Good",
        [],
    ),
    "a text, then calls in a whole message": (
        "chat",
        [
            ROLE,
            chat_chunk({"content": "Good"}),
            whole_chunk({"content": "Good", "tool_calls": WEATHER}, "tool_calls"),
            DONE,
        ],
        "Good",
        [F],
    ),
    "text in one choice, a call in another": (
        "chat",
        [
            ROLE,
            chat_chunk({"content": "Good"}),
            STOP,
            choice(1, fragment(0, '{"a":1}', id="x", type="function", name="get_weather")),
            choice(1, CALLING),
            DONE,
        ],
        "Good",
        [F],
    ),
    "a finish reason in every chunk": (
        "chat",
        [chat_chunk({"content": "Go"}, "stop"), chat_chunk({"content": "od"}, "stop"), DONE],
        "Good",
        [],
    ),
    "frames of several lines from a Chat upstream": (
        "chat",
        [*map(pretty, (ROLE, chat_chunk({"content": "Good"}), STOP)), DONE],
        "Good",
        [],
    ),
    "frames of several lines from a Messages upstream": (
        "messages",
        [*map(pretty, (message_start(), *text_block(0, "Good"), *message_end()))],
        "Good",
        [],
    ),
    "frames of several lines from a Responses upstream": (
        "responses",
        [*map(pretty, events_of(response(message(text("Good")))))],
        "Good",
        [],
    ),
    "an end that is called response.done": (
        "responses",
        [
            *events_of(response(message(text("Good"))))[:-1],
            {"type": "response.done", "response": response(message(text("Good")))},
        ],
        "Good",
        [],
    ),
    "a whole message that repeats all": (
        "chat",
        [
            ROLE,
            chat_chunk({"content": "Good"}),
            fragment(0, '{"a":1}', id="call_1", type="function", name="get_weather"),
            whole_chunk({"content": "Good", "tool_calls": WEATHER}, "tool_calls"),
            DONE,
        ],
        "Good",
        [F],
    ),
    "two calls of one index and id": ("chat", [ROLE, *TWO_CALLS, CALLING, DONE], "", [F, H]),
    "two calls of one index in turns": (
        "chat",
        [
            ROLE,
            fragment(0, '{"a":', id="x", type="function", name="get_weather"),
            fragment(0, '{"b":', id="y", type="function", name="h"),
            fragment(0, "1}", id="x", name="get_weather"),
            fragment(0, "2}", id="y", name="h"),
            CALLING,
            DONE,
        ],
        "",
        [F, H],
    ),
    "a whole message with a further call": (
        "chat",
        [
            ROLE,
            TWO_CALLS[0],
            whole_chunk({"tool_calls": [*WEATHER, {**H_CALL, "id": "y"}]}, "tool_calls"),
            DONE,
        ],
        "",
        [F, H],
    ),
    "two calls of one index": (
        "chat",
        [
            ROLE,
            TWO_CALLS[0],
            fragment(0, '{"b":2}', id="y", type="function", name="h"),
            CALLING,
            DONE,
        ],
        "",
        [F, H],
    ),
    "a start of a call twice": (
        "messages",
        [
            message_start(),
            *[{"type": "content_block_start", "index": 0, "content_block": tool(*START)}] * 2,
            *block(0, {}, {"type": "input_json_delta", "partial_json": '{"a":1}'})[1:],
            *message_end("tool_use"),
        ],
        "",
        [F],
    ),
    "content in the start of a message": (
        "messages",
        [
            begun({"type": "text", "text": "Good"}, tool("get_weather", {"a": 1})),
            *message_end("tool_use"),
        ],
        "Good",
        [F],
    ),
    "content in the start of a message, and once more": (
        "messages",
        [begun({"type": "text", "text": "Good"}), *text_block(0, "Go", "od"), *message_end()],
        "Good",
        [],
    ),
    "calls of one index and id without an end": (
        "messages",
        [
            message_start(),
            block(0, tool("get_weather", {"a": 1}))[0],
            *block(0, tool("h", {"b": 2})),
            *message_end("tool_use"),
        ],
        "",
        [F, H],
    ),
    "calls of one index without ids or ends": (
        "messages",
        [
            message_start(),
            block(0, tool("get_weather", {"a": 1}, None))[0],
            *block(0, tool("h", {"b": 2}, None)),
            *message_end("tool_use"),
        ],
        "",
        [F, H],
    ),
    "an output that is only a text": (
        "responses",
        [CREATED, ended(output_text="Good")],
        "Good",
        [],
    ),
    "an output that only the last event has": (
        "responses",
        [CREATED, ended(message(text("Good")), call('{"a":1}', name="get_weather"))],
        "Good",
        [F],
    ),
    "a part of another place": (
        "responses",
        [CREATED, ended(message({"type": "input_text", "text": "Good"}))],
        "Good",
        [],
    ),
}


@pytest.fixture(scope="module")
def gateway(over: Over) -> RunningGateway:
    return over(KEY)


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("name", SAID)
def test_it_arrives(gateway: RunningGateway, upstream: Upstream, name: str, client: str) -> None:
    target, events, said, calls = SAID[name]
    upstream.behaviours[KEY] = saying(*events)
    told = ask(gateway, client, target, stream=True)

    assert completed(client, told.body), told.body
    found = reading_of(PROTOCOL[client], decoded(told.body))
    assert (found.text, found.calls) == (said, calls)
    assert len(set(found.ids)) == len(calls)


CONTRADICTORY: dict[str, tuple[str, list[Any]]] = {
    "a whole message that says something else": (
        "chat",
        [ROLE, chat_chunk({"content": "Good"}), whole_chunk({"content": "Bad"}, "stop"), DONE],
    ),
    "a whole message that has another call": (
        "chat",
        [ROLE, TWO_CALLS[0], whole_chunk({"tool_calls": [H_CALL]}, "stop"), DONE],
    ),
    "blocks that are not those of the start": (
        "messages",
        [begun({"type": "text", "text": "Good"}), *text_block(0, "Bad"), *message_end()],
    ),
    "a block that ends with another text": (
        "messages",
        [
            message_start(),
            *text_block(0, "Good")[:-1],
            {**text_block(0)[-1], "content_block": {"type": "text", "text": "Bad"}},
            *message_end(),
        ],
    ),
    "a call that ends under another name": (
        "responses",
        [
            *events_of(response(call('{"a":1}')))[:-2],
            {
                "type": "response.output_item.done",
                "output_index": 0,
                "item": call('{"a":1}', name="h"),
            },
            ended(),
        ],
    ),
    "another answer in its middle": (
        "chat",
        [ROLE, chat_chunk({"content": "Good"}), {**ROLE, "id": "chatcmpl-b"}, STOP, DONE],
    ),
    "two choices with text": (
        "chat",
        [ROLE, chat_chunk({"content": "a"}), choice(1, chat_chunk({"content": "b"})), STOP, DONE],
    ),
    "a text that the whole output has not": (
        "responses",
        [*events_of(response(message(text("Good"))))[:-1], ended(message(text("Bad"), id="msg_2"))],
    ),
}


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("name", CONTRADICTORY)
def test_a_contradiction_fails(
    gateway: RunningGateway, upstream: Upstream, name: str, client: str
) -> None:
    target, events = CONTRADICTORY[name]
    upstream.behaviours[KEY] = saying(*events)
    told = ask(gateway, client, target, stream=True)

    assert stream_error(client, told.body) is not None
    assert not completed(client, told.body)


GOOD = chat_chunk({"content": "Good"})
BLANK = chat_chunk({}, "")


@pytest.mark.parametrize(
    ("events", "whole"),
    [
        # Servers that know no `n` say themselves that there is no more.
        ([GOOD, STOP, DONE], True),
        ([GOOD, STOP], False),
        ([GOOD, choice(1, GOOD), BLANK, DONE], False),
        ([GOOD, choice(1, GOOD), choice(1, BLANK), STOP, DONE], True),
        ([GOOD, choice(1, GOOD), STOP, choice(1, STOP), DONE], True),
    ],
)
def test_every_choice_comes_and_ends(
    gateway: RunningGateway, upstream: Upstream, events: list[Any], whole: bool
) -> None:
    upstream.behaviours[KEY] = saying(ROLE, *events)
    told = ask(gateway, "chat", "chat", stream=True, n=2)
    assert (stream_error("chat", told.body) is None) is whole


def test_an_end_without_a_reason_is_none(gateway: RunningGateway, upstream: Upstream) -> None:
    """Also where a stream is passed through."""
    said = [message_start(), *text_block(0, "Good")]
    for ending, whole in ((message_end("end_turn"), True), (message_end("end_turn")[-1:], False)):
        upstream.behaviours[KEY] = saying(*said, *ending)
        told = ask(gateway, "messages", "messages", stream=True)
        assert (stream_error("messages", told.body) is None) is whole
