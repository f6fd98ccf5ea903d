"""JSON schemas as OpenAI's services want them."""

from __future__ import annotations

from typing import Any

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
"""The schema of a tool without arguments."""
CLOSED: dict[str, Any] = {**EMPTY, "additionalProperties": False}
"""The same, as strict mode wants it."""

_UNSUPPORTED = (
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "unevaluatedProperties",
    "propertyNames",
)


def with_object_root(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with what the services demand of parameters: an object with properties."""
    if schema.get("type") == "object" and "properties" in schema:
        return schema
    return {**schema, "type": "object", "properties": schema.get("properties", {})}


def meets_strict_rules(schema: Any) -> bool:
    """Whether a schema is in the subset that strict mode accepts.

    Every object forbids additional properties and requires all of its own, the root is a plain
    object, and no keyword outside the subset is used (OpenAI structured outputs guide).
    """
    return (
        isinstance(schema, dict)
        and schema.get("type") == "object"
        and "anyOf" not in schema
        and _strict(schema)
    )


def _strict(schema: Any) -> bool:
    if not isinstance(schema, dict) or any(word in schema for word in _UNSUPPORTED):
        return False
    properties = schema.get("properties")
    kind = schema.get("type")
    if kind == "object" or properties is not None or (isinstance(kind, list) and "object" in kind):
        properties = {} if properties is None else properties
        if schema.get("additionalProperties") is not False or not isinstance(properties, dict):
            return False
        required = schema.get("required", [])
        if not isinstance(required, list) or sorted(properties) != sorted(map(str, required)):
            return False
        if not all(_strict(child) for child in properties.values()):
            return False
    branches = schema.get("anyOf", [])
    if not isinstance(branches, list) or not all(_strict(branch) for branch in branches):
        return False
    if "items" in schema and not _strict(schema["items"]):
        return False
    definitions = schema.get("$defs", schema.get("definitions", {}))
    return isinstance(definitions, dict) and all(_strict(child) for child in definitions.values())
