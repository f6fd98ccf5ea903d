"""What must be right of a body that is passed through: the types of well-known fields.

Vocabularies that grow (blocks, tools, models' limits) are the upstream's to judge. `max_tokens`
may be missing: counting tokens does without.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from dragoman.jsontext import decoder


class _Message(Struct):
    role: Literal["user", "assistant", "system"]


class _Shape(Struct):
    messages: Annotated[list[_Message], Meta(min_length=1)]
    max_tokens: int | None = None
    system: str | list[dict[str, msgspec.Raw]] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    tools: list[dict[str, msgspec.Raw]] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None


SHAPE = decoder(_Shape)
