"""Tool calls in the text of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.blocks import Text, ToolCall
from dragoman.canonical.events import Closed, Delta, Event, Opened
from dragoman.canonical.losses import Ledger
from dragoman.canonical.tagged_calls import TaggedCalls
from dragoman.protocols.settings import make_capabilities
from tests.tables.cells import CHAT, MESSAGES, RESPONSES, asking, calling, chat_answer
from tests.tables.upstreams import STREAMS

HERMES = '<tool_call>\n{"name": "f", "arguments": {"city": "Ky<oto", "days": 2}}\n</tool_call>'
QWEN = (
    "<tool_call>\n<function=f>\n<parameter=city>\nKy<oto\n</parameter>\n"
    "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>"
)
BARE = QWEN.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>")
CALL = ("f", {"city": "Ky<oto", "days": 2})
ROWS: dict[str, tuple[str, str, list[Any]]] = {
    "Hermes": (HERMES, "", [CALL]),
    "Qwen": (QWEN, "", [CALL]),
    "without the outer tag": (BARE, "", [CALL]),
    "text around": (f"a < b {HERMES} c", "a < b  c", [CALL]),
    "two": (f"{HERMES}\n{QWEN}", "\n", [CALL, CALL]),
    "another tool": (HERMES.replace('"f"', '"g"'), HERMES.replace('"f"', '"g"'), []),
    "no JSON": ("<tool_call>{f}</tool_call>", "<tool_call>{f}</tool_call>", []),
    "cut": (HERMES[:40], HERMES[:40], []),
    "other tags": ("<tool>x</tool> <fun", "<tool>x</tool> <fun", []),
}


def staged(pieces: tuple[str, ...]) -> tuple[str, list[Any]]:
    """Text and calls that become of a text in these pieces."""
    stage = TaggedCalls({"f": frozenset({"days"})}, Ledger(), lambda prefix: prefix)
    given: list[Event] = [Opened(0, Text(text="")), *[Delta(0, one) for one in pieces], Closed(0)]
    texts: dict[int, str] = {}
    names: dict[int, str] = {}
    for event in [made for read in given for made in stage.push(read)]:
        if type(event) is Opened:
            texts[event.index] = ""
            if type(event.block) is ToolCall:
                names[event.index] = event.block.name
        elif type(event) is Delta:
            texts[event.index] += event.text
    return texts[0], [(name, json.loads(texts[index])) for index, name in names.items()]


@pytest.mark.parametrize(("text", "said", "calls"), ROWS.values(), ids=ROWS)
def test_wherever_it_is_cut(text: str, said: str, calls: list[Any]) -> None:
    assert staged((text,)) == (said, calls)
    assert staged(tuple(text)) == (said, calls)
    for at in range(1, len(text)):
        assert staged((text[:at], text[at:])) == (said, calls)


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOLS = {
    CHAT: [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    MESSAGES: [{"name": "f", "input_schema": SCHEMA}],
    RESPONSES: [{"type": "function", "name": "f", "parameters": SCHEMA}],
}
ANSWER = chat_answer({"content": f"Now.{QWEN}"})


def answered(client: str, stream: bool, **capabilities: Any) -> tuple[str, set[str]]:
    """What a client is sent for an answer of a Chat upstream, and what it is told was lost."""
    made = make_capabilities(**capabilities)
    call = calling(client, CHAT, asking(client, tools=TOOLS[client]), capabilities=made)
    if stream:
        opened = call.open_stream()
        sent = opened.feed(STREAMS[CHAT](ANSWER)) + opened.finish()
        assert opened.outcome.ended
    else:
        sent = call.translate_response(json.dumps(ANSWER).encode())
    return sent.decode(), {loss.detail for loss in call.losses if loss.path == "tools"}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", TOOLS)
def test_it_becomes_a_call_where_that_is_set(client: str, stream: bool) -> None:
    sent, told = answered(client, stream, tool_text="parse")
    assert "<tool_call>" not in sent
    assert told == {"a tool call in the text became a call"}
    ends = {CHAT: '"tool_calls"', MESSAGES: '"tool_use"', RESPONSES: '"function_call"'}
    assert ends[client] in sent


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_else_the_flag_that_is_missing_is_told(client: str, stream: bool) -> None:
    sent, (told,) = answered(client, stream, reasoning_in="auto")
    assert "<tool_call>" in sent
    assert "--tool-call-parser" in told


def test_within_one_protocol_an_answer_passes() -> None:
    sent, told = answered(CHAT, False, reasoning_in="auto")
    assert "<tool_call>" in sent
    assert not told
