"""What an answer is known by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, defstruct

from dragoman.jsontext import JsonError, decoder
from dragoman.protocols.base import AnswerNames


class _Named(Struct):
    id: Any = None
    model: Any = None


def names_in(holder: str = "") -> Callable[[bytes], AnswerNames]:
    """The function behind `Translate.answer_names` where the names are `id` and `model` of an
    answer, and in the first event of a stream those of its member `holder`, if that is given."""
    fields = [(holder, _Named | None, None)] if holder else []
    event = decoder(defstruct("_Event", fields, bases=(_Named,)))

    def answer_names(data: bytes) -> AnswerNames:
        try:
            found: Any = event(data)
        except JsonError:
            return AnswerNames()
        if holder:
            found = getattr(found, holder) or found
        name, model = found.id, found.model
        return AnswerNames(
            name if isinstance(name, str) else "", model if isinstance(model, str) else ""
        )

    return answer_names
