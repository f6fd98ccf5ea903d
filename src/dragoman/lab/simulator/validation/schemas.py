"""What the vendors demand of the JSON schemas in a request.

OpenAI words its complaints as ``Invalid schema for function 'f': In context=(...), ...``; its
strict subset is that of the structured outputs guide. Anthropic's subset for ``strict`` tools and
for ``output_config.format`` is what ``lib/_parse/_transform.py`` of its SDK makes schemas fit.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from dragoman.lab.simulator.validation.refusals import Refusal
from dragoman.lab.simulator.validation.shapes import fits

Schema = Mapping[str, Any]
TypeName = Literal["object", "array", "string", "integer", "number", "boolean", "null"]

_NAMED = ("properties", "$defs", "definitions", "patternProperties")
_LISTED = ("anyOf", "allOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_KEYWORDS: dict[str, tuple[Any, str]] = {
    "type": (TypeName | list[TypeName] | None, "is not valid under any of the given schemas"),
    "required": (list[str], "is not of type 'array'"),
    "enum": (list[Any], "is not of type 'array'"),
    **dict.fromkeys(_NAMED, (dict[str, Any], "is not of type 'object'")),
    **dict.fromkeys(_LISTED, (list[Any], "is not of type 'array'")),
    **dict.fromkeys(_SINGLE, (dict[str, Any] | bool, "is not of type 'object', 'boolean'")),
    **dict.fromkeys(_BOUNDS, (float, "is not of type 'number'")),
}
"""The types of keywords in draft 2020-12, and the complaint about any other type."""

_COMBINATIONS = ("oneOf", "anyOf", "allOf")
_NOT_STRICT = re.compile(
    "allOf|contains|dependentRequired|dependentSchemas|else|if|maxContains|maxProperties|"
    "minContains|minProperties|not|oneOf|patternProperties|propertyNames|then|unevaluatedItems|"
    "unevaluatedProperties|uniqueItems"
)
_UNTYPED = frozenset({"anyOf", "$ref", "enum", "const"})
_MOST_LEVELS = 10
_MOST_PROPERTIES = 5000

_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_STRING_FORMAT = re.compile(
    "date|date-time|duration|email|hostname|ipv4|ipv6|text|time|uri|uuid",
)
_UNSUPPORTED: dict[str, tuple[str, ...]] = {
    "object": ("minProperties", "maxProperties", "patternProperties", "propertyNames"),
    "array": ("maxItems", "uniqueItems", "contains", "prefixItems"),
    "string": ("minLength", "maxLength"),
    "integer": _BOUNDS,
    "number": _BOUNDS,
}
"""Per type, the keywords that Anthropic's structured outputs do not take."""


def check_parameters(schema: Schema, function: str, *, strict: bool) -> None:
    """A function's parameters: a plain object schema, in the strict subset if it claims to be."""
    for problem in _wrong_parameters(schema, strict=strict):
        text = f"Invalid schema for function '{function}': {problem}"
        raise Refusal(text, "parameters", code="invalid_function_parameters")


def check_answer_schema(schema: Schema, name: str, *, strict: bool) -> None:
    """The schema of ``response_format`` or ``text.format``."""
    for problem in _wrong_answer_schema(schema, strict=strict):
        text = f"Invalid schema for response_format '{name}': {problem}"
        raise Refusal(text, "schema", code="invalid_json_schema")


def check_input_schema(schema: Schema, *, strict: bool) -> None:
    """The ``input_schema`` of an Anthropic tool."""
    if schema.get("type") != "object":
        detail = "Input should be 'object'" if "type" in schema else "Field required"
        raise Refusal(detail, "input_schema", "type")
    if any(key in schema for key in _COMBINATIONS):
        detail = "input_schema does not support oneOf, allOf, or anyOf at the top level"
        raise Refusal(detail, "input_schema")
    if any(_malformed(node) for _, node in _parts(schema)):
        detail = "JSON schema is invalid. It must match JSON Schema draft 2020-12 "
        raise Refusal(f"{detail}(https://json-schema.org/draft/2020-12).", "input_schema")
    if not all(_PROPERTY.fullmatch(name) for name in schema.get("properties", {})):
        detail = f"Property keys should match pattern '^{_PROPERTY.pattern}$'"
        raise Refusal(detail, "input_schema", "properties")
    if strict:
        check_structured(schema, "input_schema")


def check_structured(schema: Schema, *at: str) -> None:
    """The subset of JSON Schema that Anthropic's structured outputs and strict tools take."""
    for _, node in _parts(schema):
        if problem := _malformed(node) or _unstructured(node):
            raise Refusal(problem, *at)


