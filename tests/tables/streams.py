"""Rows of the tables of streams: what comes from upstream, event by event, and what goes out.

What goes out is told in short lines, one for each event, in the words of the client's protocol.
Every stream is also held to the grammar of its protocol.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dragoman.protocols.settings import make_options
from tests.checkers import CHECKERS
from tests.checkers.framing import frames
from tests.library import translate_request
from tests.tables.requests import LEAST, A, C, JsonObject, R

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
COMMENT = b": keepalive\n\n"
DONE = b"data: [DONE]\n\n"
CUT = "The upstream's answer is unusable"
"""How the message of an answer that is not whole begins."""


@dataclass(frozen=True)
class Row:
    """One row: events of the upstream (objects, or bytes as they come), and the lines of what
    the client is given.
    """

    name: str
    given: list[JsonObject | bytes]
    told: list[str]
    asked: JsonObject = field(default_factory=dict)
    options: JsonObject = field(default_factory=dict)


def ids(rows: list[Row]) -> list[str]:
    """Names for pytest; two rows of one name would hide a mistake."""
    names = [row.name for row in rows]
    assert len(names) == len(set(names)), {name for name in names if names.count(name) > 1}
    return names


def check(upstream: str, client: str, row: Row) -> None:
    """Translate the stream, whole and byte by byte, and compare."""
    data = b"".join(_frame(event) for event in row.given)
    body = {**LEAST[client], "stream": True, **row.asked}
    call = translate_request(
        client, upstream, json.dumps(body).encode(), options=make_options(**row.options)
    )
    stream = call.open_stream()
    written = stream.feed(data) + stream.finish()
    CHECKERS[client](written)
    assert _lines(client, written) == row.told
    stream = call.open_stream()
    pieces = [stream.feed(data[at : at + 1]) for at in range(len(data))]
    assert _lines(client, b"".join([*pieces, stream.finish()])) == row.told


def _frame(event: JsonObject | bytes) -> bytes:
    if isinstance(event, bytes):
        return event
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def _lines(client: str, stream: bytes) -> list[str]:
    found = [
        json.loads(frame.data) if frame.data != "[DONE]" else {"done": True}
        for frame in frames(stream)
    ]
    return [line for event in found for line in _TELL[client](event)]


def _chat(chunk: JsonObject) -> Iterable[str]:
    if "done" in chunk:
        yield "done"
    elif "error" in chunk:
        yield f"error {chunk['error']['type']}: {_problem(chunk['error'])}"
    elif not chunk["choices"]:
        yield f"usage {chunk['usage']['prompt_tokens']}+{chunk['usage']['completion_tokens']}"
    else:
        choice = chunk["choices"][0]
        delta = choice["delta"]
        if "role" in delta:
            yield f"role {delta['role']}"
            return
        for name, value in delta.items():
            if name == "tool_calls":
                yield from _calls(value)
            else:
                yield f"{name} {_told(value)}".rstrip()
        if choice["finish_reason"] is not None:
            yield f"finish {choice['finish_reason']}"


def _problem(error: JsonObject) -> str:
    """The beginning of an error's text, without the phrase for clients that try again."""
    message: str = error["message"]
    return message.removeprefix("Provider returned error: ").partition(":")[0]


def _calls(fragments: list[JsonObject]) -> Iterable[str]:
    for fragment in fragments:
        kind = "custom" if "custom" in fragment else "function"
        body = fragment[kind]
        text = body.get("arguments", body.get("input"))
        if "id" in fragment:
            yield f"call {fragment['index']} {kind} {fragment['id']} {body['name']} {text}".rstrip()
        else:
            yield f"call {fragment['index']} {text}"


def _messages(event: JsonObject) -> Iterable[str]:
    match event["type"]:
        case "content_block_start":
            block = event["content_block"]
            head = " ".join(block[name] for name in ("id", "name") if name in block)
            yield f"start {event['index']} {block['type']} {head}".rstrip()
        case "content_block_delta":
            delta = event["delta"]
            value = next(value for name, value in delta.items() if name != "type")
            yield f"{delta['type']} {_told(value)}"
        case "content_block_stop":
            yield f"stop {event['index']}"
        case "message_delta":
            usage = event["usage"]
            yield (
                f"message_delta {event['delta']['stop_reason']}"
                f" {usage['input_tokens']}+{usage['output_tokens']}"
            )
        case "error":
            yield f"error {event['error']['type']}: {_problem(event['error'])}"
        case kind:
            yield kind


def _responses(event: JsonObject) -> Iterable[str]:
    if "done" in event:
        yield "done"
        return
    kind = event["type"].removeprefix("response.")
    if kind == "error":
        yield f"error {event['error']['type']}: {_problem(event)}"
        return
    if "response" in event:
        usage = event["response"]["usage"]
        counted = f" {usage['input_tokens']}+{usage['output_tokens']}" if usage else ""
        error = event["response"]["error"]
        yield f"{kind}{counted}" + (f" {error['code']}" if error else "")
        return
    value = next(
        (
            event[name]
            for name in ("delta", "text", "refusal", "arguments", "input")
            if name in event
        ),
        "",
    )
    item = event.get("item", event.get("part", event.get("annotation")))
    if item is not None:
        value = f"{event['output_index']} {item['type']}" if "item" in event else item["type"]
    yield f"{kind} {_told(value)}".rstrip()


def _told(value: Any) -> str:
    if isinstance(value, str):
        return "envelope" if value.startswith("dgm1.") else value
    return f"of {len(value)}" if isinstance(value, list) else str(value.get("type", "object"))


_TELL: dict[str, Callable[[JsonObject], Iterable[str]]] = {
    C: _chat,
    A: _messages,
    R: _responses,
}
