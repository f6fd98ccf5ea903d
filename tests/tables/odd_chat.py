"""Streams of Chat servers that read the protocol their own way."""

from __future__ import annotations

from typing import Any

from tests.tables.cells import (
    ROLE,
    STOP,
    chat_chunk,
    chat_stream,
)
from tests.tables.requests import JsonObject


def delta(finish: str | None = None, /, **members: Any) -> JsonObject:
    return chat_chunk(members, finish)


def fragment(at: int | None, text: Any = None, **members: Any) -> JsonObject:
    """A fragment of a tool call; a name goes into its function."""
    function = {} if text is None else {"arguments": text}
    if "name" in members:
        function["name"] = members.pop("name")
    head = {} if at is None else {"index": at}
    return delta(tool_calls=[{**head, **members, "function": function}])


def first(at: int | None, call_id: str, name: str, text: str = "") -> JsonObject:
    return fragment(at, text, id=call_id, type="function", name=name)


def whole_chunk(message: JsonObject, finish: str | None = None) -> JsonObject:
    """A chunk that has a message where its delta belongs."""
    chunk = delta(finish)
    del chunk["choices"][0]["delta"]
    chunk["choices"][0]["message"] = message
    return chunk


def at(index: int | None, chunk: JsonObject) -> JsonObject:
    """A chunk of another choice."""
    return {**chunk, "choices": [{**chunk["choices"][0], "index": index}]}


CALLS = delta("tool_calls")
X = delta(content="x")
PLAIN = chat_stream(ROLE, X, STOP)
TWO = chat_stream(ROLE, first(0, "c1", "f", '{"a":1}'), first(1, "c2", "g", '{"b":2}'), CALLS)
THOUGHT = chat_stream(ROLE, delta(reasoning_content="hm"), X, STOP)
