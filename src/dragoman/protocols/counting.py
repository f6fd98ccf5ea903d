"""Answers of endpoints that count the tokens of a prompt."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.jsontext import members, object_of
from dragoman.protocols.base import to_json
from dragoman.protocols.numbers import token_count


def read_count(body: bytes) -> int | None:
    """The number of tokens in an answer of either vendor; None if it has none."""
    counted = (object_of(body) or {}).get("input_tokens")
    return token_count(counted)


def without(*names: str) -> Callable[[bytes, str], bytes]:
    """The function behind `Counting.write_request` where a count does not take these members; the
    others are unchanged."""

    def write_request(body: bytes, model: str) -> bytes:
        counted = members(body)
        for name in names:
            counted.pop(name, None)
        return to_json(counted)

    return write_request
