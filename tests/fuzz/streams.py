"""Streams as their events, and pieces to make them of."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.tables.cells import chat_chunk

Json = dict[str, Any]


def decoded(stream: bytes) -> list[Any]:
    """The data of a stream's events; text that is no JSON as it is."""
    found: list[Any] = []
    for frame in stream.split(b"\n\n"):
        data = b"".join(line[6:] for line in frame.split(b"\n") if line.startswith(b"data: "))
        if data:
            found.append("[DONE]" if data == b"[DONE]" else msgspec.json.decode(data))
    return found


def fragment(at: int, text: str, **head: Any) -> Json:
    """A fragment of a tool call in a chunk of its own."""
    function = {"arguments": text, **({"name": head.pop("name")} if head else {})}
    return chat_chunk({"tool_calls": [{"index": at, **head, "function": function}]})
