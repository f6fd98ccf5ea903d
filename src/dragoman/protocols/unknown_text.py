"""The readable text in a part of a conversation that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

UNKNOWN_TYPE: Final = "of a type that is not known here"
"""The detail of the loss."""

_TEXTS: Final = ("content", "text", "summary", "output", "message", "refusal", "thinking")
"""Members with text, or with parts that have some."""


def text_in(value: Any) -> str:
    """The texts in an item or block of unknown type, joined by blank lines; empty for none."""
    return "\n\n".join(_texts_in(value))


def _texts_in(value: Any) -> Iterator[str]:
    if type(value) is str:
        if value.strip():
            yield value
    elif type(value) is list:
        for element in value:
            yield from _texts_in(element)
    elif type(value) is dict:
        for name in _TEXTS:
            yield from _texts_in(value.get(name))
