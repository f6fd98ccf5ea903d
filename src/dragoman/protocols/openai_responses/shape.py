"""What must be right of a body that is passed through: the types of well-known fields.

Vocabularies that grow (items, tools, models' limits) are the upstream's to judge.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from dragoman.jsontext import decoder


class _Item(Struct):
    type: str | None = None
    role: Literal["user", "assistant", "system", "developer"] | None = None


class _Object(Struct):
    """An object with whatever members."""


class _Shape(Struct):
    input: str | list[_Item] | None = None
    instructions: str | list[_Item] | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    tools: list[_Object] | None = None
    tool_choice: str | _Object | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None


SHAPE = decoder(_Shape)
