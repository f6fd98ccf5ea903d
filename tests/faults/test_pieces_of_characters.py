"""Halves of characters in streams with anything between them, and in arguments, over sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.server.testing import RunningGateway
from tests.faults.asking import AT, HALVES, ask, saying
from tests.faults.conftest import Over
from tests.faults.upstream import Upstream
from tests.fuzz.readings import reading_of
from tests.fuzz.streams import decoded, fragment
from tests.gateway.clients import APIS, completed, streamed_text
from tests.losses.requests import CHAT, MESSAGES, RESPONSES
from tests.protocols.openai_responses.upstream import call, events_of, response
from tests.tables.cells import (
    CHAT_USAGE,
    ROLE,
    STOP,
    block,
    chat_answer,
    chat_chunk,
    message_end,
    message_start,
    messages_answer,
    tool_block,
)
from tests.tables.odd_responses import HELLO

KEY = "key-of-the-one-account"
DONE = b"[DONE]"
PROTOCOL = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}


@pytest.fixture(scope="module")
def gateway(over: Over) -> RunningGateway:
    return over(KEY)


def said(text: str) -> Any:
    return block(0, {}, {"type": "text_delta", "text": text})[1]


FIRST, SECOND = "a\ud83d", "\ude00b"
TEXT = [HALVES["responses"][-1] | {"delta": text} for text in (FIRST, "", SECOND)]
BETWEEN: dict[str, list[Any]] = {
    "chat": [
        ROLE,
        chat_chunk({"content": FIRST}),
        {**STOP, "choices": [], "usage": CHAT_USAGE},
        chat_chunk({"content": ""}),
        chat_chunk({"content": SECOND}),
        STOP,
        DONE,
    ],
    "messages": [
        message_start(),
        *block(0, {"type": "text", "text": ""})[:1],
        said(FIRST),
        {"type": "ping"},
        said(""),
        said(SECOND),
        {"type": "content_block_stop", "index": 0},
        *message_end(),
    ],
    "responses": [
        *HALVES["responses"][:2],
        TEXT[0],
        {"type": "response.output_text.annotation.added", **AT, "annotation": {}},
        *TEXT[1:],
        {"type": "response.completed", "response": {**HELLO, "output": []}},
    ],
}


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("target", APIS)
def test_halves_with_something_between(
    gateway: RunningGateway, upstream: Upstream, target: str, client: str
) -> None:
    upstream.behaviours[KEY] = saying(*BETWEEN[target])
    told = ask(gateway, client, target, stream=True)
    assert streamed_text(client, told.body) == "a\U0001f600b"
    assert completed(client, told.body)


ARGUMENTS = r'{"a":"\ud83d","b":"\ud83d\ude00","c":"\\ud83d","d":"\n"}'
MEANT = {"a": "\ufffd", "b": "\U0001f600", "c": "\\ud83d", "d": "\n"}


def calling(target: str, size: int) -> list[Any]:
    """A stream that spells the arguments of a call in pieces of a size."""
    pieces = [ARGUMENTS[at : at + size] for at in range(0, len(ARGUMENTS), size)]
    if target == "chat":
        begun = fragment(0, "", id="x", type="function", name="f")
        rest = [fragment(0, piece) for piece in pieces]
        return [ROLE, begun, *rest, chat_chunk({}, "tool_calls"), DONE]
    if target == "messages":
        return [message_start(), *tool_block(0, 1, *pieces), *message_end("tool_use")]
    found = []
    for event in events_of(response(call(ARGUMENTS))):
        if event["type"].endswith("arguments.delta"):
            found += [{**event, "delta": piece} for piece in pieces] if pieces else []
            pieces = []
        else:
            found.append(event)
    return found


def whole_call(target: str) -> Any:
    if target == "chat":
        function = {"name": "f", "arguments": ARGUMENTS}
        made = [{"id": "x", "type": "function", "function": function}]
        return chat_answer({"content": None, "tool_calls": made}, "tool_calls")
    if target == "messages":
        given = {"type": "tool_use", "id": "x", "name": "f", "input": json.loads(ARGUMENTS)}
        return messages_answer(given, stop="tool_use")
    return response(call(ARGUMENTS))


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("target", APIS)
def test_escaped_halves_in_arguments(
    gateway: RunningGateway, upstream: Upstream, target: str, client: str
) -> None:
    """Wherever they are cut; what is no half of a character stays as it is."""
    for size in (1, 4, 5, 99):
        body = json.dumps(whole_call(target)).encode()
        upstream.behaviours[KEY] = saying(*calling(target, size), body=body)
        told = ask(gateway, client, target, stream=True)
        assert completed(client, told.body), told.body
        found = reading_of(PROTOCOL[client], decoded(told.body))
        assert [json.loads(arguments) for _, arguments in found.calls] == [MEANT]
    told = ask(gateway, client, target)
    assert told.status == 200
    text = json.dumps(told.json, ensure_ascii=False)
    assert "\ufffd" in text or r"\\ufffd" in text
    assert "repaired" in told.headers["x-dragoman-losses"]
