"""Blocks and pieces of loosely conforming servers, converted to the protocol's form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from dragoman import jsontext
from dragoman.canonical.losses import Ledger
from dragoman.canonical.requests import Extra
from dragoman.protocols.anthropic_messages import shapes, wire
from dragoman.protocols.fields import JsonObject, loss_of
from dragoman.protocols.reading import Reader

_PIECES = {
    "text": shapes.TextDelta,
    "thinking": shapes.ThinkingDelta,
    "reasoning": shapes.ThinkingDelta,
    "reasoning_content": shapes.ThinkingDelta,
    "partial_json": shapes.InputDelta,
    "signature": shapes.SignatureDelta,
}
"""The pieces that members identify, in an object of unknown type."""

BLOCK: Reader[shapes.AnswerBlock] = Reader(shapes.AnswerBlock)  # type: ignore[arg-type]
_PLACE = "content_block"


def as_known(block: shapes.Other, extras: list[Extra]) -> shapes.AnswerBlock:
    """A block of unknown type as the one that its members suggest, with its unknown members among
    the extras; unchanged if they suggest none."""
    value, kind = block.value, block.kind
    if is_hosted(kind):
        return block
    if isinstance(value.get("name"), str) and ("input" in value or "arguments" in value):
        given = value.get("input", value.get("arguments"))
        rest = {key: inner for key, inner in value.items() if key != "arguments"}
        return BLOCK.tolerate({**rest, "type": "tool_use", "input": given}, extras, _PLACE)
    for name in ("text", "thinking", "reasoning"):
        if isinstance(value.get(name), str):
            own = "text" if name == "text" and not _is_thought(kind) else "thinking"
            rest = {key: inner for key, inner in value.items() if key != name}
            return BLOCK.tolerate({**rest, "type": own, own: value[name]}, extras, _PLACE)
    return block


def object_of(given: Any) -> Any:
    """The input of a call, which some servers write as text; unchanged otherwise."""
    if not isinstance(given, str):
        return given
    found = jsontext.object_of(given) if given.strip() else {}
    return given if found is None else found


def named_piece(value: JsonObject, kind: str = "") -> shapes.Piece | None:
    """A piece of unknown type in the form that its members suggest; None if they suggest none."""
    for name, piece in _PIECES.items():
        text = value.get(name)
        if isinstance(text, str):
            return (
                shapes.ThinkingDelta(text) if name == "text" and _is_thought(kind) else piece(text)
            )
    return None


def _is_thought(kind: str) -> bool:
    """Whether an unknown type is a word for reasoning, the text of which is not an answer."""
    return any(word in kind for word in ("reason", "think", "thought"))


def is_hosted(kind: str) -> bool:
    """Whether a block is about the vendor's own tools or serving, and not content for the
    client."""
    return kind in wire.FOREIGN_BLOCKS or kind.endswith(("tool_result", "_tool_use"))


NO_COUNTERPART = "has no counterpart for the client"


def report_extras(ledger: Ledger, extras: Iterable[Extra], place: str = "") -> None:
    """Report the unknown members of an event, unless they are empty. `place` is the path of the
    block that it is of."""
    for extra in extras:
        inner = _INNER.match(extra.path)
        path = extra.path if inner is None else place + extra.path[inner.end() :]
        _report(ledger, path, extra.value)


_INNER = re.compile(r"(content_block|delta|message)\.")
"""The member of an event that has what it is about."""


def report_unknown(
    ledger: Ledger, value: JsonObject, known: frozenset[str], path: str = ""
) -> None:
    """Report members that have no counterpart in the canonical model, unless they are empty."""
    if not known.issuperset(value):
        for name, content in value.items():
            if name not in known:
                _report(ledger, path + name, content)


def _report(ledger: Ledger, path: str, content: Any) -> None:
    if content not in (None, "", [], {}):
        ledger.add(path, loss_of(path), NO_COUNTERPART)
