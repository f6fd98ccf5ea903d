"""Input items of a type that nobody knows: those that the vendor adds.

A conversation has them for ever, so they never refuse a request. An upstream of this protocol is
sent them as they are; others are given the text in them, and what has no text is left out and
reported."""

from __future__ import annotations

from typing import Literal, TypeAlias

from dragoman.canonical.blocks import Foreign
from dragoman.canonical.losses import LossKind
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.unknown_text import text_in

Side: TypeAlias = Literal["assistant", "user"]


def read_unknown_item(item: JsonObject, kind: str, path: str) -> tuple[Side, Foreign]:
    """The side that an unknown item is of, and the block for it."""
    side: Side = "assistant"
    if item.get("role") in ("user", "system", "developer") or kind.endswith(("_output", "_result")):
        side = "user"
    block = Foreign(
        origin=wire.NAME,
        type=kind[:64],
        raw=item,
        loss=LossKind.KNOB,
        text=text_in(item),
        path=path,
    )
    return side, block
