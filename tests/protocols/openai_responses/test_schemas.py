"""Strict mode is only asked for where the service would not refuse the schema."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.protocols.openai_responses.schemas import is_strict


def closed(**properties: Any) -> dict[str, Any]:
    """An object that is closed and requires all it has."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


WORD = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (closed(), True),
        (closed(a=WORD, b=closed(c=WORD)), True),
        (closed(a={"type": "array", "items": closed(b=WORD)}), True),
        (closed(a={"anyOf": [WORD, closed(b=WORD)]}), True),
        (closed(a={"$ref": "#/$defs/x"}) | {"$defs": {"x": closed(b=WORD)}}, True),
        (closed(a={**closed(b=WORD), "type": ["object", "null"]}), True),
        ({"type": "object"}, False),
        ({**closed(a=WORD), "additionalProperties": True}, False),
        ({**closed(a=WORD), "required": []}, False),
        (closed(a={"type": "object"}), False),
        (closed(a={"type": "array", "items": {"type": "object"}}), False),
        (closed(a={"anyOf": [WORD, {"type": "object"}]}), False),
        (closed(a=WORD) | {"$defs": {"x": {"type": "object"}}}, False),
        (closed(a={**closed(), "type": ["object", "null"], "required": None}), False),
        (closed(a={"oneOf": [WORD]}), False),
        (closed(a={"not": WORD}), False),
        (closed(a=True), False),
        ({**closed(), "properties": []}, False),
    ],
)
def test_strictness(schema: Any, strict: bool) -> None:
    assert is_strict(schema) is strict
