"""Answers of endpoints that count the tokens of a prompt."""

from __future__ import annotations

from typing import Any

import msgspec


def read_count(body: bytes) -> int | None:
    """The number of tokens in an answer of either vendor, None if it holds none."""
    try:
        counted = msgspec.json.decode(body, type=dict[str, Any]).get("input_tokens")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return counted if type(counted) is int and counted >= 0 else None
