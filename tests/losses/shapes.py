"""The vendors' SDK types as plain shapes: records, choices, lists, maps, words and scalars.

The request types are TypedDicts, the answer types pydantic models; a walker wants neither.
"""

from __future__ import annotations

import os
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import (
    IO,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
)

import pydantic
import typing_extensions
from openai._types import SequenceNotStr as OpenAISequence


@dataclass(frozen=True)
class Scalar:
    """A value of one JSON type: str, int, float, bool, or `any` for what the SDK leaves open."""

    kind: Literal["str", "int", "float", "bool", "any"]


@dataclass(frozen=True)
class Words:
    """One of a closed set of words (or numbers)."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Many:
    """A list of items of one shape."""

    item: Shape


@dataclass(frozen=True)
class Table:
    """An object with free keys."""

    value: Shape


@dataclass(frozen=True)
class Choice:
    """One of several shapes; null is left out."""

    members: tuple[Shape, ...]


@dataclass(frozen=True)
class Record:
    """An object with known fields, which `fields_of` tells (types may refer to themselves)."""

    type: Any

    @property
    def name(self) -> str:
        """The SDK's own name of the type."""
        return str(self.type.__name__)


Shape: TypeAlias = Scalar | Words | Many | Table | Choice | Record


@dataclass(frozen=True)
class FieldShape:
    """A field as it is called on the wire. `nullable` fields may be null."""

    name: str
    shape: Shape
    required: bool
    nullable: bool


_SCALARS = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    object: "any",
    Any: "any",
    datetime: "str",
}
_SEQUENCES = (list, Iterable, Sequence, OpenAISequence)
_REQUIRED: tuple[Any, ...] = (Required, typing_extensions.Required)
_NOT_REQUIRED: tuple[Any, ...] = (NotRequired, typing_extensions.NotRequired)
_UPLOADS = (IO, os.PathLike, bytes)
"""What the SDK reads from the disk for the caller: never JSON."""


def shape_of(hint: Any) -> Shape:
    """The shape of a type annotation."""
    members = tuple(_members(hint))
    if not members and bytes in (hint, *get_args(hint)):
        return Scalar("str")  # base64 in JSON
    if not members:
        raise TypeError(f"no JSON shape for {hint!r}")
    return members[0] if len(members) == 1 else Choice(members)


def _members(hint: Any) -> Iterator[Shape]:
    """The members of a union, flattened; of anything else its one shape."""
    flat = list(_flatten(hint))
    # A word list beside plain text names no closed set.
    open_text = str in flat
    for member in flat:
        if get_origin(member) is Literal:
            if not open_text:
                yield Words(get_args(member))
        else:
            yield _single(member)


def _flatten(hint: Any) -> Iterator[Any]:
    hint = _bare(hint)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        for member in get_args(hint):
            yield from _flatten(member)
    elif hint is type(None) or _is_open(hint):
        return
    elif hint not in _UPLOADS and origin not in _UPLOADS:
        yield hint


def _is_open(hint: Any) -> bool:
    """Whether a type stands for whatever the SDK does not know yet."""
    is_unknown = isinstance(hint, type) and "is_unknown" in getattr(hint, "model_fields", ())
    return is_unknown or getattr(hint, "__name__", "") in ("UnrecognizedStr", "UnrecognizedInt")


def _bare(hint: Any) -> Any:
    while True:
        origin = get_origin(hint)
        if origin in (Annotated, *_REQUIRED, *_NOT_REQUIRED):
            hint = get_args(hint)[0]
        elif isinstance(hint, typing_extensions.TypeAliasType):
            hint = hint.__value__
        else:
            return hint


def _single(hint: Any) -> Shape:
    origin = get_origin(hint)
    if hint in _SCALARS:
        return Scalar(_SCALARS[hint])  # type: ignore[arg-type]
    if origin in _SEQUENCES:
        return Many(shape_of(get_args(hint)[0]))
    if origin in (dict, Mapping) or hint is dict:
        return Table(shape_of(get_args(hint)[1] if get_args(hint) else Any))
    if typing_extensions.is_typeddict(hint) or _is_model(hint):
        return Record(hint)
    if hint is list:
        return Many(Scalar("any"))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Words(tuple(one.value for one in hint if not one.value.endswith("UNSPECIFIED")))
    raise TypeError(f"no JSON shape for {hint!r}")


def _is_model(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


@cache
def fields_of(record: Record) -> tuple[FieldShape, ...]:
    """The fields of a record, required ones first."""
    found = _model_fields(record.type) if _is_model(record.type) else _dict_fields(record.type)
    return tuple(sorted(found, key=lambda field: not field.required))


def _model_fields(model: type[pydantic.BaseModel]) -> Iterator[FieldShape]:
    for name, info in model.model_fields.items():
        yield FieldShape(
            info.alias or name,
            shape_of(info.annotation),
            info.is_required(),
            _nullable(info.annotation),
        )


def _dict_fields(record: Any) -> Iterator[FieldShape]:
    hints = typing_extensions.get_type_hints(record, include_extras=True)
    for name, hint in hints.items():
        # Annotations that are text at run time hide `Required` from the class itself.
        origin = get_origin(hint)
        required = origin in _REQUIRED or (
            name in record.__required_keys__ and origin not in _NOT_REQUIRED
        )
        yield FieldShape(_alias(hint) or name, shape_of(hint), required, _nullable(hint))


def _alias(hint: Any) -> str | None:
    """The wire name that an SDK annotation gives a field, if it differs."""
    while get_origin(hint) in (*_REQUIRED, *_NOT_REQUIRED):
        hint = get_args(hint)[0]
    if get_origin(hint) is not Annotated:
        return None
    aliases = (getattr(note, "alias", None) for note in get_args(hint)[1:])
    return next((alias for alias in aliases if isinstance(alias, str)), None)


def _nullable(hint: Any) -> bool:
    hint = _bare(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return any(_nullable(member) for member in get_args(hint))
    return hint is type(None)
