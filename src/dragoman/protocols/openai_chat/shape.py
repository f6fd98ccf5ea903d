"""What must be right of a body that is passed through: the types of well-known fields.

Vocabularies that grow (parts, tools, models' limits) are the upstream's to judge.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from dragoman.jsontext import decoder


class _Message(Struct):
    role: Literal["developer", "system", "user", "assistant", "tool", "function"]


class _Shape(Struct):
    messages: Annotated[list[_Message], Meta(min_length=1)]
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    tools: list[dict[str, msgspec.Raw]] | None = None
    tool_choice: str | dict[str, msgspec.Raw] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    reasoning_effort: str | None = None


SHAPE = decoder(_Shape)
