"""What is known of a JSON object, and where a type of an SDK has more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

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
from tools.drift.found import Drift, Kind


@dataclass(frozen=True)
class Whole:
    """Carried or reported as a whole: nothing inside it can be new."""


@dataclass(frozen=True)
class Object:
    """An object of which these fields are accounted for, and what is known of some of them."""

    names: frozenset[str]
    inside: Mapping[str, Known] = field(default_factory=dict)


@dataclass(frozen=True)
class Tagged:
    """Objects told apart by `type`; `prefixes` are beginnings of types that are treated alike."""

    members: Mapping[str, Known]
    prefixes: tuple[str, ...] = ()
    kind: Kind = Kind.MEMBER


@dataclass(frozen=True)
class Vocabulary:
    """A closed set of words."""

    words: frozenset[str]


Known: TypeAlias = Whole | Object | Tagged | Vocabulary
WHOLE = Whole()


def named(names: Iterable[str], **inside: Known) -> Object:
    """An object with these fields, and those that more is known of."""
    return Object(frozenset(names) | inside.keys(), inside)


def compare(shape: Shape, known: Known, where: str) -> Iterator[Drift]:
    """What a type has that is not known; `where` is where it stands."""
    match shape, known:
        case (_, Whole()) | (Scalar(), _):
            return
        case Many(), _:
            yield from compare(shape.item, known, f"{where}[]")
        case Table(), _:
            yield from compare(shape.value, known, f"{where}{{}}")
        case Choice(), _:
            for member in shape.members:
                yield from compare(member, known, where)
        case Words(), Vocabulary():
            for word in shape.values:
                if word not in known.words:
                    yield Drift(where, Kind.WORD.value, str(word), "is in no list of words")
        case Record(), Object():
            yield from _fields(shape, known, where)
        case Record(), Tagged():
            yield from _member(shape, known, where)
        case _:
            yield Drift(where, Kind.MEMBER.value, _name(shape), "is of another kind than is read")


def _fields(record: Record, known: Object, where: str) -> Iterator[Drift]:
    for own in fields_of(record):
        if own.name not in known.names:
            what = f"{record.name}.{own.name}"
            yield Drift(where, Kind.FIELD.value, what, "is in no table of fields")
        elif own.name in known.inside:
            yield from compare(own.shape, known.inside[own.name], f"{where}.{own.name}")


def _member(record: Record, known: Tagged, where: str) -> Iterator[Drift]:
    for tag in tags_of(record):
        inside = known.members.get(tag)
        if inside is not None:
            yield from compare(record, inside, f"{where}<{tag}>")
        elif not tag.startswith(known.prefixes or ("\0",)):
            what = f"{tag} ({record.name})"
            yield Drift(where, known.kind.value, what, "is in no table of types")


def tags_of(record: Record) -> tuple[str, ...]:
    """The words of a record's `type`; its own name if it has none."""
    tag = next((own for own in fields_of(record) if own.name == "type"), None)
    return tuple(map(str, _words(tag))) or (record.name,)


def _words(tag: FieldShape | None) -> tuple[object, ...]:
    return tag.shape.values if tag is not None and isinstance(tag.shape, Words) else ()


def _name(shape: Shape) -> str:
    return shape.name if isinstance(shape, Record) else type(shape).__name__.lower()
