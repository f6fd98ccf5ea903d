"""Values that the tests of writing share."""

from __future__ import annotations

from typing import Any

from anthropic.types import MessageCreateParams
from pydantic import TypeAdapter

from dragoman.canonical.blocks import Text
from dragoman.canonical.requests import CustomTool, FunctionTool, Grammar, Turn

PNG = "iVBORw0KGgo="
HI = Turn(role="user", blocks=(Text(text="hi"),))
F = FunctionTool(name="f", schema={"type": "object", "properties": {}}, path="tools[0]")
PARAMS: TypeAdapter[Any] = TypeAdapter(MessageCreateParams)
CUSTOM = CustomTool(
    name="patch", description="Edits.", grammar=Grammar("lark", "start: X"), path="tools[0]"
)
