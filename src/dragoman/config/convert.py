"""Conversion of TOML tables into typed settings; all faults are reported, not only the first."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard, Union, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from dragoman.canonical.options import Extensible
from dragoman.config.access_rules import NonEmpty
from dragoman.config.files import BadFileName, FileText, read_file
from dragoman.config.limits import number_text
from dragoman.config.removed import REMOVED
from dragoman.config.secret import Secret, SecretError
from dragoman.config.toml_lines import Path
from dragoman.protocols.settings import fields_of, with_settings

Resolve = Callable[[str], Secret]
"""Resolves a reference to a secret, or raises `SecretError`."""

ReadFile = Callable[[str], FileText]
"""Reads the file of a name, or raises `BadFileName`."""


class Lookup(NamedTuple):
    """How references to secrets and names of files are looked up."""

    resolve: Resolve
    read: ReadFile = read_file


class Converter:
    """Converts values and collects their faults in `faults`.

    A value with a fault becomes None, and so does a table that contains one. The result is usable
    only if `faults` is empty.
    """

    def __init__(self, lookup: Lookup) -> None:
        self.faults: list[tuple[Path, str]] = []
        self._lookup = lookup

    def convert(self, value: object, kind: Any, path: Path) -> Any:
        """Convert `value`, found at `path`, to the type `kind`."""
        plain = _plain(kind)
        origin = get_origin(plain)
        if kinds := kinds_of(plain):
            return self._of_kind(value, kinds, path)
        if _is_struct(plain):
            return self._struct(value, plain, path)
        if origin is tuple:
            item = get_args(plain)[0]
            if isinstance(value, list | tuple):
                return tuple(
                    self.convert(entry, item, (*path, index)) for index, entry in enumerate(value)
                )
            if _is_struct(item):
                self._fault(path, f"expected a list of tables: [[{dotted(path)}]]")
                return None
        if origin is dict and isinstance(value, dict):
            key_kind, item = get_args(plain)
            return {
                self._leaf(key, key_kind, (*path, key)): self.convert(entry, item, (*path, key))
                for key, entry in value.items()
            }
        return self._leaf(value, kind, path)

    def _of_kind(self, value: object, kinds: Mapping[str, type[Struct]], path: Path) -> Any:
        """A table whose `kind` says which settings it has."""
        if not isinstance(value, dict):
            self._fault(path, f'expected a table: {path[-1]} = {{ kind = "{next(iter(kinds))}" }}')
            return None
        kind = value.get("kind")
        if not isinstance(kind, str) or kind not in kinds:
            near = suggestion(kind, kinds) if isinstance(kind, str) else ""
            self._fault((*path, "kind"), f"expected one of {', '.join(kinds)}{near}")
            return None
        own = {name: entry for name, entry in value.items() if name != "kind"}
        return self._struct(own, kinds[kind], path)

    def _struct(self, value: object, kind: type[Struct], path: Path) -> Any:
        if not isinstance(value, dict):
            what = "[[%s]]" if path and isinstance(path[-1], int) else "[%s]"
            name = ".".join(part for part in path if isinstance(part, str))
            self._fault(path, f"expected a table: {what % name}")
            return None
        before = len(self.faults)
        fields = fields_of(kind) if issubclass(kind, Extensible) else _fields(kind)
        for key in value.keys() - fields.keys():
            self._fault((*path, key), _unknown((*path, key), fields))
        for name in fields.keys() - value.keys():
            if fields[name].required:
                self._fault((*path, name), "required, but not set")
        arguments = {
            info.name: self.convert(value[name], info.type, (*path, name))
            for name, info in fields.items()
            if name in value
        }
        if len(self.faults) != before:
            return None
        return (
            with_settings(kind(), arguments) if issubclass(kind, Extensible) else kind(**arguments)
        )

    def _leaf(self, value: object, kind: Any, path: Path) -> Any:
        try:
            if _plain(kind) is Secret:
                return self._lookup.resolve(msgspec.convert(value, str))
            if _plain(kind) is FileText:
                return self._lookup.read(msgspec.convert(value, NonEmpty))
            if isinstance(value, float) and not math.isfinite(value):
                raise msgspec.ValidationError("Expected a number that is finite")
            if (
                _may_be_number(kind)
                and isinstance(value, int | float)
                and not isinstance(value, bool)
            ):
                value = number_text(value)
            converted = msgspec.convert(value, kind)
            if type(converted) is str and (known := registered(kind)) and converted not in known:
                raise msgspec.ValidationError("Expected a name that is registered")
            return converted
        except (SecretError, BadFileName) as error:
            self._fault(path, str(error))
        except msgspec.ValidationError as error:
            self._fault(path, _reason(error, value, kind))
        return None

    def _fault(self, path: Path, message: str) -> None:
        self.faults.append((path, message))


@cache
def _fields(kind: type[Struct]) -> Mapping[str, FieldInfo]:
    """The settings of a table. Inspecting them takes longer than the conversion."""
    return {info.encode_name: info for info in msgspec.structs.fields(kind)}


def dotted(path: Path) -> str:
    """A path in the notation of operators, such as `upstreams[0].base_url`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if part.replace("_", "").replace("-", "").isalnum() else f'"{part}"'
            text += f".{name}" if text else name
    return text


