"""Options and capabilities by their names in the configuration.

A configuration and the library call have the settings of all protocols in one table; here each is
assigned to the struct that declares it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, replace

from dragoman.canonical.options import Capabilities, Extensible, Options
from dragoman.protocols import CODECS

E = TypeVar("E", bound=Extensible)

NOT_SETTINGS = frozenset(Extensible.__struct_fields__)
"""Members of the structs that are no settings."""


def declared_by(kind: type[Extensible]) -> Iterator[type[Struct]]:
    """The structs that declare settings of `kind`: its own, then those of the protocols."""
    yield kind
    for codec in CODECS.values():
        part = codec.translate.options if kind is Options else codec.endpoint.capabilities
        if part is not None:
            yield part


def fields_of(kind: type[Extensible]) -> Mapping[str, FieldInfo]:
    """Every setting of `kind` by its name, those of the protocols included."""
    return _fields(tuple(declared_by(kind)))


@lru_cache(maxsize=16)
def _fields(parts: tuple[type[Struct], ...]) -> Mapping[str, FieldInfo]:
    return {
        info.name: info
        for part in parts
        for info in msgspec.structs.fields(part)
        if info.name not in NOT_SETTINGS
    }


def with_settings(base: E, values: Mapping[str, Any]) -> E:
    """`base` with the settings in `values`, each by its name.

    The values are not validated: see `checked` for values written by a person.
    """
    kind = type(base)
    own = dict(base.own)
    left = dict(values)
    for part in declared_by(kind):
        taken = {name: values[name] for name in part.__struct_fields__ if name in values}
        if not taken:
            continue
        for name in taken:
            left.pop(name, None)
        if part is kind:
            base = replace(base, **taken)
        else:
            own[part] = replace(base.of(part), **taken)
    if left:
        raise ValueError(f"there is no such setting: {', '.join(left)}")
    return replace(base, own=own, given=base.given | values.keys())


def setting(base: Extensible, name: str) -> Any:
    """The value of the setting `name`.

    Raises:
        KeyError: there is no setting of that name.
    """
    for part in declared_by(type(base)):
        if name in part.__struct_fields__ and name not in NOT_SETTINGS:
            return getattr(base if part is type(base) else base.of(part), name)
    raise KeyError(name)


def checked(kind: type[Extensible], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of settings, each converted to its type.

    Raises:
        ValueError: naming the setting, and the allowed values.
    """
    known = fields_of(kind)
    for name in values.keys() - known.keys():
        raise ValueError(f"there is no such setting: {name}")
    converted: dict[str, Any] = {}
    for name, value in values.items():
        try:
            converted[name] = msgspec.convert(value, known[name].type)
        except msgspec.ValidationError as error:
            choices = _choices(known[name].type)
            problem = f"must be one of {', '.join(choices)}" if choices else str(error)
            raise ValueError(f"{name}: {problem}") from None
    return converted


def _choices(kind: Any) -> list[str]:
    """The allowed words of a setting, empty if other values are allowed."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(member.value) for member in kind]
    return [str(choice) for choice in get_args(kind)] if get_origin(kind) is Literal else []


def make_options(**values: Any) -> Options:
    """Options by their names in the configuration, checked.

    Raises:
        ValueError: there is no such option, or it has no such value.
    """
    return with_settings(Options(), checked(Options, values))


def make_capabilities(**values: Any) -> Capabilities:
    """Capabilities by their names in the configuration, checked.

    Raises:
        ValueError: there is no such capability, or it has no such value.
    """
    return with_settings(Capabilities(), checked(Capabilities, values))
