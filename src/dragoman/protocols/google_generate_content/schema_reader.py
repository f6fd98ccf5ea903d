"""Schemas in the vendor's subset of OpenAPI (`parameters`, `responseSchema`) as JSON schemas."""

from __future__ import annotations

from typing import Any

from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_generate_content.spelling import camel

_NESTED = frozenset({"items", "additionalProperties"})
_LISTED = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = {"properties": "properties", "defs": "$defs", "$defs": "$defs"}
_DROPPED = frozenset({"propertyOrdering", "nullable"})
_COUNTS = frozenset(
    {"minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"}
)


def read_schema(schema: JsonObject) -> JsonObject:
    """The JSON schema that says the same: types in lower case, `nullable` as a type."""
    written: JsonObject = {}
    for given, value in schema.items():
        name = given if given.startswith("$") else camel(given)
        if value is None or name in _DROPPED:
            continue
        if name == "type":
            kind = _type_of(value)
            if kind is not None:
                written["type"] = kind
        elif name in _NESTED and isinstance(value, dict):
            written[name] = read_schema(value)
        elif name in _LISTED and isinstance(value, list):
            written[name] = [read_schema(one) if isinstance(one, dict) else one for one in value]
        elif name in _NAMED and isinstance(value, dict):
            written[_NAMED[name]] = {
                key: read_schema(one) if isinstance(one, dict) else one
                for key, one in value.items()
            }
        elif name == "ref":
            written["$ref"] = _reference(value)
        elif name == "example":
            written["examples"] = [value]
        elif name in _COUNTS and isinstance(value, str) and value.isdecimal():
            # An int64 of proto3 JSON.
            written[name] = int(value)
        else:
            written[name] = value
    if schema.get("nullable") is True:
        _allow_null(written)
    return written


def _type_of(value: Any) -> Any:
    if isinstance(value, str):
        kind = value.lower()
        return None if kind == "type_unspecified" else kind
    if isinstance(value, list):
        return [one.lower() if isinstance(one, str) else one for one in value]
    return value


def _reference(value: Any) -> Any:
    """A reference in the words of JSON Schema."""
    return value.replace("#/defs/", "#/$defs/") if isinstance(value, str) else value


def _allow_null(schema: JsonObject) -> None:
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    elif isinstance(schema.get("anyOf"), list):
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
