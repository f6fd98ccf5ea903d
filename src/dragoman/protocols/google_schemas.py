"""JSON schemas as Google's services take them: the members they read of JSON Schema, and the subset
of OpenAPI in which older ones want them.

Source: `Schema`, `FunctionDeclaration.parameters_json_schema` and
`GenerateContentConfig.response_json_schema` of google-genai 3.4.0."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Raw

from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.portable_schemas import with_inner

_READ: Final = frozenset(
    {
        *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum"),
        *("items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf"),
        *("properties", "additionalProperties", "required", "propertyOrdering"),
    }
)
"""The members of a JSON schema that are enforced; others are ignored."""

_HARMLESS: Final = frozenset(
    {"$schema", "$comment", "default", "example", "examples", "deprecated"}
)
"""Members that constrain nothing."""

_SUBSET: Final = frozenset(
    {
        *("type", "format", "title", "description", "nullable", "enum", "items", "minItems"),
        *("maxItems", "properties", "required", "minProperties", "maxProperties", "minimum"),
        *("maximum", "minLength", "maxLength", "pattern", "anyOf", "propertyOrdering"),
    }
)
"""The members of a schema in the subset of OpenAPI; others are refused."""

_FORMATS: Final = {
    "string": frozenset({"enum", "date-time"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
"""The formats in the subset, by type."""

_ODD = re.compile(rb'"(?:\$ref|const|definitions|allOf)"|\\u')


def is_read_whole(schema: Raw) -> bool:
    """Whether a schema certainly has none of the members that have to be replaced."""
    return _ODD.search(bytes(schema)) is None


def readable_schema(schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """The schema with all that the services read of it in the members that they read, and the
    members that they ignore, in order."""
    ignored: set[str] = set()
    return _read(schema, schema, ignored), sorted(ignored)


def _read(node: Any, root: JsonObject, ignored: set[str]) -> Any:
    if type(node) is not dict:
        return node
    reference = node.get("$ref")
    if type(reference) is str and any(not name.startswith("$") for name in node):
        # Nothing may stand beside a reference.
        target = _target(reference, root)
        siblings = {name: value for name, value in node.items() if name != "$ref"}
        if target is None or _names_itself(target, reference, root):
            ignored.update(siblings.keys() - _HARMLESS - {"title", "description"})
            node = {name: value for name, value in node.items() if name.startswith("$")}
        else:
            node = {**target, **siblings}
            return _read(node, root, ignored)
    made: JsonObject = {}
    for name, value in with_inner(node, lambda inner: _read(inner, root, ignored)).items():
        if name == "$ref" and type(value) is str:
            made[name] = value.replace("#/definitions/", "#/$defs/")
        elif name == "definitions":
            made["$defs"] = {**value, **made.get("$defs", {})} if type(value) is dict else {}
        elif name == "const" and "enum" not in node:
            made["enum"] = [value]
            if "type" not in node and type(value) is str:
                made["type"] = "string"
        elif name == "allOf" and type(value) is list and all(type(one) is dict for one in value):
            for one in value:
                _merge(made, one, ignored)
        else:
            if name not in _READ and name not in _HARMLESS:
                ignored.add(name)
            made.setdefault(name, value)
    return made


def _merge(made: JsonObject, part: JsonObject, ignored: set[str]) -> None:
    """Add one of the schemas of which all must hold."""
    for name, value in part.items():
        known = made.get(name)
        if name == "properties" and type(known) is dict and type(value) is dict:
            made[name] = {**known, **value}
        elif name == "required" and type(known) is list and type(value) is list:
            made[name] = [*known, *(one for one in value if one not in known)]
        elif known is None:
            made[name] = value
        elif known != value and name not in ("title", "description"):
            ignored.add("allOf")


def _target(reference: str, root: JsonObject) -> JsonObject | None:
    """What a reference within the schema names."""
    if not reference.startswith("#/"):
        return None
    target: Any = root
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        target = target.get(step) if type(target) is dict else None
    return target if type(target) is dict else None


def _names_itself(target: JsonObject, reference: str, root: JsonObject) -> bool:
    """Whether what a reference names refers back to it, so that it cannot be put in its place."""
    seen = {reference}
    waiting: list[Any] = [target]
    while waiting:
        node = waiting.pop()
        if type(node) is list:
            waiting += node
        elif type(node) is dict:
            inner = node.get("$ref")
            if inner == reference:
                return True
            if type(inner) is str and inner not in seen:
                seen.add(inner)
                waiting.append(_target(inner, root))
            waiting += node.values()
    return False


# --- the subset of OpenAPI ------------------------------------------------------------------------


def openapi_schema(schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """The schema in the subset of OpenAPI, and the members that were left out or moved into a
    description."""
    changed: set[str] = set()
    read, _ = readable_schema(schema)
    return _openapi(read, read, changed, ()), sorted(changed)


def _openapi(node: Any, root: JsonObject, changed: set[str], inside: tuple[str, ...]) -> JsonObject:
    if type(node) is not dict:
        if node is not True:
            changed.add("boolean schema")
        return {}
    reference = node.get("$ref")
    if type(reference) is str:
        target = _target(reference, root)
        if target is None or reference in inside:
            changed.add("$ref")
            return {"type": "OBJECT"}
        return _openapi(target, root, changed, (*inside, reference))
    made: JsonObject = {}
    moved: JsonObject = {}
    kinds = node.get("type")
    kinds = kinds if type(kinds) is list else [kinds]
    named = [kind for kind in kinds if type(kind) is str and kind != "null"]
    if "null" in kinds:
        made["nullable"] = True
    if len(named) == 1:
        made["type"] = named[0].upper()
    elif named:
        made["anyOf"] = [{"type": kind.upper()} for kind in named]
    for name, value in node.items():
        if name == "type" or name in ("$defs", *_HARMLESS):
            continue
        if name == "properties" and type(value) is dict:
            made[name] = {
                key: _openapi(inner, root, changed, inside) for key, inner in value.items()
            }
        elif name == "items":
            made[name] = _openapi(value, root, changed, inside)
        elif name in ("anyOf", "oneOf") and type(value) is list:
            made["anyOf"] = [_openapi(inner, root, changed, inside) for inner in value]
        elif name == "enum" and type(value) is list:
            _add_enum(made, value, changed)
        elif name == "format" and value not in _FORMATS.get(named[0] if named else "", ()):
            moved[name] = value
        elif name in _SUBSET:
            made[name] = value
        elif not (name == "additionalProperties" and value in (False, {})):
            moved[name] = value
    if moved:
        changed.update(moved)
        words = ", ".join(f"{name}: {to_json_text(value)[:200]}" for name, value in moved.items())
        about = made.get("description")
        made["description"] = f"{about}\n\n{{{words}}}" if about else f"{{{words}}}"
    return made


def _add_enum(made: JsonObject, values: list[Any], changed: set[str]) -> None:
    """The allowed values, which have to be strings."""
    if None in values:
        made["nullable"] = True
    remaining = [value for value in values if value is not None]
    if not all(type(value) is str for value in remaining):
        changed.add("enum")
        remaining = [value if type(value) is str else to_json_text(value) for value in remaining]
    if remaining:
        made["type"], made["enum"] = "STRING", remaining
