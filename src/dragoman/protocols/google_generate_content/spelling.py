"""Names of members: in camelCase, or in snake_case, which the service takes at every level as well
(proto3 JSON). What is read has the former, in paths too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Raw

from dragoman.canonical.errors import InvalidRequest
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.limits import whole
from dragoman.protocols.raw import join_object, split_object, text_of
from dragoman.protocols.reading import Shape


@lru_cache(maxsize=1024)
def camel(name: str) -> str:
    """A name in camelCase."""
    first, *rest = name.split("_")
    return first + "".join([word[:1].upper() + word[1:] for word in rest])


@lru_cache(maxsize=256)
def snake(name: str) -> str:
    """A name of camelCase in snake_case."""
    return "".join(["_" + letter.lower() if letter.isupper() else letter for letter in name])


def both(*names: str) -> frozenset[str]:
    """Names in both spellings."""
    return frozenset({*names, *map(snake, names)})


def renamed(value: JsonObject) -> JsonObject:
    """An object with its members' names in camelCase.

    Raises:
        InvalidRequest: a member is given twice.
    """
    if not any("_" in name for name in value):
        return value
    written: JsonObject = {}
    for name, inner in value.items():
        spelled = camel(name)
        if spelled in written:
            raise twice(spelled, name)
        written[spelled] = inner
    return written


def twice(one: str, other: str) -> InvalidRequest:
    """The error for a member in both spellings: which of them counts is not for us to guess."""
    return InvalidRequest.at(other, f"is given twice, with {one}")


class Message(Shape, rename="camel", omit_defaults=True):
    """An object of the protocol, whose members may have either spelling."""

    @classmethod
    def adapted(cls, value: JsonObject) -> JsonObject:
        """The object in camelCase."""
        return renamed(value)


def member(members: Mapping[str, Raw], name: str) -> Raw | None:
    """A member in either spelling."""
    found = members.get(name)
    return members.get(snake(name)) if found is None else found


def inner(members: Mapping[str, Raw], *names: str) -> Raw | None:
    """A member of a member, in either spelling of each."""
    *outer, last = names
    for name in outer:
        below = split_object(member(members, name))
        if below is None:
            return None
        members = below
    return member(members, last)


def with_inner(members: Mapping[str, Raw], outer: str, name: str, value: Raw) -> Mapping[str, Raw]:
    """The members with the member `name` of `outer` replaced; other values byte for byte."""
    at = outer if outer in members or snake(outer) not in members else snake(outer)
    below = split_object(members.get(at)) or {}
    inside = name if name in below or snake(name) not in below else snake(name)
    return {**members, at: join_object({**below, inside: value})}


def number(raw: Raw | None) -> int | None:
    """A number, or the one whose digits a text has, as proto3 JSON allows; None for anything
    else."""
    if raw is None:
        return None
    return whole(raw) or whole(Raw(text_of(raw).encode(errors="replace")))


def check_once(members: Mapping[str, Raw], names: Iterable[str]) -> None:
    """Refuse members that are given in both spellings.

    Raises:
        InvalidRequest: naming one.
    """
    if not any("_" in name for name in members):
        return
    for name in names:
        other = snake(name)
        if other != name and other in members and name in members:
            raise twice(name, other)
