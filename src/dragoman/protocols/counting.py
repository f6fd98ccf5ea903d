"""Answers of endpoints that count the tokens of a prompt."""

from __future__ import annotations

from dragoman.jsontext import object_of
from dragoman.protocols.numbers import token_count


def read_count(body: bytes) -> int | None:
    """The number of tokens in an answer of either vendor; None if it has none."""
    counted = (object_of(body) or {}).get("input_tokens")
    return token_count(counted)
