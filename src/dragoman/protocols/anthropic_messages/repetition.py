"""Repetitions in a Messages stream, which are left out of the answer.

Equal content under the same identity is a repetition. Anything else is new, or a contradiction that
fails the answer."""

from __future__ import annotations

from typing import Any

from dragoman import jsontext
from dragoman.jsontext import JsonError
from dragoman.protocols.fields import JsonObject

_TEXTS = {"text": "text", "thinking": "thinking"}
"""Types of text blocks, and the member with the text."""


def index_of(event: JsonObject, otherwise: int) -> int:
    """The index of an event, which some servers write as text or leave out."""
    index = event.get("index")
    if type(index) is str and index.isascii() and index.isdecimal():
        return int(index[:9])
    return index if type(index) is int else otherwise


def is_repeated(head: JsonObject | None, block: JsonObject, fresh: bool) -> bool:
    """Whether the start `block` repeats `head`, the start of the open block at its index: it is
    equal and has an id, or is of a call without pieces since (`fresh`). An empty text or thinking
    start continues the open block without loss."""
    if head is None or head.get("type") != block.get("type"):
        return False
    if head == block:
        return fresh or block.get("id") is not None
    member = _TEXTS.get(str(block.get("type")))
    return member is not None and not any(
        value for name, value in block.items() if name not in ("type", "id")
    )


_IDENTITY = ("type", "id", "name")


def is_another(head: JsonObject | None, block: JsonObject) -> bool:
    """Whether `block` differs from the one with the start `head` in type, id or name."""
    return head is None or any(head.get(name) != block.get(name) for name in _IDENTITY)


class Repetition:
    """A complete block in the message start that events repeat."""

    __slots__ = ("_block", "_head", "_pieces")

    def __init__(self, block: JsonObject) -> None:
        self._block = block
        self._head: JsonObject = {}
        self._pieces: list[str] = []

    def begins(self, head: JsonObject) -> bool:
        """Whether `head` may be its start: type, id and name are the same."""
        self._head = head
        return not is_another(head, self._block)

    def add(self, delta: JsonObject) -> None:
        """A piece of it."""
        for name in ("text", "thinking", "partial_json"):
            piece = delta.get(name)
            if isinstance(piece, str):
                self._pieces.append(piece)

    def is_whole(self) -> bool:
        """Whether exactly the whole block was repeated."""
        pieces = "".join(self._pieces)
        member = _TEXTS.get(str(self._block.get("type")))
        if member is not None:
            text = str(self._head.get(member) or "") + pieces
            return jsontext.mended(text) == jsontext.mended(str(self._block.get(member) or ""))
        received = _value(pieces) if pieces else self._head.get("input") or self._block.get("input")
        return bool(received == self._block.get("input"))


def _value(text: str) -> Any:
    try:
        return jsontext.decode(text)
    except JsonError:
        return None
