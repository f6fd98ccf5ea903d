"""JSON schemas as the service enforces them: for its answers, and for strict tools.

The subset is the one that the official SDK fits schemas into (`lib/_parse/_transform.py`): objects
are closed, and constraints that its grammar cannot enforce move into the description."""

from __future__ import annotations

from typing import Any

from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import JsonObject

_NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_UNSUPPORTED: dict[str, tuple[str, ...]] = {
    "object": ("minProperties", "maxProperties", "patternProperties", "propertyNames"),
    "array": ("maxItems", "uniqueItems", "contains", "prefixItems"),
    "string": ("minLength", "maxLength"),
    "integer": _NUMBER,
    "number": _NUMBER,
}
_NOWHERE = frozenset({"not", "if", "then", "else", "dependentRequired", "dependentSchemas"})
_FORMATS = frozenset(
    {
        "date",
        "date-time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "text",
        "time",
        "uri",
        "uuid",
    }
)
_NAMED = ("properties", "$defs", "definitions")
_LISTED = ("anyOf", "allOf")


def is_enforceable(schema: JsonObject) -> bool:
    """Whether the service takes the schema as it is."""
    moved: set[str] = set()
    _fit(schema, moved)
    return not moved


def fitted(schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """A schema the service takes, and the keywords that had to change for it.

    The schema itself if there are none.
    """
    moved: set[str] = set()
    fit = _fit(schema, moved)
    return (fit if moved else schema), sorted(moved)


def _fit(node: Any, moved: set[str]) -> Any:
    if type(node) is not dict:
        return node
    kinds = node.get("type")
    kinds = kinds if type(kinds) is list else [kinds]
    unsupported = {word for kind in kinds for word in _UNSUPPORTED.get(str(kind), ())} | _NOWHERE
    described: JsonObject = {}
    fit: JsonObject = {}
    for key, value in node.items():
        if key in unsupported or _is_out_of_range(key, value, kinds):
            described[key] = value
        elif key in _NAMED and type(value) is dict:
            fit[key] = {name: _fit(inner, moved) for name, inner in value.items()}
        elif key in _LISTED and type(value) is list:
            fit[key] = [_fit(inner, moved) for inner in value]
        elif key == "oneOf" and type(value) is list and "anyOf" not in node:
            moved.add(key)
            fit["anyOf"] = [_fit(inner, moved) for inner in value]
        elif key == "oneOf":
            described[key] = value
        else:
            fit[key] = _fit(value, moved) if key == "items" else value
    if "object" in kinds and fit.get("additionalProperties") is not False:
        moved.add("additionalProperties")
        fit["additionalProperties"] = False
    if described:
        moved.update(described)
        constraints = ", ".join(f"{key}: {to_json_text(value)}" for key, value in described.items())
        own = fit.get("description")
        fit["description"] = f"{own}\n\n{{{constraints}}}" if own else f"{{{constraints}}}"
    return fit


def _is_out_of_range(key: str, value: Any, kinds: list[Any]) -> bool:
    if key == "minItems":
        return "array" in kinds and value not in (0, 1)
    return key == "format" and "string" in kinds and value not in _FORMATS
