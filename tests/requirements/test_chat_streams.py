"""Streams for Chat clients: requirements 71 to 80."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.gateway.testing import RunningGateway
from dragoman.protocols.settings import make_options
from tests.gateway.http import AUTH, Connection
from tests.requirements.cells import (
    CHAT,
    DONE,
    MESSAGES,
    RESPONSES,
    ROLE,
    STOP,
    Json,
    asking,
    block,
    chat_chunk,
    chat_stream,
    chunks,
    frame_parser,
    hand_parser,
    message_end,
    message_start,
    named_stream,
    streamed,
    text_block,
    tool_block,
)

WITH_USAGE = asking(CHAT, stream=True, stream_options={"include_usage": True})
THOUGHT = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Hm."},
    {"type": "signature_delta", "signature": "c2ln"},
)
SPOKEN = named_stream(
    message_start(input_tokens=5),
    {"type": "ping"},
    *THOUGHT,
    *text_block(1, "Look", "ing."),
    *tool_block(2, 1, '{"city":', '"Paris"}'),
    *tool_block(3, 2),
    *message_end("tool_use"),
)
"""A Messages stream with all that a Chat stream can show."""


def deltas(stream: bytes) -> list[Json]:
    """What each chunk with a choice adds."""
    return [
        chunk["choices"][0]["delta"]
        for chunk in chunks(stream)
        if chunk != "[DONE]" and chunk["choices"]
    ]


def fragment(index: int, **members: Any) -> Json:
    return {"tool_calls": [{"index": index, **members}]}


def test_frame_by_frame() -> None:
    """Nothing but data lines, and the terminator last. req: 71, 73, 74, 75, 77, 79, 80"""
    made = streamed(CHAT, MESSAGES, SPOKEN)
    assert deltas(made) == [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "Hm."},
        {"content": "Look"},
        {"content": "ing."},
        fragment(
            0, id="toolu_1", type="function", function={"name": "get_weather", "arguments": ""}
        ),
        fragment(0, function={"arguments": '{"city":'}),
        fragment(0, function={"arguments": '"Paris"}'}),
        fragment(
            1, id="toolu_2", type="function", function={"name": "get_weather", "arguments": ""}
        ),
        fragment(1, function={"arguments": "{}"}),
        {},
    ]
    assert made.endswith(b"\n\n" + DONE)
    assert [line[:6] for line in made.split(b"\n") if line] == [b"data: "] * 11


def test_what_every_chunk_has() -> None:
    """req: 72, 74, 76"""
    *made, done = chunks(streamed(CHAT, MESSAGES, SPOKEN))
    assert done == "[DONE]"
    for number, chunk in enumerate(made):
        (choice,) = chunk.pop("choices")
        assert chunk == {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1700000000,
            "model": "asked",
        }
        assert (choice["index"], choice["logprobs"]) == (0, None)
        last = number == len(made) - 1
        assert choice["finish_reason"] == ("tool_calls" if last else None)


@pytest.mark.parametrize(
    ("stop", "finish"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length")],
)
def test_the_last_chunk_says_why(stop: str, finish: str) -> None:
    """With an empty delta. req: 75"""
    upstream = named_stream(message_start(), *text_block(0, "Hi"), *message_end(stop))
    (choice,) = chunks(streamed(CHAT, MESSAGES, upstream))[-2]["choices"]
    assert (choice["delta"], choice["finish_reason"]) == ({}, finish)


def test_usage_only_when_asked_for() -> None:
    """Then in a chunk of its own before the end, and null on all others. req: 78"""
    assert b"usage" not in streamed(CHAT, MESSAGES, SPOKEN)
    *others, usage, _ = chunks(streamed(CHAT, MESSAGES, SPOKEN, WITH_USAGE))
    assert all(chunk["usage"] is None for chunk in others)
    assert usage["choices"] == []
    counts = {name: usage["usage"][name] for name in ("prompt_tokens", "completion_tokens")}
    assert counts == {"prompt_tokens": 5, "completion_tokens": 2}
    assert usage["usage"]["total_tokens"] == 7


@pytest.mark.parametrize("asked", [False, True])
def test_usage_that_a_passed_on_stream_brings(asked: bool) -> None:
    """The upstream is always asked, for the gateway counts; the client is shown it if it asked.
    req: 78"""
    usage = chat_chunk(usage={"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7})
    made = streamed(CHAT, CHAT, chat_stream(ROLE, STOP, usage), WITH_USAGE if asked else None)
    assert len(chunks(made)) == (4 if asked else 3)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "both"])
def test_the_field_of_reasoning(field: Any) -> None:
    """req: 79"""
    made = deltas(streamed(CHAT, MESSAGES, SPOKEN, options=make_options(reasoning_field=field)))
    names = ("reasoning_content", "reasoning") if field == "both" else (field,)
    assert made[1] == dict.fromkeys(names, "Hm.")


def test_nothing_follows_the_end() -> None:
    """Whatever the upstream goes on to say. req: 80"""
    for upstream, stream in (
        (CHAT, chat_stream(ROLE, STOP) + chat_stream(chat_chunk({"content": "x"}))),
        (MESSAGES, SPOKEN + named_stream(*text_block(4, "x"))),
    ):
        made = streamed(CHAT, upstream, stream)
        assert made.count(DONE) == 1
        assert made.endswith(DONE)


ODD = b"""\
id: 1
retry: 5
event: message
data:{"choices":[{"index":0,"delta":{"role":"assistant","content":"a\xe2\x80\xa8b"}}]}

