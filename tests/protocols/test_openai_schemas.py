"""Strict mode is only asked for where the service would not refuse the schema."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.protocols.openai_schemas import is_strict, with_items


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
        *(
            (closed(a={**WORD, keyword: value}), False)
            for keyword, value in (
                ("allOf", [WORD]),
                ("oneOf", [WORD]),
                ("not", WORD),
                ("if", WORD),
                ("then", WORD),
                ("else", WORD),
                ("contains", WORD),
                ("minContains", 1),
                ("maxContains", 1),
                ("minProperties", 1),
                ("maxProperties", 1),
                ("dependentRequired", {}),
                ("dependentSchemas", {}),
                ("patternProperties", {}),
                ("propertyNames", WORD),
                ("unevaluatedItems", False),
                ("unevaluatedProperties", False),
                ("uniqueItems", True),
            )
        ),
        (closed(a=True), False),
        ({**closed(), "properties": []}, False),
        (closed(a={}), False),
        (closed(a={"enum": ["x"]}), True),
        (closed(a={"type": "array"}), False),
        (closed(a={"type": "array", "items": WORD, "uniqueItems": True}), False),
        (closed(a={"$ref": "#", "description": "d"}), False),
        ({**closed(), "anyOf": [WORD]}, False),
    ],
)
def test_strictness(schema: Any, strict: bool) -> None:
    assert is_strict(schema) is strict


ANYTHING = {"type": "array", "items": {}}


@pytest.mark.parametrize(
    ("schema", "complete"),
    [
        ({"type": "array"}, ANYTHING),
        (closed(a={"type": "array"}), closed(a=ANYTHING)),
        (
            {"anyOf": [{"type": ["array", "null"]}]},
            {"anyOf": [{"type": ["array", "null"], "items": {}}]},
        ),
        ({"type": "array", "items": {"type": "array"}}, {"type": "array", "items": ANYTHING}),
        ({"$defs": {"x": {"type": "array"}}}, {"$defs": {"x": ANYTHING}}),
        ({"additionalProperties": {"type": "array"}}, {"additionalProperties": ANYTHING}),
        # A property or a value of that name is no array.
        (closed(type={"enum": ["array"]}), None),
        (closed(a={"default": {"type": "array"}}), closed(a={"default": {"type": "array"}})),
        (closed(a={"type": "array", "items": WORD}), None),
    ],
)
def test_every_array_says_what_it_holds(schema: Any, complete: Any) -> None:
    before = msgspec.json.encode(schema)
    found = with_items(schema)
    assert found == (schema if complete is None else complete)
    assert (found is schema) == (complete is None)
    assert msgspec.json.encode(schema) == before
