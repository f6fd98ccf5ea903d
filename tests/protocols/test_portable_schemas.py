"""What the text of a schema shows, and names of properties that Messages services refuse."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from dragoman.canonical.requests import SchemaTraits
from dragoman.protocols.portable_schemas import carried_schema, portable, with_names


def traits_of(schema: bytes) -> SchemaTraits:
    _, traits = carried_schema(Raw(schema), "", "schema")
    assert traits is not None
    return traits


LEGAL = [
    b"{}",
    b'{"properties":{"a.b-C_9":{}}}',
    b'{"properties":{"a":{"description":"no name: \\"x y\\": 1, {\\"$\\":2"}}}',
    b'{"properties": {"a" : {"enum": ["", "x y", ":z"]}}}',
]
OTHERS = [
    b'{"properties":{"$top":{}}}',
    b'{"properties":{"filter[id]" : {}}}',
    '{"properties":{"名前":{}}}'.encode(),
    b'{"properties":{"":{}}}',
    b'{"properties":{"a\\u0062":{}}}',
    b'{"properties":{"%b":{}}}' % (b"a" * 65),
    b'{"properties":{"a":{"properties":{"x y":{}}}}}',
    b'{"properties":["x y"]}',
    b'{"p\\u0072operties":{"x y":{}}}',
]


@pytest.mark.parametrize("schema", LEGAL)
def test_legal_names_need_no_second_look(schema: bytes) -> None:
    assert traits_of(schema).has_legal_names


@pytest.mark.parametrize("schema", OTHERS)
def test_any_other_schema_is_looked_at_as_a_whole(schema: bytes) -> None:
    assert not traits_of(schema).has_legal_names


COMPLETE = [
    b'{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}',
]
PLAIN = [
    b'{"type":"object"}',
    b'{"type":"object","properties":{}}',
    b'{"type":"object","properties":{"a":{"type":"array"}}}',
    b'{"type":"object","properties":{"\\u0061":{"type":"\\u0061rray"}}}',
]
NEITHER = [
    b"{}",
    b'{"type":"string","properties":{}}',
    b'{"type":["object"],"properties":{}}',
    b'{"type":"object","properties":["a"]}',
    b'{"type":"object","properties":{},"anyOf":[]}',
    b'{"type":"object","properties":{},"oneOf":null}',
    b'{"type":"object","properties":{},"allOf":[{}]}',
    b'{"type":"object","properties":{},"not":{}}',
    b'{"type":"object","properties":{},"$ref":"#/$defs/a"}',
    b'{"type":"object","properties":{"a":{"exclusiveMinimum": true}}}',
    b'{"type":"object","properties":{"a":{"items" : [{}]}}}',
    b'{"type":"object","properties":{"a":{"required":false}}}',
]


@pytest.mark.parametrize("length", [0, 5000], ids=["short", "long"])
@pytest.mark.parametrize("schema", [*COMPLETE, *PLAIN, *NEITHER])
def test_a_schema_is_passed_as_it_is_only_if_its_text_shows_no_need(
    schema: bytes, length: int
) -> None:
    traits = traits_of(schema + b" " * length)
    assert traits.is_complete == (schema in COMPLETE)
    assert traits.is_plain == (schema not in NEITHER)


@pytest.mark.parametrize(
    "schema",
    [
        '{"anyOf":[{"properties":{"NAME":{"type":"string"}},"required":["NAME","b"]}]}',
        '{"dependentRequired":{"NAME":["NAME"]}}',
        '{"dependentSchemas":{"NAME":{"required":["NAME"]}}}',
        *(f'{{"properties":{{"a":{{"{key}":[{{"NAME":1}}]}}}}}}' for key in ("enum", "examples")),
        *(f'{{"properties":{{"a":{{"{key}":{{"NAME":1}}}}}}}}' for key in ("const", "default")),
    ],
)
def test_a_property_is_renamed_wherever_a_schema_names_it(schema: str) -> None:
    """A text that is alike stays as it is."""
    given = {**json.loads(schema.replace("NAME", "$top")), "title": "$top"}
    expected = {**json.loads(schema.replace("NAME", "_top")), "title": "$top"}
    assert with_names(given, {"$top": "_top"}) == expected


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("anyOf", "At least one of these must hold"),
        ("oneOf", "Exactly one of these must hold"),
        ("allOf", "All of these must hold"),
    ],
)
def test_what_the_root_combines_is_described(word: str, told: str) -> None:
    branch = {"properties": {"a": {"type": "string"}}}
    schema, changes = portable({"type": "object", word: [branch]})
    described = f"{told}: {json.dumps([branch], separators=(',', ':'))}"
    assert schema == {"type": "object", **branch, "description": described}
    assert len(changes) == 1
