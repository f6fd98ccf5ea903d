"""Whether a JSON schema meets the rules of the service's strict mode."""

from __future__ import annotations

from typing import Any

_COMBINATIONS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions")
_UNSUPPORTED = frozenset({"oneOf", "allOf", "not", "if", "then", "else", "patternProperties"})


def is_strict(schema: Any) -> bool:
    """Whether every object in `schema` is closed and requires all its properties, and nothing
    is used that strict mode refuses. Only then may `strict: true` be sent.
    """
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if not isinstance(node, dict) or not _UNSUPPORTED.isdisjoint(node):
            return False
        kind = node.get("type")
        if kind == "object" or (isinstance(kind, list) and "object" in kind):
            properties = node.get("properties", {})
            if not isinstance(properties, dict) or node.get("additionalProperties") is not False:
                return False
            required = node.get("required", [])
            if not isinstance(required, list) or set(properties) - set(map(str, required)):
                return False
        for name in _NAMED:
            if isinstance(node.get(name), dict):
                pending += node[name].values()
        for name in _COMBINATIONS:
            if isinstance(node.get(name), list):
                pending += node[name]
        if "items" in node:
            pending.append(node["items"])
    return True
