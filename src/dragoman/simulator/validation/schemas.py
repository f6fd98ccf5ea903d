"""What the vendors demand of the JSON schemas in a request.

OpenAI words its complaints as ``Invalid schema for function 'f': In context=(...), ...``; its
strict subset is that of the structured outputs guide. Anthropic's subset for ``strict`` tools and
for ``output_config.format`` is what ``lib/_parse/_transform.py`` of its SDK makes schemas fit.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from dragoman.simulator.validation.nodes import Node

Context = tuple[str, ...]

_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_NAMED = ("properties", "$defs", "definitions", "patternProperties")
_LISTED = ("anyOf", "allOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_COMBINATIONS = ("oneOf", "anyOf", "allOf")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_MOST_LEVELS = 10
_MOST_PROPERTIES = 5000
_NOT_STRICT = frozenset(
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
_UNTYPED = frozenset({"anyOf", "$ref", "enum", "const"})
_UNSUPPORTED: dict[str, tuple[str, ...]] = {
    "object": ("minProperties", "maxProperties", "patternProperties", "propertyNames"),
    "array": ("maxItems", "uniqueItems", "contains", "prefixItems"),
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""Per type, the keywords that Anthropic's structured outputs do not take."""

_STRING_FORMATS = frozenset(
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


def _parts(schema: Mapping[str, Any], context: Context = ()) -> Iterator[tuple[Context, Any]]:
    """The schema and every schema inside it, each with the keys that lead to it."""
    pending: list[tuple[Context, Any]] = [(context, schema)]
    while pending:
        where, node = pending.pop(0)
        yield where, node
        if not isinstance(node, Mapping):
            continue
        for key in _NAMED:
            if isinstance(inner := node.get(key), Mapping):
                pending += [((*where, key, str(name)), value) for name, value in inner.items()]
        for key in _LISTED:
            if isinstance(inner := node.get(key), list):
                pending += [((*where, key, str(at)), value) for at, value in enumerate(inner)]
        for key in _SINGLE:
            if isinstance(inner := node.get(key), Mapping):
                pending.append(((*where, key), inner))


def _types(node: Mapping[str, Any]) -> tuple[Any, ...]:
    kind = node.get("type")
    return tuple(kind) if isinstance(kind, list) else (() if kind is None else (kind,))


def _malformed(node: Any) -> str | None:
    """What in one schema is no JSON schema of draft 2020-12."""
    if isinstance(node, bool):
        return None
    if not isinstance(node, Mapping):
        return f"{node!r} is not of type 'object', 'boolean'"
    for kind in _types(node):
        if not isinstance(kind, str) or kind not in _TYPES:
            return f"{kind!r} is not valid under any of the given schemas"
    required = node.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return f"{required!r} is not of type 'array'"
    for key in _NAMED:
        if not isinstance(node.get(key, {}), Mapping):
            return f"{node[key]!r} is not of type 'object'"
    for key in (*_LISTED, "enum"):
        if not isinstance(node.get(key, []), list):
            return f"{node[key]!r} is not of type 'array'"
    for key in _SINGLE:
        if not isinstance(node.get(key, True), Mapping | bool):
            return f"{node[key]!r} is not of type 'object', 'boolean'"
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
        bound = node.get(key, 0)
        if isinstance(bound, bool) or not isinstance(bound, int | float):
            return f"{bound!r} is not of type 'number'"
    return None


def check_parameters(parameters: Node, function: object, *, strict: bool) -> None:
    """A function's parameters: a plain object schema, in the strict subset if it says so."""
    subject = f"function '{function}'"
    code = "invalid_function_parameters"
    schema = parameters.object().value
    _need_object(parameters, subject, code)
    if any(key in schema for key in (*_COMBINATIONS, "enum", "not")):
        _complain(
            parameters,
            subject,
            "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at "
            "the top level.",
            code,
        )
    if "properties" not in schema:
        _complain(parameters, subject, "In context=(), object schema missing properties.", code)
    for context, node in _parts(schema):
        problem = _malformed(node)
        if problem is None and isinstance(node, Mapping):
            if "array" in _types(node) and "items" not in node:
                problem = "array schema missing items"
            elif strict:
                problem = _loose(node)
        if problem is not None:
            _complain(parameters, subject, f"In context={context}, {problem}.", code)
    if strict:
        _check_size(parameters, subject, code)


def check_answer_schema(schema: Node, name: object, *, strict: bool) -> None:
    """The schema of ``response_format`` or ``text.format``."""
    subject, code = f"response_format '{name}'", "invalid_json_schema"
    schema.object()
    for context, node in _parts(schema.value):
        if (problem := _malformed(node)) is not None:
            _complain(schema, subject, f"In context={context}, {problem}.", code)
    if not strict:
        return
    _need_object(schema, subject, code)
    if "anyOf" in schema.value:
        problem = "schema must have type 'object' and not have 'anyOf' at the top level."
        _complain(schema, subject, problem, code)
    for context, node in _parts(schema.value):
        problem = None
        if isinstance(node, Mapping):
            problem = _loose(node)
            if problem is None and "array" in _types(node) and "items" not in node:
                problem = "array schema missing items"
        if problem is not None:
            _complain(schema, subject, f"In context={context}, {problem}.", code)
    _check_size(schema, subject, code)


def _need_object(schema: Node, subject: str, code: str) -> None:
    got = schema.value.get("type")
    if got != "object":
        problem = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{got}\"'."
        _complain(schema, subject, problem, code)


def _complain(schema: Node, subject: str, problem: str, code: str) -> NoReturn:
    schema.fail_plainly(f"Invalid schema for {subject}: {problem}", code)


def _loose(node: Mapping[str, Any]) -> str | None:
    """What keeps one schema out of OpenAI's strict subset."""
    for key in node:
        if key in _NOT_STRICT:
            return f"'{key}' is not permitted"
    if "$ref" in node and len(node) > 1:
        others = {key for key in node if key not in ("$ref", "$defs", "definitions")}
        if others:
            return f"$ref cannot have keywords {others}"
    if "type" not in node and _UNTYPED.isdisjoint(node):
        return "schema must have a 'type' key"
    if "object" in _types(node) or "properties" in node:
        if node.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false"
        names, required = set(node.get("properties", {})), set(node.get("required", []))
        if names - required:
            return (
                "'required' is required to be supplied and to be an array including every key in "
                f"properties. Missing '{min(names - required)}'"
            )
        if required - names:
            return f"Extra required key '{min(required - names)}' supplied"
    return None


def _check_size(schema: Node, subject: str, code: str) -> None:
    properties = 0
    for context, node in _parts(schema.value):
        levels = sum(part in ("properties", "items") for part in context)
        if levels > _MOST_LEVELS:
            problem = f"{levels} levels of nesting exceeds limit of {_MOST_LEVELS}."
            _complain(schema, subject, problem, code)
        if isinstance(node, Mapping):
            properties += len(node.get("properties", {}))
    if properties > _MOST_PROPERTIES:
        problem = f"{properties} object properties exceeds limit of {_MOST_PROPERTIES}."
        _complain(schema, subject, problem, code)


def check_input_schema(schema: Node, *, strict: bool) -> None:
    """The ``input_schema`` of an Anthropic tool."""
    schema.object(required=("type",))
    schema.child("type").one_of(("object",))
    if any(key in schema.value for key in _COMBINATIONS):
        schema.fail("input_schema does not support oneOf, allOf, or anyOf at the top level")
    if any(_malformed(node) is not None for _, node in _parts(schema.value)):
        schema.fail(
            "JSON schema is invalid. It must match JSON Schema draft 2020-12 "
            "(https://json-schema.org/draft/2020-12)."
        )
    for name in schema.value.get("properties", {}):
        if not _PROPERTY.fullmatch(name):
            schema.child("properties").fail(
                f"Property keys should match pattern '^{_PROPERTY.pattern}$'"
            )
    if strict:
        check_structured(schema)


def check_structured(schema: Node) -> None:
    """The subset of JSON Schema that Anthropic's structured outputs and strict tools take."""
    for _, node in _parts(schema.object().value):
        problem = _malformed(node)
        if problem is None and isinstance(node, Mapping):
            problem = _unstructured(node)
        if problem is not None:
            schema.fail(problem)


def _unstructured(node: Mapping[str, Any]) -> str | None:
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
        if kind == "string" and node.get("format", "text") not in _STRING_FORMATS:
            return f"For 'string' type, 'format' value '{node['format']}' is not supported"
    return None
