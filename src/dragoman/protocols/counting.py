"""Answers of endpoints that count the tokens of a prompt."""

from __future__ import annotations

from dragoman.jsontext import object_of


def read_count(body: bytes) -> int | None:
    """The number of tokens in an answer of either vendor, None if it holds none."""
    counted = (object_of(body) or {}).get("input_tokens")
    return counted if type(counted) is int and counted >= 0 else None
