"""Repetitions in a Messages stream, which are left out of the answer.

Equal content under the same identity is a repetition. Anything else is new, or a contradiction that
fails the answer."""

from __future__ import annotations

from typing import Any

from msgspec.structs import astuple

from dragoman import jsontext
from dragoman.jsontext import JsonError
from dragoman.protocols.anthropic_messages import shapes

_TEXTS = (shapes.AnswerText, shapes.AnswerThinking)


def is_repeated(head: shapes.AnswerBlock | None, block: shapes.AnswerBlock, fresh: bool) -> bool:
    """Whether the start `block` repeats `head`, the start of the open block at its index: it is
    equal and has an id, or is of a call without pieces since (`fresh`). An empty text or thinking
    start continues the open block without loss."""
    if head == block:
        return fresh or _identity(block)[1] is not None
    return isinstance(block, _TEXTS) and type(head) is type(block) and not any(astuple(block))


def is_another(head: shapes.AnswerBlock | None, block: shapes.AnswerBlock) -> bool:
    """Whether `block` differs from the one with the start `head` in type, id or name."""
    return head is None or _identity(head) != _identity(block)


def _identity(block: shapes.AnswerBlock) -> tuple[Any, Any, Any]:
    if isinstance(block, shapes.AnswerCall):
        return shapes.AnswerCall, block.id, block.name
    if isinstance(block, shapes.Other):
        return block.kind, block.value.get("id"), block.value.get("name")
    return type(block), None, None


class Repetition:
    """A complete block in the message start that events repeat."""

    __slots__ = ("_block", "_head", "_pieces")

    def __init__(self, block: shapes.AnswerBlock) -> None:
        self._block = self._head = block
        self._pieces: list[str] = []

    def begins(self, head: shapes.AnswerBlock) -> bool:
        """Whether `head` may be its start: type, id and name are the same."""
        self._head = head
        return not is_another(head, self._block)

    def add(self, piece: shapes.Piece) -> None:
        """A piece of it."""
        text = getattr(piece, "text", None)
        if isinstance(text, str):
            self._pieces.append(text)

    def is_whole(self) -> bool:
        """Whether exactly the whole block was repeated."""
        block, head, pieces = self._block, self._head, "".join(self._pieces)
        if isinstance(block, _TEXTS) and isinstance(head, _TEXTS):
            text = (head.text or "") + pieces
            return jsontext.mended(text) == jsontext.mended(block.text or "")
        given = _input_of(block)
        received = _value(pieces) if pieces else _input_of(head) or given
        return bool(received == given)


def _input_of(block: shapes.AnswerBlock) -> Any:
    if isinstance(block, shapes.Other):
        return block.value.get("input")
    return block.input if isinstance(block, shapes.AnswerCall) else None


def _value(text: str) -> Any:
    try:
        return jsontext.decode(text)
    except JsonError:
        return None
