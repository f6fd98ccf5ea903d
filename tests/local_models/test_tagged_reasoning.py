"""Reasoning in tags at the beginning of an answer's text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.blocks import Reasoning, Text, ToolCall
from dragoman.canonical.events import Closed, Delta, Event, Opened
from dragoman.canonical.tagged import TaggedReasoning
from tests.faults.conftest import Over
from tests.faults.upstream import Upstream, answer, event, is_streamed, streamed
from tests.gateway.clients import PATHS, body, completed
from tests.gateway.http import call, events
from tests.local_models.gateways import limited
from tests.tables.cells import chat_answer, chat_chunk
from tests.upstream.servers import Call

KEY = "key-of-a-server-without-a-parser"


def staged(*pieces: str, is_open: bool = False) -> list[tuple[str, str]]:
    """The blocks that become of a text in these pieces: their kinds and texts."""
    stage = TaggedReasoning(is_open=is_open)
    given: list[Event] = [
        Opened(0, Text(text="")),
        *[Delta(0, piece) for piece in pieces],
        Closed(0),
        Opened(1, ToolCall(id="c", name="f", arguments="{}")),
        Closed(1),
    ]
    texts: dict[int, list[str]] = {}
    kinds: dict[int, str] = {}
    opened: int | None = None
    for one in [made for read in given for made in stage.push(read)]:
        if type(one) is Opened:
            assert opened is None
            opened = one.index
            kinds[one.index] = {Reasoning: "thought", Text: "text"}.get(type(one.block), "call")
            texts[one.index] = []
        elif type(one) is Delta:
            assert one.index == opened
            texts[one.index].append(one.text)
        else:
            assert type(one) is Closed
            assert one.index == opened
            opened = None
    assert opened is None
    return [(kinds[index], "".join(texts[index])) for index in kinds if kinds[index] != "call"]


ROWS: dict[str, tuple[str, bool, list[tuple[str, str]]]] = {
    "tags": ("<think>\nHm.\n</think>\n\nYes.", False, [("thought", "Hm.\n"), ("text", "Yes.")]),
    "blank before": ("\n <think>Hm.</think>Yes.", False, [("thought", "Hm."), ("text", "Yes.")]),
    "no tags": ("Yes <think>not</think>.", False, [("text", "Yes <think>not</think>.")]),
    "almost a tag": ("<thin", False, [("text", "<thin")]),
    "another tag": ("<thinking>x", False, [("text", "<thinking>x")]),
    "cut": ("<think>Hm", False, [("thought", "Hm")]),
    "cut in the tag": ("<think>Hm</thi", False, [("thought", "Hm</thi")]),
    "nothing after": ("<think>Hm.</think>\n", False, [("thought", "Hm.")]),
    "less than": (
        "<think>a < b </b</think>Yes.",
        False,
        [("thought", "a < b </b"), ("text", "Yes.")],
    ),
    "empty": ("<think>\n\n</think>\n\nYes.", False, [("text", "Yes.")]),
    "no text": ("", False, [("text", "")]),
    "closing tag alone": ("Hm.</think>Yes.", True, [("thought", "Hm."), ("text", "Yes.")]),
    "both, though open": ("<think>Hm.</think>Yes.", True, [("thought", "Hm."), ("text", "Yes.")]),
    "closing tag alone, not asked for": ("Hm.</think>Yes.", False, [("text", "Hm.</think>Yes.")]),
}


@pytest.mark.parametrize(("text", "is_open", "expected"), ROWS.values(), ids=ROWS)
def test_wherever_it_is_cut(text: str, is_open: bool, expected: list[tuple[str, str]]) -> None:
    assert staged(text, is_open=is_open) == expected
    assert staged(*text, is_open=is_open) == expected
    for at in range(1, len(text)):
        assert staged(text[:at], text[at:], is_open=is_open) == expected


# --- over sockets -------------------------------------------------------------------------------


def tagged(text: str) -> Any:
    async def handler(call: Call) -> None:
        if is_streamed(call):
            pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
            chunks = [chat_chunk({"role": "assistant", "content": ""})]
            chunks += [chat_chunk({"content": piece}) for piece in pieces]
            chunks.append(chat_chunk({}, "stop"))
            await call.send(streamed([*map(event, chunks), b"data: [DONE]\n\n"]))
        else:
            message = {"role": "assistant", "content": text}
            await call.send(answer(json.dumps(chat_answer(message)).encode()))

    return handler


def thought_and_text(client: str, told: Any, stream: bool) -> tuple[str, str]:
    thought, text = "", ""
    if client == "messages":
        if not stream:
            for block in told.json["content"]:
                thought += block.get("thinking", "")
                text += block.get("text", "")
        else:
            for _, data in events(told.body):
                delta = data.get("delta", {})
                thought += delta.get("thinking", "")
                text += delta.get("text", "")
    elif client == "responses":
        output = events(told.body)[-1][1]["response"]["output"] if stream else told.json["output"]
        for item in output:
            parts = item.get("content") or ()
            if item["type"] == "reasoning":
                parts = [*parts, *item["summary"]]
                thought += "".join(part["text"] for part in parts)
            else:
                text += "".join(part["text"] for part in parts)
    else:
        messages = [told.json["choices"][0]["message"]] if not stream else []
        if stream:
            for _, data in events(told.body):
                if data != "[DONE]":
                    messages += [choice["delta"] for choice in data["choices"]]
        for message in messages:
            thought += message.get("reasoning_content") or ""
            text += message.get("content") or ""
    return thought, text


THINKS: dict[str, dict[str, Any]] = {
    "messages": {"thinking": {"type": "adaptive"}},
    "responses": {"reasoning": {"effort": "high", "summary": "auto"}},
    "chat": {},
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", ["messages", "responses"])
def test_a_chat_upstream_of_ones_own_is_read_so(
    client: str, stream: bool, over: Over, upstream: Upstream
) -> None:
    upstream.behaviours[KEY] = tagged("<think>\nHm, well.\n</think>\n\nYes: 1 < 2.")
    asked = body(client, "chat/m", stream=stream, **THINKS[client])
    told = call(over(KEY).base_url, "POST", PATHS[client], asked)
    assert told.status == 200, told.body
    assert not stream or completed(client, told.body)
    assert thought_and_text(client, told, stream) == ("Hm, well.\n", "Yes: 1 < 2.")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", list(PATHS))
def test_the_closing_tag_alone_where_that_is_set(
    client: str, stream: bool, over: Over, upstream: Upstream
) -> None:
    upstream.behaviours[KEY] = tagged("Hm, well.</think>Yes.")
    gateway = over(config=limited(upstream.url, KEY, reasoning_in="tags"))
    asked = body(client, "chat/m", stream=stream, **THINKS[client])
    told = call(gateway.base_url, "POST", PATHS[client], asked)
    assert told.status == 200, told.body
    assert thought_and_text(client, told, stream) == ("Hm, well.", "Yes.")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_within_one_protocol_an_answer_is_passed_as_it_is(
    stream: bool, over: Over, upstream: Upstream
) -> None:
    upstream.behaviours[KEY] = tagged("<think>Hm.</think>Yes.")
    told = call(over(KEY).base_url, "POST", PATHS["chat"], body("chat", "chat/m", stream=stream))
    assert thought_and_text("chat", told, stream) == ("", "<think>Hm.</think>Yes.")
