"""A small generator of values that conform to a JSON schema.

It knows what tool parameters and structured outputs use in practice: types, ``enum``, ``const``,
``default``, ``examples``, ``required``, ``properties``, ``items``, the combinators, local
``$ref``, ``format`` and the numeric and length bounds. Values are the same for the same schema.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_MAX_DEPTH = 12
_OPTIONAL_DEPTH = 4
_FORMATS = {
    "date-time": "2026-01-02T03:04:05Z",
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "duration": "PT1H",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def example(schema: Mapping[str, Any] | bool) -> Any:
    """A value that conforms to the schema."""
    root = schema if isinstance(schema, Mapping) else {}
    return _value(schema, root, "value", 0)


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    node: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        if part:
            name = part.replace("~1", "/").replace("~0", "~")
            node = node.get(name, {}) if isinstance(node, Mapping) else {}
    return node


def _value(schema: Any, root: Mapping[str, Any], name: str, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return name
    if isinstance(reference := schema.get("$ref"), str):
        return _value(_resolve(reference, root), root, name, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    if parts := schema.get("allOf"):
        return _value(_merged(parts, schema, root), root, name, depth + 1)
    for key in ("anyOf", "oneOf"):
        if options := schema.get(key):
            return _value(_preferred(options, depth), root, name, depth + 1)
    match _type(schema):
        case "object":
            return _object(schema, root, depth)
        case "array":
            return _array(schema, root, name, depth)
        case "integer":
            return _number(schema, 1)
        case "number":
            return _number(schema, 1.5)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return _string(schema, name)


def _type(schema: Mapping[str, Any]) -> str:
    declared = schema.get("type")
    if isinstance(declared, str):
        return declared
    if isinstance(declared, Sequence) and declared:
        return str(next((kind for kind in declared if kind != "null"), declared[0]))
    if "properties" in schema or "required" in schema:
        return "object"
    return "array" if "items" in schema else "string"


def _merged(parts: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    for part in parts:
        if isinstance(part, Mapping) and isinstance(reference := part.get("$ref"), str):
            part = _resolve(reference, root)
        if not isinstance(part, Mapping):
            continue
        for key, value in part.items():
            if key == "properties":
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "required":
                merged[key] = [*merged.get(key, []), *value]
            else:
                merged[key] = value
    return merged


def _preferred(options: Any, depth: int) -> Any:
    """The first option that is not null; deep inside a recursive schema, null if it may be."""

    def is_null(option: Any) -> bool:
        return isinstance(option, Mapping) and option.get("type") == "null"

    if depth > _OPTIONAL_DEPTH and any(is_null(option) for option in options):
        return {"type": "null"}
    return next((option for option in options if not is_null(option)), options[0])


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    required = schema.get("required") or []
    wanted = list(properties) if depth < _OPTIONAL_DEPTH else list(required)
    wanted += [name for name in required if name not in properties]
    return {name: _value(properties.get(name, {}), root, name, depth + 1) for name in wanted}


def _array(schema: Mapping[str, Any], root: Mapping[str, Any], name: str, depth: int) -> list[Any]:
    if prefix := schema.get("prefixItems"):
        return [_value(item, root, name, depth + 1) for item in prefix]
    least = int(schema.get("minItems", 0))
    most = int(schema.get("maxItems", 1))
    wanted = max(least, min(1, most)) if depth < _OPTIONAL_DEPTH else least
    return [_value(schema.get("items", {}), root, name, depth + 1) for _ in range(wanted)]


def _number(schema: Mapping[str, Any], value: float) -> float:
    step = schema.get("multipleOf")
    low, high = schema.get("minimum"), schema.get("maximum")
    if (bound := schema.get("exclusiveMinimum")) is not None and not isinstance(bound, bool):
        low = bound + (step or 1)
    if (bound := schema.get("exclusiveMaximum")) is not None and not isinstance(bound, bool):
        high = bound - (step or 1)
    if step:
        value = step
    if low is not None and value < low:
        value = low if not step else -(-low // step) * step
    if high is not None and value > high:
        value = high if not step else high // step * step
    return value


def _string(schema: Mapping[str, Any], name: str) -> str:
    text = _FORMATS.get(str(schema.get("format")), name)
    least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
    if len(text) < least:
        text = text.ljust(least, "x")
    return text if most is None else text[: int(most)]
