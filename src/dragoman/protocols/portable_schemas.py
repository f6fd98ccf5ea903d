"""JSON schemas of tools in a form that every vendor takes.

Vendors refuse combinations at the root of a schema, and words of older drafts of JSON Schema. What
a combination requires is described in words instead, and the properties of its alternatives are
all offered."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from msgspec import Raw, Struct, field

from dragoman.canonical.names import safe_id
from dragoman.canonical.requests import SchemaTraits
from dragoman.canonical.tools import with_renamed_keys
from dragoman.jsontext import JsonError, decoder
from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import MAX_DEPTH
from dragoman.protocols.reading import carried_object

JsonSchema = dict[str, Any]

_COMBINED: Final = ("anyOf", "oneOf", "allOf")
_NAMED: Final = ("properties", "$defs", "definitions", "patternProperties")
_LISTED: Final = ("anyOf", "allOf", "oneOf", "prefixItems")
_SINGLE: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_BOUNDS: Final = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
_MOST_DESCRIBED: Final = 500
"""Characters of a combination that are quoted in a description."""

_OLD = re.compile(
    rb'"exclusiveM(?:in|ax)imum"\s*:\s*(?:true|false)|"items"\s*:\s*\[|"required"\s*:\s*(?:true|false)'
)


def has_old_words(schema: bytes) -> bool:
    """Whether the text of a schema has words of older drafts."""
    return _OLD.search(schema) is not None


def is_combined(schema: JsonSchema) -> bool:
    """Whether the root of a schema is more than an object with properties."""
    return not schema.keys().isdisjoint((*_COMBINED, "not", "$ref"))


def portable(schema: JsonSchema) -> tuple[JsonSchema, list[str]]:
    """The schema in a form that every vendor takes, and what changed, in words."""
    changes: list[str] = []
    if is_combined(schema):
        schema = _without_combinations(schema)
        changes.append("what the root of the schema combined is described in words")
    current = _current(schema)
    if current != schema:
        schema = current
        changes.append("words of older drafts of JSON Schema became current ones")
    return schema, changes


# --- traits -------------------------------------------------------------------------------------

_LONGEST_NAME: Final = 64
_LEGAL = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class _Root(Struct):
    type: Raw = Raw()
    properties: dict[str, Raw] | None = None
    any_of: Raw = field(name="anyOf", default=Raw())
    one_of: Raw = field(name="oneOf", default=Raw())
    all_of: Raw = field(name="allOf", default=Raw())
    forbidden: Raw = field(name="not", default=Raw())
    reference: Raw = field(name="$ref", default=Raw())


_root = decoder(_Root)
_UNKNOWN: Final = SchemaTraits(False, False, False, False)


def carried_schema(raw: Raw, path: str, name: str) -> tuple[Raw | None, SchemaTraits | None]:
    """As `carried_object`, of the schema of a tool's arguments, with its traits. Clients send the
    same tools again and again, so the traits of the last schemas that are short are kept."""
    text = bytes(raw)
    traits = _kept_traits(text) if len(text) <= _LONGEST_KEPT else _traits(text)
    if traits.is_shallow or carried_object(raw, path, name) is not None:
        return raw, traits
    return None, None


def _traits(text: bytes) -> SchemaTraits:
    try:
        root = _root(text)
    except JsonError:
        return _UNKNOWN
    combined = (root.any_of, root.one_of, root.all_of, root.forbidden, root.reference)
    is_object = bytes(root.type) == b'"object"' and not any(map(bytes, combined))
    is_plain = is_object and not has_old_words(text)
    is_escaped, names = b"\\u" in text, root.properties
    return SchemaTraits(
        is_shallow=text.count(b"{") + text.count(b"[") <= MAX_DEPTH,
        is_plain=is_plain,
        is_complete=is_plain and bool(names) and not is_escaped and b'"array"' not in text,
        has_legal_names=not is_escaped
        and text.count(b'"properties"') <= 1
        and all(map(_LEGAL.fullmatch, names or ())),
    )


_LONGEST_KEPT: Final = 4096
_kept_traits = lru_cache(maxsize=512)(_traits)


# --- the root -----------------------------------------------------------------------------------


def _without_combinations(schema: JsonSchema) -> JsonSchema:
    """The schema with the properties of all alternatives at its root."""
    plain = _resolved(schema, schema)
    properties: JsonSchema = dict(plain.get("properties") or {})
    required: list[str] = [name for name in plain.get("required") or () if type(name) is str]
    described: list[str] = []
    for word in _COMBINED:
        branches = plain.pop(word, None)
        if type(branches) is not list:
            continue
        found = [_flat(branch, schema) for branch in branches if type(branch) is dict]
        for branch in found:
            _add_properties(properties, branch.get("properties") or {})
        needed = [set(branch.get("required") or ()) for branch in found]
        if needed:
            common = set.union(*needed) if word == "allOf" else set.intersection(*needed)
            required += [name for name in properties if name in common and name not in required]
        described.append(_in_words(word, branches))
    if (forbidden := plain.pop("not", None)) is not None:
        described.append(_in_words("not", forbidden))
    flat: JsonSchema = {**plain, "type": "object", "properties": properties}
    if required:
        flat["required"] = required
    about = [plain["description"]] if type(plain.get("description")) is str else []
    flat["description"] = "\n".join([*about, *described])
    return flat


def _flat(branch: JsonSchema, root: JsonSchema) -> JsonSchema:
    """An alternative, without references and combinations at its own root."""
    resolved = _resolved(branch, root)
    if resolved.keys().isdisjoint(_COMBINED):
        return resolved
    return _without_combinations({**resolved, **_definitions(root)})


def _definitions(root: JsonSchema) -> JsonSchema:
    return {name: root[name] for name in ("$defs", "definitions") if name in root}


def _resolved(node: JsonSchema, root: JsonSchema) -> JsonSchema:
    """A copy of a node, with what its reference names."""
    seen: set[str] = set()
    node = dict(node)
    while type(reference := node.pop("$ref", None)) is str and reference not in seen:
        seen.add(reference)
        target: Any = root
        for step in reference.removeprefix("#").split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if type(target) is dict else None
        if type(target) is dict:
            node = {**target, **node}
    return node


def _add_properties(properties: JsonSchema, more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        known = properties.setdefault(name, value)
        if known == value:
            continue
        branches = known["anyOf"] if type(known) is dict and known.keys() == {"anyOf"} else [known]
        if value not in branches:
            properties[name] = {"anyOf": [*branches, value]}


_WORDS: Final = {
    "anyOf": "At least one of these must hold",
    "oneOf": "Exactly one of these must hold",
    "allOf": "All of these must hold",
    "not": "This must not hold",
}


def _in_words(word: str, value: Any) -> str:
    return f"{_WORDS[word]}: {to_json_text(value)[:_MOST_DESCRIBED]}"


def with_inner(node: JsonSchema, of: Callable[[Any], Any]) -> JsonSchema:
    """A copy of a schema with the result of `of` in place of each schema inside it."""
    made = dict(node)
    for key in _NAMED:
        if type(inner := node.get(key)) is dict:
            made[key] = {name: of(value) for name, value in inner.items()}
    for key in _LISTED:
        if type(inner := node.get(key)) is list:
            made[key] = [of(value) for value in inner]
    for key in _SINGLE:
        if key in node:
            made[key] = of(node[key])
    return made


# --- older drafts -------------------------------------------------------------------------------


def _current(node: Any) -> Any:
    """A schema in the words of the current draft; an equal one if it is already."""
    if type(node) is not dict:
        return node
    current = with_inner(node, _current)
    for exclusive, bound in _BOUNDS:
        if type(flag := node.get(exclusive)) is bool:
            del current[exclusive]
            if flag and bound in current:
                current[exclusive] = current.pop(bound)
    if type(node.get("required")) is bool:
        del current["required"]
    if type(items := node.get("items")) is list:
        # A list of schemas, one for each place.
        current.pop("additionalItems", None)
        kinds: list[Any] = []
        for item in map(_current, items):
            if item not in kinds:
                kinds.append(item)
        current["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}
    return current


# --- names of properties ------------------------------------------------------------------------


def legal_names(schema: JsonSchema) -> dict[str, str]:
    """Legal names for the properties of a schema, at any depth, whose own Messages services
    refuse."""
    found: dict[str, str] = {}
    _collect(schema, found)
    return found


def _collect(node: Any, found: dict[str, str]) -> None:
    if type(node) is list:
        for value in node:
            _collect(value, found)
    elif type(node) is dict:
        properties = node.get("properties")
        for name in properties if type(properties) is dict else ():
            if not _LEGAL.fullmatch(name):
                found[name] = safe_id(name, _LONGEST_NAME)
        for value in node.values():
            _collect(value, found)


def with_names(schema: Any, names: Mapping[str, str]) -> Any:
    """The schema with its properties renamed."""
    if type(schema) is list:
        return [with_names(value, names) for value in schema]
    if type(schema) is not dict:
        return schema
    renamed: JsonSchema = {}
    for key, value in schema.items():
        if key in ("properties", "dependentRequired", "dependentSchemas") and type(value) is dict:
            renamed[key] = {
                names.get(name, name): _strings(inner, names.get)
                if key == "dependentRequired"
                else with_names(inner, names)
                for name, inner in value.items()
            }
        elif key == "required":
            renamed[key] = _strings(value, names.get)
        elif key in ("enum", "const", "default", "examples"):
            renamed[key] = with_renamed_keys(value, names)
        else:
            renamed[key] = with_names(value, names)
    return renamed


def _strings(value: Any, of: Callable[[str, str], str]) -> Any:
    if type(value) is not list:
        return value
    return [of(name, name) if type(name) is str else name for name in value]