def _is_struct(kind: Any) -> TypeGuard[type[Struct]]:
    return isinstance(kind, type) and issubclass(kind, Struct)


def kinds_of(kind: Any) -> Mapping[str, type[Struct]]:
    """The structs of a type by the `kind` that a table of them names; empty if there is no such
    choice."""
    arms = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    tagged = [one for one in arms if _is_struct(one) and one.__struct_config__.tag_field]
    return {str(one.__struct_config__.tag): one for one in tagged}


def _plain(kind: Any) -> Any:
    """`kind` without its constraints and without None, which TOML does not have."""
    while True:
        origin = get_origin(kind)
        if origin is Annotated:
            kind = get_args(kind)[0]
        elif origin in (Union, types.UnionType):
            others = [arm for arm in get_args(kind) if arm is not type(None)]
            if len(others) != 1:
                return kind
            kind = others[0]
        else:
            return kind


def registered(kind: Any) -> list[str]:
    """The registered names that a text may be (`choices` of its `Meta`); empty for any text."""
    for part in get_args(kind)[1:] if get_origin(kind) is Annotated else ():
        if isinstance(part, msgspec.Meta) and part.extra and "choices" in part.extra:
            return list(part.extra["choices"])
    return []


def _choices(kind: Any) -> list[str]:
    if known := registered(kind):
        return known
    plain = _plain(kind)
    if get_origin(plain) is Literal:
        return [str(choice) for choice in get_args(plain)]
    if isinstance(plain, type) and issubclass(plain, Enum):
        return [str(member.value) for member in plain]
    return []


def _unknown(path: Path, known: Iterable[str]) -> str:
    """Why a key cannot be set: it was removed, or never existed."""
    name = ".".join(part for part in path if isinstance(part, str))
    # A key of the store is written without the table that it is in.
    instead = REMOVED.get(name) or REMOVED.get(f"clients.{name}")
    if instead is not None:
        return f"was removed: {instead}"
    return f"unknown key{suggestion(str(path[-1]), known)}"


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a message: the known word closest to `word`, or nothing."""
    import difflib  # seldom needed

    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _reason(error: msgspec.ValidationError, value: object, kind: Any) -> str:
    choices = _choices(kind)
    if choices and isinstance(value, str):
        return f"expected one of {', '.join(choices)}{suggestion(value, choices)}"
    message = str(error).partition(" - at `")[0]
    if "matching regex" in message and (meaning := _description(kind)):
        return f"expected {meaning}"
    for jargon, word in _WORDS:
        message = message.replace(jargon, word)
    return message[:1].lower() + message[1:]


_WORDS = (
    (" | null`", "`"),
    ("`str` of length >= 1", "a text that is not empty"),
    ("`str`", "a text"),
    ("`float | str`", "a number or a text"),
    ("`int | float | str`", "a number or a text"),
    ("`int`", "a whole number"),
    ("`float`", "a number"),
    ("`bool`", "true or false"),
    ("`date`", "a day such as 2027-01-31"),
    ("`datetime`", "a time"),
    ("Invalid RFC3339 encoded datetime", "Expected a time such as 2027-01-31T00:00:00Z"),
    ("Invalid RFC3339 encoded date", "Expected a day such as 2027-01-31"),
    ("`array`", "a list"),
    ("`object`", "a table"),
)


def _description(kind: Any) -> str | None:
    meta = _meta(kind)
    return None if meta is None else meta.description


def _may_be_number(kind: Any) -> bool:
    """Whether a text may be written as a number (`number` of its `Meta`)."""
    meta = _meta(kind)
    return meta is not None and "number" in (meta.extra or {})


def _meta(kind: Any) -> msgspec.Meta | None:
    optional = get_origin(kind) in (Union, types.UnionType)
    for arm in get_args(kind) if optional else (kind,):
        for part in get_args(arm)[1:] if get_origin(arm) is Annotated else ():
            if isinstance(part, msgspec.Meta):
                return part
    return None
