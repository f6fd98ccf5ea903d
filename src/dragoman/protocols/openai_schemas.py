"""JSON schemas in the form that OpenAI's services require, on both of its protocols."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import FunctionTool
from dragoman.protocols.base import Outbound
from dragoman.protocols.portable_schemas import JsonSchema, with_inner
from dragoman.protocols.tools import decoded, object_schema

_UNSUPPORTED = frozenset(
    {
        "allOf",
        "contains",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "maxContains",
        "maxProperties",
        "minContains",
        "minProperties",
        "not",
        "oneOf",
        "patternProperties",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    }
)
_LEAVES = ("string", "boolean", "integer", "number")
_UNTYPED = frozenset({"anyOf", "$ref", "enum", "const"})
_REFERENCE_MEMBERS = frozenset({"$ref", "$defs", "definitions"})


def write_parameters(tool: FunctionTool, outbound: Outbound) -> JsonSchema | Raw:
    """The schema of a tool's arguments: an object with properties, with `items` in every array."""
    traits = tool.traits
    if traits is not None and traits.is_complete and tool.schema is not None:
        return tool.schema
    given = object_schema(tool, outbound)
    schema = known = decoded(given)
    if "properties" not in schema:
        # The services refuse an object without `properties`; empty ones have the same meaning.
        schema = {**schema, "properties": {}}
    completed = with_items(schema)
    if completed is not schema:
        detail = "arrays of the schema hold anything"
        outbound.ledger.add(tool.path, LossKind.REPAIRED, detail)
    return given if completed is known else completed


def with_items(schema: JsonSchema) -> JsonSchema:
    """The schema itself, or a copy with `items` added to every array, for any value.

    The services refuse arrays without it (`array schema missing items`), which other vendors
    accept."""
    return _completed(schema) if _may_lack_items(schema) else schema


def _may_lack_items(node: JsonSchema) -> bool:
    """A quick test, since few schemas do; values that are not schemas are searched as well."""
    if node.get("type") in ("array", ["array", "null"]) and "items" not in node:
        return True
    for value in node.values():
        if type(value) is dict:
            if value.get("type") not in _LEAVES and _may_lack_items(value):
                return True
        elif type(value) is list:
            for item in value:
                if type(item) is dict and _may_lack_items(item):
                    return True
    return False


def _completed(node: Any) -> Any:
    if type(node) is not dict:
        return node
    completed = with_inner(node, _completed)
    if "array" in _types(node) and "items" not in node:
        completed["items"] = {}
    return completed


def _types(node: JsonSchema) -> tuple[Any, ...]:
    kind = node.get("type")
    return tuple(kind) if type(kind) is list else (kind,)


def is_strict(schema: Any) -> bool:
    """Whether a schema is in the subset that strict mode accepts.

    Every object forbids additional properties and requires all of its own, every schema has a
    type, the root is a plain object, and no keyword outside the subset is used (OpenAI's guide to
    structured outputs). Only then may `strict: true` be sent.
    """
    if isinstance(schema, Raw):
        schema = decoded(schema)
    if type(schema) is not dict or schema.get("type") != "object" or "anyOf" in schema:
        return False
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if type(node) is not dict or not _UNSUPPORTED.isdisjoint(node):
            return False
        if "$ref" in node and not _REFERENCE_MEMBERS.issuperset(node):
            return False
        if "type" not in node and _UNTYPED.isdisjoint(node):
            return False
        kinds = _types(node)
        if "array" in kinds and "items" not in node:
            return False
        if ("object" in kinds or "properties" in node) and not _closed(node):
            return False
        for key in ("properties", "$defs", "definitions"):
            inner = node.get(key, {})
            if type(inner) is not dict:
                return False
            pending += inner.values()
        for key in ("anyOf", "prefixItems"):
            branches = node.get(key, [])
            if type(branches) is not list:
                return False
            pending += branches
        if "items" in node:
            pending.append(node["items"])
    return True


def _closed(node: JsonSchema) -> bool:
    properties, required = node.get("properties", {}), node.get("required", [])
    return (
        node.get("additionalProperties") is False
        and type(properties) is dict
        and type(required) is list
        and sorted(properties) == sorted(map(str, required))
    )