: a comment

data: {"choices":
data: [{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]\x20\x20

"""


def test_an_odd_stream_is_passed_on_in_the_common_form() -> None:
    """Values keep their bytes, frames do not: no names, no ids, one data line each, the space, no
    separator at which a reader splits lines. req: 71, 80"""
    made = streamed(CHAT, CHAT, ODD)
    assert [line[:6] for line in made.split(b"\n") if line] == [b"data: "] * 3
    assert made.endswith(DONE)
    first, last = hand_parser(made)
    assert first["choices"][0]["delta"]["content"] == "a\u2028b"
    assert last["choices"][0]["finish_reason"] == "stop"
    assert streamed(CHAT, CHAT, ODD.replace(b"\n", b"\r\n")) == made


SCENARIOS = [
    "text",
    "multibyte",
    "tool",
    "text_tool",
    "parallel_tools",
    "reasoning",
    "interleaved_thinking",
    "refusal",
    "length",
    "citations",
    "cached_usage",
    "text?quirks=comments",
    "text?cut=1",
    "text?first_ms=30",
]
QUIRKS = ["no_space", "ids", "retry", "event_lines", "padded_done", "crlf", "multiline", "no_done"]
NOTHING = {"type": "object", "properties": {}}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": NOTHING}}
    for name in ("look", "find")
]


@pytest.mark.parametrize("usage", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        *(f"{upstream}/sim-{name}" for name in SCENARIOS for upstream in ("messages", "responses")),
        *(f"chat/sim-{name}" for name in SCENARIOS if name != "interleaved_thinking"),
        *(f"chat/sim-multibyte?quirks={name}" for name in QUIRKS),
    ],
)
def test_both_hand_written_readers(gateway: RunningGateway, model: str, usage: bool) -> None:
    """A dozen lines by which people read these streams, over a real socket: they see every chunk,
    the whole text, a finish reason and the end. req: 71, 73, 75, 77, 80"""
    asked = asking(CHAT, model=model, stream=True, tools=TOOLS, reasoning_effort="low")
    if usage:
        asked["stream_options"] = {"include_usage": True}
    with Connection(gateway.base_url) as connection:
        connection.send("POST", "/v1/chat/completions", asked, AUTH)
        head = connection.head()
        pieces = list(iter(connection.chunk, b""))
    assert head.status == 200, pieces
    made = hand_parser(b"".join(pieces))
    assert frame_parser(pieces) == made
    assert frame_parser([bytes([byte]) for byte in b"".join(pieces)]) == made
    assert len({json.dumps([chunk[k] for k in ("id", "created", "model")]) for chunk in made}) == 1
    spoken = [chunk["choices"][0] for chunk in made if chunk["choices"]]
    first, *others = [choice["delta"].get("role") for choice in spoken]
    assert (first, set(others)) == ("assistant", {None})
    assert [choice.get("finish_reason") is not None for choice in spoken].count(True) == 1
    assert spoken[-1]["delta"] == {}
    assert [chunk.get("usage") is not None for chunk in made].count(True) == int(usage)
    if "multibyte" in model:
        text = "".join(choice["delta"].get("content") or "" for choice in spoken)
        assert all(separator in text for separator in "\u2028\u2029\x85")


def test_a_responses_stream_as_chunks() -> None:
    """The same grammar whatever the upstream speaks. req: 72, 73, 74, 75"""
    response: Json = {"id": "resp_9", "created_at": 1600000000, "model": "theirs", "output": []}
    part = {"item_id": "msg_9", "output_index": 0, "content_index": 0}
    message = {"type": "message", "id": "msg_9", "role": "assistant", "content": []}
    upstream = named_stream(
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": message},
        {"type": "response.content_part.added", "part": {"type": "output_text"}, **part},
        {"type": "response.output_text.delta", "delta": "Hi", **part},
        {"type": "response.output_text.done", "text": "Hi", **part},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": {**response, "status": "completed"}},
    )
    made = chunks(streamed(CHAT, RESPONSES, upstream))
    head = '{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1600000000'
    assert [json.dumps(chunk)[: len(head)] for chunk in made[:-1]] == [head] * 3
    assert deltas(streamed(CHAT, RESPONSES, upstream)) == [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": "Hi"},
        {},
    ]
