"""Whole numbers in an upstream's answers, which may be anything: `1e308` is JSON as well."""

from __future__ import annotations

from typing import Any

MOST_TOKENS = 10**9
"""The most tokens of one answer; a larger number is not a count. Sums of many stay within 64
bits."""

_LARGEST = 2**53
"""The largest whole number that every JSON reader takes."""


def whole_number(value: Any, most: int = _LARGEST) -> int | None:
    """A number from 0 to `most` (some servers write 5.0); None for anything else."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= most else None


def token_count(value: Any) -> int | None:
    """A number of tokens; None for anything else."""
    if type(value) is int:
        return value if 0 <= value <= MOST_TOKENS else None
    return None if value is None else whole_number(value, MOST_TOKENS)
