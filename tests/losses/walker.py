"""Walks a shape and yields, for every field and union member in it, a document that contains it.

Everything around the field under test is as small as the types allow, so what arrives at the
other side (or does not) is due to that field.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from tests.losses import values
from tests.losses.shapes import (
    Choice,
    FieldShape,
    Many,
    Record,
    Scalar,
    Shape,
    Table,
    Words,
    fields_of,
)

Path: TypeAlias = tuple[str | int, ...]


class Absent(Enum):
    """Stands for a field that is left out."""

    ABSENT = 0


ABSENT = Absent.ABSENT


@dataclass(frozen=True)
class Probe:
    """One value under test, inside a document.

    `path` leads from `document` to the value. `needle` is the text by which it is recognised
    at the other side; without one, `rivals` are the values (or `ABSENT`) that have to make a
    difference. `label` names the SDK's type and field, `turns` the union members on the way.
    `second` is the other value of a boolean, one of which asks for nothing.
    """

    document: Any
    path: Path
    label: str
    needle: str | None = None
    rivals: tuple[Any, ...] = ()
    second: tuple[Any, ...] = ()
    turns: tuple[str, ...] = ()

    @property
    def value(self) -> Any:
        """The value under test."""
        found = self.document
        for step in self.path:
            found = found[step]
        return found

    def with_value(self, value: Any) -> Any:
        """The document with another value at the same place, or with none."""
        return _changed(self.document, self.path, value)


def _changed(document: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    step, *rest = path
    copy = document.copy()
    if rest:
        copy[step] = _changed(document[step], tuple(rest), value)
    elif value is ABSENT:
        del copy[step]
    else:
        copy[step] = value
    return copy


def smallest(shape: Shape, owner: values.Owner) -> Any:
    """A valid value of the shape with as little in it as possible."""
    known = values.known(owner)
    if known is not None:
        return known[0].value
    match shape:
        case Scalar():
            return values.samples(owner, shape.kind)[0].filler
        case Words():
            return "completed" if "completed" in shape.values else shape.values[0]
        case Many():
            return [] if owner.name in values.OFTEN_EMPTY else [smallest(shape.item, owner)]
        case Table():
            return {values.KEY: smallest(shape.value, owner)}
        case Choice():
            return smallest(shape.members[0], owner)
        case Record():
            return smallest_record(shape, owner)


def smallest_record(record: Record, owner: values.Owner) -> dict[str, Any]:
    """The required fields of a record, and what makes it meaningful."""
    companions = values.COMPANIONS.get(record.name, {})
    document: dict[str, Any] = {}
    for field in fields_of(record):
        # Records of different SDKs may have the same name.
        if field.name in companions:
            document[field.name] = companions[field.name]
        elif field.required:
            document[field.name] = smallest(field.shape, owner.field(record.name, field.name))
    return document


def walk(
    shape: Shape, owner: values.Owner, inside: frozenset[Any] = frozenset()
) -> Iterator[Probe]:
    """All probes of a shape; types that contain themselves are entered once."""
    known = values.known(owner)
    if known is not None:
        for sample in known:
            yield Probe(sample.value, (), owner.label, sample.needle, sample.rivals)
        return
    match shape:
        case Scalar():
            yield from _scalars(shape, owner)
        case Words():
            for word in shape.values:
                rivals = tuple(other for other in shape.values if other != word)
                yield Probe(word, (), f"{owner.label}={word}", rivals=rivals)
        case Many():
            for probe in walk(shape.item, owner, inside):
                yield _at(probe, [probe.document], 0)
        case Table():
            for probe in walk(shape.value, owner, inside):
                yield _at(probe, {values.KEY: probe.document}, values.KEY)
        case Choice():
            several = sum(isinstance(member, Record) for member in shape.members) > 1
            for member in shape.members:
                for probe in walk(member, owner, inside):
                    named = several and isinstance(member, Record)
                    yield _turn(probe, member.name) if named else probe  # type: ignore[union-attr]
        case Record():
            if shape.type not in inside:
                yield from _record(shape, owner, inside | {shape.type})


def _scalars(shape: Scalar, owner: values.Owner) -> Iterator[Probe]:
    for sample in values.samples(owner, shape.kind):
        second = (False,) if shape.kind == "bool" else ()
        yield Probe(sample.value, (), owner.label, sample.needle, sample.rivals, second)


def _record(record: Record, owner: values.Owner, inside: frozenset[Any]) -> Iterator[Probe]:
    base = smallest_record(record, owner)
    fields = fields_of(record)
    tags = [field for field in fields if _is_tag(field)]
    if len(tags) == sum(field.required for field in fields) and (tags or not fields):
        yield Probe(base, (), record.name, rivals=(ABSENT,))
    for field in fields_of(record):
        if _is_tag(field):
            continue
        rivals = values.excluded(record.name, field.name)
        around = {name: value for name, value in base.items() if name not in rivals}
        for probe in walk(field.shape, owner.field(record.name, field.name), inside):
            placed = _at(probe, {**around, field.name: probe.document}, field.name)
            if len(placed.path) == 1 and not field.required:
                placed = replace(placed, rivals=(ABSENT, *placed.rivals))
            yield placed


def _is_tag(field: FieldShape) -> bool:
    """Whether a field can only say one thing, and has to."""
    return field.required and isinstance(field.shape, Words) and len(field.shape.values) == 1


def _at(probe: Probe, document: Any, step: str | int) -> Probe:
    return replace(probe, document=document, path=(step, *probe.path))


def _turn(probe: Probe, name: str) -> Probe:
    return replace(probe, turns=(name, *probe.turns))


def path_text(path: Path) -> str:
    """A path as the ledger writes it: `messages[0].content[1].text`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
