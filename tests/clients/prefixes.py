"""How much of a conversation an upstream's prompt cache can find again in the next request.

A cache holds prompts up to the place where they begin to differ. What goes into a prompt are the
tools, the instructions and the conversation, in that order; cache marks are no part of it, and
neither is whether one text stands as text or as a list of one part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

SECTIONS = {
    "openai_chat": ("tools", "messages"),
    "anthropic_messages": ("tools", "system", "messages"),
    "openai_responses": ("tools", "instructions", "input"),
}
"""The members of a body that a prompt is made of, by protocol, in their order in it."""

_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
_TEXTS = frozenset({"text", "input_text", "output_text"})


def broken_prefix(protocol: str, earlier: Any, later: Any, *, exact: bool = False) -> str:
    """Where the later request stops to repeat the earlier one; empty if it repeats all of it.

    `exact` compares the bytes as they are sent, cache marks and all.
    """
    for name in SECTIONS[protocol]:
        before, after = (_bytes(body.get(name), exact) for body in (earlier, later))
        if not after.startswith(before):
            place = next(_differing(before, after), min(len(before), len(after)))
            shown = f"{before[place - 60 : place + 60]!r} became {after[place - 20 : place + 60]!r}"
            return f"{name}: {place} of {len(before)} bytes are the same; {shown}"
    return ""


def _bytes(value: Any, exact: bool) -> bytes:
    """A section's bytes, without the end of its list: the next request goes on there."""
    encoded = msgspec.json.encode(value if exact else _as_prompt(value))
    return encoded.removesuffix(b"]") if isinstance(value, list) else encoded


def _as_prompt(value: Any, field: str = "") -> Any:
    match value:
        case {"type": kind, "text": str(text)} if kind in _TEXTS:
            return {"text": text}
        case dict():
            return {
                name: _as_prompt(item, name) for name, item in value.items() if name not in _MARKS
            }
        case list():
            return [_as_prompt(item) for item in value]
        case str() if field == "content":
            return [{"text": value}]
    return value


def _differing(before: bytes, after: bytes) -> Iterator[int]:
    pairs = enumerate(zip(before, after, strict=False))
    return (place for place, (old, new) in pairs if old != new)
