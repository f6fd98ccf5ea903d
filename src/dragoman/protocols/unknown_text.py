"""The readable text in a part of a conversation that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dragoman.canonical.blocks import Foreign
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra

UNKNOWN_TYPE: Final = "of a type that is not known here"
"""The detail of the loss."""
_LONGEST_TYPE: Final = 64

_TEXTS: Final = ("content", "text", "summary", "output", "message", "refusal", "thinking")
"""Members with text, or with parts that have some."""


def unknown_block(
    origin: str, kind: str, value: Any, path: str, extras: list[Extra], loss: LossKind
) -> Foreign:
    """The block of an item or block of an unknown type, of which the text is read, and which is
    among the extras; `loss` is the kind of loss if it is left out."""
    extras.append(Extra(path, value, LossKind.KNOB, UNKNOWN_TYPE))
    said = text_in(value)
    return Foreign(
        origin=origin, type=kind[:_LONGEST_TYPE], raw=value, loss=loss, text=said, path=path
    )


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
