"""Whether a JSON value is of an SDK's type, and obeys the rules its service adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.losses.shapes import Choice, Many, Record, Scalar, Shape, Table, Words, fields_of

_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}


def problems(shape: Shape, value: Any, path: str = "") -> Iterator[str]:
    """What is wrong with a value, each with its path; nothing for a value of the shape."""
    match shape:
        case Scalar(kind="any"):
            pass
        case Scalar():
            if type(value) not in _TYPES[shape.kind]:
                yield f"{path}: {value!r} is not a {shape.kind}"
        case Words():
            if value not in shape.values:
                yield f"{path}: {value!r} is none of {shape.values}"
        case Many():
            if type(value) is list:
                for number, item in enumerate(value):
                    yield from problems(shape.item, item, f"{path}[{number}]")
            else:
                yield f"{path}: {value!r} is not a list"
        case Table():
            if type(value) is dict:
                for name, item in value.items():
                    yield from problems(shape.value, item, f"{path}.{name}")
            else:
                yield f"{path}: {value!r} is not an object"
        case Choice():
            yield from _choice(shape, value, path)
        case Record():
            yield from _record(shape, value, path)


def _choice(shape: Choice, value: Any, path: str) -> Iterator[str]:
    """The problems with the member that comes nearest."""
    found = [list(problems(member, value, path)) for member in shape.members]
    nearest = min(found, key=lambda member: (len(member), max(map(len, member), default=0)))
    yield from nearest


def _record(record: Record, value: Any, path: str) -> Iterator[str]:
    if type(value) is not dict:
        yield f"{path}: {value!r} is not an object"
        return
    known = {field.name: field for field in fields_of(record)}
    for name, item in value.items():
        field = known.get(name)
        if field is None:
            yield f"{path}.{name}: no field of {record.name}"
        elif item is not None or not field.nullable:
            yield from problems(field.shape, item, f"{path}.{name}")
    for name, field in known.items():
        if field.required and name not in value:
            yield f"{path}.{name}: missing in {record.name}"
