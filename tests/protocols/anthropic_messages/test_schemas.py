"""Schemas are fitted to what the service enforces, and what it does not take is told in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.protocols.anthropic_messages.schemas import fitted, is_enforceable

SHUT = {"type": "object", "additionalProperties": False}
ROWS: list[tuple[Any, Any, list[str]]] = [
    ({"type": "object"}, SHUT, ["additionalProperties"]),
    ({"type": "object", "additionalProperties": True}, SHUT, ["additionalProperties"]),
    (
        {"type": "integer", "minimum": 1, "maximum": 9},
        {"type": "integer", "description": "{minimum: 1, maximum: 9}"},
        ["maximum", "minimum"],
    ),
    (
        {"type": "string", "minLength": 2, "description": "a name"},
        {"type": "string", "description": "a name\n\n{minLength: 2}"},
        ["minLength"],
    ),
    (
        {"type": "string", "format": "binary"},
        {"type": "string", "description": '{format: "binary"}'},
        ["format"],
    ),
    (
        {"type": "array", "minItems": 8, "items": {"type": "object"}},
        {"type": "array", "items": SHUT, "description": "{minItems: 8}"},
        ["additionalProperties", "minItems"],
    ),
    (
        {"type": "array", "uniqueItems": True},
        {"type": "array", "description": "{uniqueItems: true}"},
        ["uniqueItems"],
    ),
    ({"oneOf": [{"type": "null"}]}, {"anyOf": [{"type": "null"}]}, ["oneOf"]),
    ({"not": {}}, {"description": "{not: {}}"}, ["not"]),
    (
        {**SHUT, "properties": {"a": {"type": "number", "multipleOf": 2}}, "$defs": {"x": SHUT}},
        {
            **SHUT,
            "properties": {"a": {"type": "number", "description": "{multipleOf: 2}"}},
            "$defs": {"x": SHUT},
        },
        ["multipleOf"],
    ),
]
TAKEN: list[Any] = [
    {},
    SHUT,
    {"type": ["string", "null"], "format": "date"},
    {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "a"}},
    {"enum": ["a", 1]},
    {**SHUT, "properties": {"minimum": {"type": "string"}}},
    {"anyOf": [SHUT, {"$ref": "#/$defs/x"}], "$defs": {"x": SHUT}},
]


@pytest.mark.parametrize(("schema", "expected", "changed"), ROWS)
def test_what_is_not_enforced_is_told(schema: Any, expected: Any, changed: list[str]) -> None:
    before = msgspec.json.encode(schema)
    assert fitted(schema) == (expected, changed)
    assert not is_enforceable(schema)
    assert is_enforceable(expected)
    assert msgspec.json.encode(schema) == before


@pytest.mark.parametrize("schema", TAKEN)
def test_what_is_enforced_stays_as_it_is(schema: Any) -> None:
    fit, changed = fitted(schema)
    assert fit is schema
    assert changed == []
    assert is_enforceable(schema)
