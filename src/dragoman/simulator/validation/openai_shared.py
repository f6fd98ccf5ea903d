"""Rules that Chat Completions and Responses have in common."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.simulator.validation.nodes import Node

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
VERBOSITIES = ("low", "medium", "high")
TIERS = ("auto", "default", "flex", "scale", "priority", "fast", "ultrafast")
_CACHE_TTLS = ("30m", "12h")


def check_sampling(root: Node) -> None:
    """Fields of the same name and range in both protocols."""
    for name, least, most in (("temperature", 0, 2), ("top_p", 0, 1)):
        if node := root.get(name):
            node.number(least, most)
    if node := root.get("top_logprobs"):
        node.integer(0, 20)
    for name in ("stream", "store", "parallel_tool_calls"):
        if node := root.get(name):
            node.boolean()
    if node := root.get("service_tier"):
        node.one_of(TIERS)
    if node := root.get("safety_identifier"):
        node.string(most=128)
    for name in ("user", "prompt_cache_key"):
        if node := root.get(name):
            node.string()
    if node := root.get("prompt_cache_retention"):
        node.one_of(("in_memory", "in-memory", "24h"))


def check_metadata(root: Node) -> None:
    """At most 16 pairs of strings, keys to 64 and values to 512 characters."""
    metadata = root.get("metadata")
    if metadata is None:
        return
    metadata.object()
    if len(metadata.value) > 16:
        metadata.fail("too many properties. Expected at most 16.", "object_above_max_properties")
    for key in metadata.value:
        if len(key) > 64:
            metadata.fail("a key is longer than 64 characters.")
        metadata.child(key).string(most=512)


def check_cache_breakpoint(part: Node) -> None:
    """``prompt_cache_breakpoint`` on a content part."""
    if node := part.get("prompt_cache_breakpoint"):
        node.object(allowed=("ttl",), required=("mode",))
        node.child("mode").one_of(("explicit",))
        if ttl := node.get("ttl"):
            ttl.one_of(_CACHE_TTLS)


def check_parameters(parameters: Node, strict: bool) -> None:
    """A function's parameters: an object schema, closed all the way down when strict."""
    parameters.object()
    schema = parameters.value
    if schema and schema.get("type") != "object":
        got = schema.get("type")
        parameters.fail_plainly(
            f"Invalid schema for function: schema must be a JSON Schema of 'type: \"object\"', "
            f"got 'type: \"{got}\"'.",
            "invalid_function_parameters",
        )
    if strict:
        check_strict(parameters)


def check_strict(schema: Node) -> None:
    """The rules of strict schemas: objects are closed and require all their properties."""
    problem = _loose(schema.value, "")
    if problem is not None:
        schema.fail_plainly(f"Invalid schema: {problem}", "invalid_function_parameters")


def _loose(schema: Any, where: str) -> str | None:
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return next(filter(None, (_loose(part, where) for part in schema)), None)
    if not isinstance(schema, Mapping):
        return None
    properties = schema.get("properties")
    if isinstance(properties, Mapping) or schema.get("type") == "object":
        names = properties if isinstance(properties, Mapping) else {}
        if schema.get("additionalProperties") is not False:
            return f"In context={where or '()'}, 'additionalProperties' is required to be false."
        required = schema.get("required") or []
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            return f"In context={where or '()'}, 'required' is not an array of strings."
        missing = set(names) - set(required)
        if missing:
            return (
                f"In context={where or '()'}, 'required' is required to be supplied and to include "
                f"every key in properties. Missing '{min(missing)}'."
            )
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            for name, inner in value.items():
                if (problem := _loose(inner, f"{where}/{name}")) is not None:
                    return problem
        elif key in ("items", "anyOf", "allOf", "oneOf", "prefixItems"):
            problem = _loose(value, f"{where}/{key}")
            if problem is not None:
                return problem
    return None
