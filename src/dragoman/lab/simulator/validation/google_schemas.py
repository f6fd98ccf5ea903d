"""What Google takes of schemas: its own dialect, and what it reads of JSON Schema."""

import re
from typing import Any

from dragoman.lab.simulator.validation.refusals import Path, Refusal

_WORDS = {
    *("type", "format", "title", "description", "nullable", "enum", "items", "minItems"),
    *("maxItems", "properties", "required", "minProperties", "maxProperties", "minimum"),
    *("maximum", "minLength", "maxLength", "pattern", "example", "anyOf", "propertyOrdering"),
    *("default", "additionalProperties", "defs", "ref"),
}
_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_TYPE = re.compile("|".join(("TYPE_UNSPECIFIED", *_TYPES)), re.IGNORECASE)
_NAMED = ("properties", "$defs", "defs")
_LISTED = ("anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties")


def check_dialect(schema: Any, *at: str | int) -> None:
    """Google's own Schema: no other words, and one type in each.

    Raises:
        Refusal: something is unknown or of the wrong kind.
    """
    if not isinstance(schema, dict):
        raise Refusal("Invalid value, a Schema is an object.", *at)
    for name in schema:
        if name not in _WORDS:
            raise unknown(name, *at)
    kind = schema.get("type")
    if kind is not None and (not isinstance(kind, str) or not _TYPE.fullmatch(kind)):
        raise Refusal(f"Invalid value ({kind!r}) of the enum Type.", *at, "type")
    words = schema.get("enum")
    if words is not None and not all(isinstance(word, str) for word in words):
        raise Refusal("Invalid value, an enum has strings only.", *at, "enum")
    if str(kind).lower() == "object" and schema.get("properties") == {}:
        raise Refusal("should be non-empty for OBJECT type", *at, "properties")
    if str(kind).lower() == "array" and "items" not in schema:
        raise Refusal("missing field.", *at, "items")
    for where, inner in _inner(schema):
        check_dialect(inner, *at, *where)


def check_json_schema(schema: Any, *at: str | int) -> None:
    """A JSON Schema; words that Google does not know are ignored.

    Raises:
        Refusal: it is no schema, or has something beside a reference.
    """
    if not isinstance(schema, dict):
        raise Refusal("Invalid value, a schema is an object.", *at)
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in _TYPES:
            raise Refusal(f"Invalid type {kind!r}.", *at, "type")
    if "$ref" in schema and any(not name.startswith("$") for name in schema):
        raise Refusal("A schema with $ref must have no other members.", *at)
    for where, inner in _inner(schema):
        if isinstance(inner, dict):
            check_json_schema(inner, *at, *where)


def unknown(name: str, *at: str | int) -> Refusal:
    """The refusal of a member that does not exist."""
    return Refusal(f'Unknown name "{name[:60]}": Cannot find field.', *at)


def _inner(schema: dict[str, Any]) -> list[tuple[Path, Any]]:
    found: list[tuple[Path, Any]] = []
    for key in _NAMED:
        inner = schema.get(key)
        if isinstance(inner, dict):
            found += [((key, name), value) for name, value in inner.items()]
    for key in _LISTED:
        inner = schema.get(key)
        if isinstance(inner, list):
            found += [((key, at), value) for at, value in enumerate(inner)]
    found += [((key,), schema[key]) for key in _SINGLE if isinstance(schema.get(key), dict)]
    return found
