"""Blocks and deltas of loosely conforming servers, converted to the protocol's form."""

from __future__ import annotations

from typing import Any

from dragoman import jsontext
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.fields import SPEAKING, JsonObject

_MEMBERS = {
    "text": ("text", "text_delta"),
    "thinking": ("thinking", "thinking_delta"),
    "reasoning": ("thinking", "thinking_delta"),
    "reasoning_content": ("thinking", "thinking_delta"),
    "partial_json": ("partial_json", "input_json_delta"),
    "signature": ("signature", "signature_delta"),
}
"""Members that identify an object of unknown type: the protocol's member for it, and its delta
type."""


def as_known(block: JsonObject) -> JsonObject:
    """A block of unknown type in the form that its members suggest; unchanged if they suggest
    none."""
    kind = block.get("type")
    if type(kind) is str and is_hosted(kind):
        return block
    if isinstance(block.get("name"), str) and ("input" in block or "arguments" in block):
        given = block.get("input", block.get("arguments"))
        rest = {key: value for key, value in block.items() if key != "arguments"}
        return {**rest, "type": "tool_use", "input": object_of(given)}
    for name in ("text", "thinking", "reasoning"):
        text = block.get(name)
        if isinstance(text, str):
            own = "thinking" if _is_thought(kind) else _MEMBERS[name][0]
            rest = {key: value for key, value in block.items() if key != name}
            return {**rest, "type": own, own: text}
    return block


def object_of(given: Any) -> Any:
    """The input of a call, which some servers write as text; unchanged otherwise."""
    if not isinstance(given, str):
        return given
    found = jsontext.object_of(given) if given.strip() else {}
    return given if found is None else found


def named_delta(delta: JsonObject) -> JsonObject | None:
    """A delta of unknown type in the form that its members suggest; None if they suggest none."""
    for name, (own, kind) in _MEMBERS.items():
        text = delta.get(name)
        if isinstance(text, str):
            if name == "text" and _is_thought(delta.get("type")):
                own, kind = _MEMBERS["thinking"]
            return {"type": kind, own: text}
    return None


def _is_thought(kind: Any) -> bool:
    """Whether an unknown type is a word for reasoning, the text of which is not an answer."""
    return isinstance(kind, str) and any(word in kind for word in ("reason", "think", "thought"))


def is_hosted(kind: str) -> bool:
    """Whether a block is about the vendor's own tools or serving, and not content for the
    client."""
    return kind in wire.FOREIGN_BLOCKS or kind.endswith(("tool_result", "_tool_use"))


NO_COUNTERPART = "has no counterpart for the client"


def report_unknown(
    ledger: Ledger, value: JsonObject, known: frozenset[str], path: str = ""
) -> None:
    """Report members that have no counterpart in the canonical model, unless they are empty."""
    if known.issuperset(value):
        return
    for name, content in value.items():
        if name not in known and content not in (None, "", [], {}):
            loss = LossKind.CONTENT if name in SPEAKING else LossKind.KNOB
            ledger.add(path + name, loss, NO_COUNTERPART)
