"""The generator of schema-conforming values."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from dragoman.lab.simulator.schema import example


class Leaf(BaseModel):
    """A recursive model, as tool parameters have them."""

    name: str = Field(min_length=3, max_length=4)
    children: list[Leaf] = Field(default_factory=list)
    parent: Leaf | None


class Everything(BaseModel):
    count: int = Field(gt=3, lt=9)
    share: float = Field(ge=0.25, le=0.5)
    even: int = Field(multiple_of=2, ge=5)
    flag: bool
    nothing: None
    choice: str | int
    pairs: tuple[int, str]
    some: list[int] = Field(min_length=2)
    tree: Leaf
    words: dict[str, str]


def test_a_model_takes_its_example() -> None:
    Everything.model_validate(example(Everything.model_json_schema()), strict=False)


def test_examples_do_not_change() -> None:
    schema = Everything.model_json_schema()
    assert example(schema) == example(schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "format": "uuid"}, "00000000-0000-4000-8000-000000000000"),
        ({"enum": ["b", "a"]}, "b"),
        ({"const": 7}, 7),
        ({"type": "integer", "default": 5}, 5),
        ({"type": ["null", "integer"]}, 1),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, True),
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "integer"}}}, 1),
        ({"properties": {"a": {"type": "integer"}}, "required": ["b"]}, {"a": 1, "b": "b"}),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 0}, []),
        ({"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991}, 1),
        ({}, "value"),
        (True, "value"),
    ],
)
def test_small_schemas(schema: Any, value: object) -> None:
    assert example(schema) == value


def test_a_schema_that_never_ends_does() -> None:
    schema = {
        "$ref": "#/$defs/n",
        "$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}},
    }
    assert isinstance(example(schema), dict)
