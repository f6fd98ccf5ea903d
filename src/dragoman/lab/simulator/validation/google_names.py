"""The names of a Google request: those of its JSON or of its protocol buffers, at every level."""

import re
from typing import Any

_FREE = {
    *("args", "response", "labels", "partMetadata", "default", "example"),
    *("parametersJsonSchema", "responseJsonSchema", "enum", "required"),
}
"""Members whose value is the client's own."""

_KEYED = ("properties", "defs", "$defs")
_UNDERSCORE = re.compile(r"_([a-z0-9])")


def camel(name: str) -> str:
    """A member's name in JSON."""
    return _UNDERSCORE.sub(lambda found: found[1].upper(), name)


def with_json_names(value: Any) -> Any:
    """The value with the names that its members have in JSON; what is null is left out."""
    if isinstance(value, list):
        return [with_json_names(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, inner in value.items():
        name = camel(name)
        if inner is None:
            continue
        if name in _KEYED and isinstance(inner, dict):
            found[name] = {key: with_json_names(schema) for key, schema in inner.items()}
        else:
            found[name] = inner if name in _FREE else with_json_names(inner)
    return found