def _parts(schema: Schema) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The schema and every schema inside it, each with the keys that lead to it."""
    parts: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    for where, node in parts:  # which grow on the way
        yield where, node
        for key, inner in node.items() if isinstance(node, dict) else ():
            if key in _NAMED and isinstance(inner, dict):
                parts += [((*where, key, name), part) for name, part in inner.items()]
            elif key in _LISTED and isinstance(inner, list):
                parts += [((*where, key, str(at)), part) for at, part in enumerate(inner)]
            elif key in _SINGLE and isinstance(inner, dict):
                parts.append(((*where, key), inner))


def _malformed(node: Any) -> str | None:
    """What in one schema is no JSON schema of draft 2020-12."""
    if not isinstance(node, dict | bool):
        return f"{node!r} is not of type 'object', 'boolean'"
    for key, value in node.items() if isinstance(node, dict) else ():
        if key in _KEYWORDS and not fits(value, _KEYWORDS[key][0]):
            return f"{value!r} {_KEYWORDS[key][1]}"
    return None


def _types(node: Schema) -> tuple[Any, ...]:
    kind = node.get("type")
    return tuple(kind) if isinstance(kind, list) else (() if kind is None else (kind,))


def _wrong_parameters(schema: Schema, *, strict: bool) -> Iterator[str]:
    yield from _not_an_object(schema)
    if any(key in schema for key in (*_COMBINATIONS, "enum", "not")):
        names = "'oneOf'/'anyOf'/'allOf'/'enum'/'not'"
        yield f"schema must have type 'object' and not have {names} at the top level."
    if "properties" not in schema:
        yield "In context=(), object schema missing properties."
    for context, node in _parts(schema):
        if problem := _malformed(node) or _without_items(node) or (strict and _loose(node)):
            yield f"In context={context}, {problem}."
    if strict:
        yield from _too_large(schema)


def _wrong_answer_schema(schema: Schema, *, strict: bool) -> Iterator[str]:
    if strict:
        yield from _not_an_object(schema)
        if "anyOf" in schema:
            yield "schema must have type 'object' and not have 'anyOf' at the top level."
    for context, node in _parts(schema):
        if problem := _malformed(node) or (strict and (_loose(node) or _without_items(node))):
            yield f"In context={context}, {problem}."
    if strict:
        yield from _too_large(schema)


def _not_an_object(schema: Schema) -> Iterator[str]:
    if (got := schema.get("type")) != "object":
        yield f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{got}\"'."


def _without_items(node: Any) -> str | None:
    if isinstance(node, dict) and "array" in _types(node) and "items" not in node:
        return "array schema missing items"
    return None


def _loose(node: Any) -> str | None:
    """Why one schema is not in OpenAI's strict subset."""
    if not isinstance(node, dict):
        return None
    for key in node:
        if _NOT_STRICT.fullmatch(key):
            return f"'{key}' is not permitted"
    if "$ref" in node and (others := node.keys() - {"$ref", "$defs", "definitions"}):
        return f"$ref cannot have keywords {others}"
    if "type" not in node and _UNTYPED.isdisjoint(node):
        return "schema must have a 'type' key"
    if "object" not in _types(node) and "properties" not in node:
        return None
    if node.get("additionalProperties") is not False:
        return "'additionalProperties' is required to be supplied and to be false"
    names, required = set(node.get("properties", {})), set(node.get("required", []))
    if names - required:
        text = "'required' is required to be supplied and to be an array including every key in "
        return f"{text}properties. Missing '{min(names - required)}'"
    return f"Extra required key '{min(required - names)}' supplied" if required - names else None


def _too_large(schema: Schema) -> Iterator[str]:
    properties = 0
    for context, node in _parts(schema):
        levels = sum(part in ("properties", "items") for part in context)
        if levels > _MOST_LEVELS:
            yield f"{levels} levels of nesting exceeds limit of {_MOST_LEVELS}."
        properties += len(node.get("properties", {})) if isinstance(node, dict) else 0
    if properties > _MOST_PROPERTIES:
        yield f"{properties} object properties exceeds limit of {_MOST_PROPERTIES}."


def _unstructured(node: Any) -> str | None:
    """Why one schema is not in Anthropic's subset."""
    if not isinstance(node, dict):
        return None
    for key in ("oneOf", "not", "if"):
        if key in node:
            return f"Schema type '{key}' is not supported"
    for kind in _types(node):
        unsupported = [key for key in _UNSUPPORTED.get(kind, ()) if key in node]
        if len(unsupported) == 1:
            return f"For '{kind}' type, property '{unsupported[0]}' is not supported"
        if unsupported:
            return f"For '{kind}' type, properties {', '.join(unsupported)} are not supported"
        if kind == "object" and node.get("additionalProperties") is not False:
            return "For 'object' type, 'additionalProperties' must be explicitly set to false"
        if kind == "array" and node.get("minItems", 0) not in (0, 1):
            return "For 'array' type, 'minItems' values other than 0 or 1 are not supported"
        if kind == "string" and not _STRING_FORMAT.fullmatch(str(node.get("format", "text"))):
            return f"For 'string' type, 'format' value '{node['format']}' is not supported"
    return None
