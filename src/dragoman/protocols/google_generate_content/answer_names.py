"""What an answer is known by."""

from __future__ import annotations

from dragoman.jsontext import JsonError, decode
from dragoman.protocols.base import AnswerNames


def answer_names(data: bytes) -> AnswerNames:
    """The id of an answer and the model that made it, from all of it or the first chunk of its
    stream."""
    try:
        value = decode(data)
    except JsonError:
        return AnswerNames()
    value = value[0] if isinstance(value, list) and value else value
    if not isinstance(value, dict):
        return AnswerNames()
    identifier, model = value.get("responseId"), value.get("modelVersion")
    return AnswerNames(
        identifier if isinstance(identifier, str) else "", model if isinstance(model, str) else ""
    )
