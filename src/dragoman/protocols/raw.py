"""JSON taken apart only as far as needed: values that are not looked at keep their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Raw, Struct

from dragoman import jsontext
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json

_T = TypeVar("_T")
_lists = jsontext.decoder(list[Raw])
_texts = jsontext.decoder(str)


def split_object(raw: Raw | None) -> dict[str, Raw] | None:
    """The members of an object; None if `raw` is no object."""
    return _decoded(jsontext.members, raw)


def split_list(raw: Raw | None) -> list[Raw] | None:
    """The elements of an array; None if `raw` is no array."""
    return _decoded(_lists, raw)


def text_of(raw: Raw | None) -> str:
    """A string; empty if `raw` is none."""
    return _decoded(_texts, raw) or ""


def _decoded(decode: Callable[[Raw], _T], raw: Raw | None) -> _T | None:
    if raw is None:
        return None
    try:
        return decode(raw)
    except JsonError:
        return None


def is_text(raw: Raw) -> bool:
    """Whether a value is a string."""
    return bytes(memoryview(raw)[:1]) == b'"'


_TEXT_BYTES = 8 * 1024
_MOST_PARTS = 100


class BareMessage(Struct):
    """What counts of a message for telling conversations apart."""

    role: Any = None
    content: Raw = Raw()


_messages = jsontext.decoder(list[BareMessage])


def messages_in(raw: Raw | None) -> list[BareMessage]:
    """The messages of a list; none if there is anything else in it."""
    return (None if raw is None else _decoded(_messages, raw)) or []


def settled(content: Raw | None, without: bytes = b"") -> bytes:
    """What stays the same of a content in all later requests of a conversation: its texts and other
    parts, but neither whether it is written as a text or as a list of one, nor the marks of a
    cache. Texts that begin with `without`, if that is given, are left out. Of long texts it is
    their beginning and length, of many parts the first ones.
    """
    view = memoryview(content or b"")
    if not view:
        return b""
    if view[0] == _QUOTE:
        return _beginning(view)
    pieces = []
    for part in (split_list(content) or [])[:_MOST_PARTS]:
        fields = split_object(part) or {}
        text = fields.get("text")
        if text is None:
            values = (raw for name, raw in fields.items() if name != "cache_control")
            pieces += [_beginning(memoryview(raw)) for raw in values]
            continue
        piece = _beginning(memoryview(text))
        if not without or not piece.startswith(without, 1):
            pieces.append(piece)
    return b"\0".join(pieces)


_QUOTE = 0x22


def _beginning(view: memoryview) -> bytes:
    """The beginning of a value, as it is written, and its length if there is more."""
    if len(view) <= _TEXT_BYTES:
        return bytes(view)
    return bytes(view[:_TEXT_BYTES]) + b"%d" % len(view)


def join_object(members: Mapping[str, Raw]) -> Raw:
    """An object of these members, each as it is."""
    return Raw(to_json(dict(members)))


def join_list(items: Iterable[Raw]) -> Raw:
    """An array of these elements, each as it is."""
    return Raw(to_json(list(items)))
