"""Truncated JSON: the readable part of an object."""

from __future__ import annotations

from typing import Any

from dragoman.jsontext import JsonError, decode

_CLOSER = {"{": "}", "[": "]"}


def read_cut_object(text: str) -> dict[str, Any]:
    """The longest readable beginning of a JSON object: all members that are complete.

    An unfinished string, number or literal at the end is left out with its key. Text that is not
    the beginning of an object gives an empty one.
    """
    for position, closers in reversed(_cuts(text)):
        try:
            value = decode(text[:position] + closers)
        except JsonError:
            continue
        return value if isinstance(value, dict) else {}
    return {}


def _cuts(text: str) -> list[tuple[int, str]]:
    """The positions to truncate the text at, each with the brackets that close its open containers:
    after the opening of a container, at its end, and before each comma. Only the last few are worth
    a try: after a comma inside broken JSON nothing is readable anyway."""
    cuts: list[tuple[int, str]] = []
    stack: list[str] = []
    in_string = escaped = False
    for position, char in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in _CLOSER:
            stack.append(_CLOSER[char])
            cuts.append((position + 1, "".join(reversed(stack))))
        elif char in "}]":
            if not stack or stack.pop() != char:
                break
            cuts.append((position + 1, "".join(reversed(stack))))
        elif char == ",":
            cuts.append((position, "".join(reversed(stack))))
    return cuts[-_TRIES:]


_TRIES = 64
