"""Partial decoding of JSON: values that are not read keep their bytes."""

from __future__ import annotations

import re
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
    """The members of an object; None if `raw` is not one."""
    return _decoded(jsontext.members, raw)


def split_list(raw: Raw | None) -> list[Raw] | None:
    """The elements of an array; None if `raw` is not one."""
    return _decoded(_lists, raw)


def text_of(raw: Raw | None) -> str:
    """A string; empty if `raw` is not one."""
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
    """The part of a message that identifies its conversation."""

    role: Any = None
    content: Raw = Raw()


_messages = jsontext.decoder(list[BareMessage])


def messages_in(raw: Raw | None) -> list[BareMessage]:
    """The messages of a list; none if there is anything else in it."""
    return (None if raw is None else _decoded(_messages, raw)) or []


def holds(raw: Raw | None, word: bytes) -> bool:
    """Whether the text of a value has this word, such as a name in quotation marks: a string that
    quotes it has it with backslashes."""
    # `in` fails first to take bytes for a number, which costs more than the search.
    return raw is not None and bytes(raw).find(word) >= 0


def any_holds(raws: Iterable[Raw], word: bytes) -> bool:
    """Whether the text of one of these values may have this word."""
    return b"".join(raws).find(word) >= 0


def hides_words(text: bytes) -> bool:
    """Whether JSON text has escaped digits, letters or underscores, which no encoder writes: a word
    that is looked for may be spelled so."""
    return _ESCAPED.search(text) is not None


_ESCAPED = re.compile(rb"\\u00(?:3\d|[457]|6[1-9a-fA-F])")


def settled(content: Raw | None, without: bytes = b"") -> bytes:
    """The part of a content that stays the same in all later requests of a conversation: its texts
    and other parts, without cache marks, and equal for a text and a list of one text. Texts that
    begin with `without`, if given, are left out. Long texts count by their beginning and length,
    and only the first of many parts count."""
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
    """The encoded beginning of a value, and its length if there is more."""
    if len(view) <= _TEXT_BYTES:
        return bytes(view)
    return bytes(view[:_TEXT_BYTES]) + b"%d" % len(view)


def join_object(members: Mapping[str, Raw]) -> Raw:
    """An object of these members, unchanged."""
    return Raw(to_json(dict(members)))


def join_list(items: Iterable[Raw]) -> Raw:
    """An array of these elements, unchanged."""
    return Raw(to_json(list(items)))
