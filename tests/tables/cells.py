"""The smallest requests, answers and streams of each protocol, and the way through one cell."""

from __future__ import annotations

import json
import re
from typing import Any

from dragoman.canonical.losses import Policy
from dragoman.canonical.options import Capabilities, Options
from dragoman.protocols.settings import make_options
from dragoman.translation import AnswerStream, Call
from tests.library import translate_request

CHAT, MESSAGES, RESPONSES = "openai_chat", "anthropic_messages", "openai_responses"

Json = dict[str, Any]
Event = tuple[str, Any]

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def asking(protocol: str, **more: Any) -> Json:
    """A request that says "Hi", with further members."""
    if protocol == RESPONSES:
        return {"model": "asked", "input": "Hi", **more}
    body: Json = {"model": "asked", "messages": [{"role": "user", "content": "Hi"}], **more}
    return {"max_tokens": 100, **body} if protocol == MESSAGES else body


def calling(
    client: str,
    upstream: str,
    body: Json | None = None,
    *,
    options: Options | None = None,
    capabilities: Capabilities | None = None,
    policy: str = "balanced",
) -> Call:
    """A request translated; its answer has a fixed id, and a time if the upstream tells none."""
    return translate_request(
        client,
        upstream,
        json.dumps(asking(client) if body is None else body).encode(),
        model="theirs",
        options=options or make_options(policy=Policy(policy)),
        capabilities=capabilities or Capabilities(),
        response_id={CHAT: "chatcmpl-1", MESSAGES: "msg_1", RESPONSES: "resp_1"}[client],
        created=1700000000,
    )


def steady(value: Any) -> Any:
    """A value whose minted ids are numbered by the order of their first appearance."""
    minted: dict[str, str] = {}
    text = json.dumps(value)
    for found in re.findall(r'"((?:msg|fc|ctc|rs|call)_)([0-9a-f]{24})"', text):
        minted.setdefault("".join(found), f"{found[0]}{chr(ord('a') + len(minted))}")
    for long, short in minted.items():
        text = text.replace(long, short)
    return json.loads(text)


# --- answers of upstreams -------------------------------------------------------------------------


def chat_answer(message: Json, finish: str = "stop", **more: Any) -> Json:
    """A `chat.completion`."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {
        "id": "chatcmpl-theirs",
        "object": "chat.completion",
        "created": 1600000000,
        "model": "theirs",
        "choices": [choice],
        **more,
    }


def messages_answer(*content: Json, stop: str = "end_turn", **more: Any) -> Json:
    """A `message`."""
    return {
        "id": "msg_theirs",
        "type": "message",
        "role": "assistant",
        "model": "theirs",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 2},
        **more,
    }


def function_call(number: int = 1, name: str = "get_weather", arguments: str = "{}") -> Json:
    """A tool call of a Chat message."""
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


# --- streams of upstreams -------------------------------------------------------------------------


def chat_chunk(delta: Json | None = None, finish: str | None = None, **more: Any) -> Json:
    """A chunk with one choice, or without any when there is no delta."""
    choices = []
    if delta is not None:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {
        "id": "chatcmpl-theirs",
        "object": "chat.completion.chunk",
        "created": 1600000000,
        "model": "theirs",
        "choices": choices,
        **more,
    }


ROLE = chat_chunk({"role": "assistant", "content": ""})
STOP = chat_chunk({}, "stop")
CHAT_USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
DONE = b"data: [DONE]\n\n"


def chat_stream(*chunks: Json, done: bool = True) -> bytes:
    """The bytes of a Chat stream."""
    frames = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
    return b"".join([*frames, DONE if done else b""])


def named_stream(*events: Json) -> bytes:
    """The bytes of a Messages or Responses stream: each event under the name that is its type."""
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())
        for event in events
    )


def message_start(**usage: int) -> Json:
    """The first event of a Messages stream."""
    message = messages_answer(stop_reason=None, usage={"output_tokens": 1, **usage})
    return {"type": "message_start", "message": message}


def block(index: int, start: Json, *deltas: Json) -> list[Json]:
    """The events of one content block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_block(index: int, *texts: str) -> list[Json]:
    """The events of a text block."""
    deltas = [{"type": "text_delta", "text": text} for text in texts]
    return block(index, {"type": "text", "text": ""}, *deltas)


def tool_block(index: int, number: int, *pieces: str, name: str = "get_weather") -> list[Json]:
    """The events of a tool call."""
    head = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, head, *deltas)


def message_end(stop: str = "end_turn", **usage: int) -> list[Json]:
    """The last two events of a Messages stream."""
    delta = {"stop_reason": stop, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2, **usage}},
        {"type": "message_stop"},
    ]


# --- streams of clients ---------------------------------------------------------------------------


def streaming(
    client: str, upstream: str, body: Json | None = None, **how: Any
) -> tuple[Call, AnswerStream]:
    """A call and the translator of its stream."""
    call = calling(client, upstream, asking(client, stream=True) if body is None else body, **how)
    return call, call.open_stream()


def streamed(
    client: str, upstream: str, stream: bytes, body: Json | None = None, **how: Any
) -> bytes:
    """The client's bytes for an upstream's whole stream."""
    _, translator = streaming(client, upstream, body, **how)
    return translator.feed(stream) + translator.finish()


def events(stream: bytes) -> list[Event]:
    """Name and data of every event of a Messages or Responses stream, minted ids made steady."""
    found = []
    for frame in stream.decode().split("\n\n")[:-1]:
        name, data = frame.split("\n")
        assert name.startswith("event: ")
        assert data.startswith("data: ")
        found.append((name[7:], json.loads(data[6:])))
    return [(name, data) for name, data in steady(found)]


def chunks(stream: bytes) -> list[Any]:
    """The chunks of a Chat stream, its terminator as text."""
    found: list[Any] = []
    for frame in stream.decode().split("\n\n")[:-1]:
        assert frame.startswith("data: ")
        found.append("[DONE]" if frame == "data: [DONE]" else json.loads(frame[6:]))
    return found
