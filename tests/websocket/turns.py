"""Turns of a conversation over a socket."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tests.gateway.conftest import PROTOCOLS

KINDS = list(PROTOCOLS)
TOOL = {
    "type": "function",
    "name": "look",
    "description": "Looks.",
    "parameters": {
        "type": "object",
        "properties": {"at": {"type": "string"}},
        "required": ["at"],
        "additionalProperties": False,
    },
    "strict": True,
}


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def outputs_for(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The outputs for the calls of an answer."""
    return [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "a cat"}
        for item in found[-1]["response"]["output"]
        if item["type"] == "function_call"
    ]


def settled(body: Any) -> Any:
    """A body without what differs by chance, or since it was streamed."""
    text = json.dumps({name: body[name] for name in body if not name.startswith("stream")})
    made = msgspec.json.decode(text)
    return _without_marks(made)


_MARKS = ("id", "call_id", "tool_call_id", "tool_use_id", "encrypted_content", "signature")


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_marks(one) for name, one in value.items() if name not in _MARKS}
    return [_without_marks(one) for one in value] if isinstance(value, list) else value
