"""Attribution of a request besides its key: the end user and tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from dragoman.config import UsageSettings
from dragoman.edge.record import Record
from dragoman.printable import printable
from dragoman.protocols.base import Codec

MOST_TAGS = 8
_LONGEST_USER = 128
_LONGEST_TAG = 64


class Attributor:
    """Sets the end user and the tags of a record. The first name of an end user counts: of the
    configured headers in their order, then of the body."""

    __slots__ = ("_headers", "_tag_headers", "_user_headers")

    def __init__(self, settings: UsageSettings) -> None:
        self._user_headers = tuple(name.lower().encode() for name in settings.user_headers)
        self._tag_headers = tuple(name.lower().encode() for name in settings.tag_headers)
        self._headers = frozenset((*self._user_headers, *self._tag_headers))

    def attribute(
        self,
        record: Record,
        codec: Codec,
        headers: Mapping[bytes, bytes],
        members: Mapping[str, msgspec.Raw],
    ) -> None:
        """Set the end user and the tags of a request with these headers, in lower case, and
        top-level members."""
        endpoint = codec.endpoint
        if endpoint.attributed_by.isdisjoint(members) and self._headers.isdisjoint(headers):
            return
        user, tags = endpoint.attribution(members)
        for name in self._user_headers:
            if name in headers and (text := _text(headers[name]).strip()):
                user = text
                break
        if user:
            record.user = _clean(user, _LONGEST_USER)
        for name in self._tag_headers:
            if name in headers:
                tags = (*_text(headers[name]).split(","), *tags)
        if tags:
            record.tags = _joined(tags)


def _text(value: bytes) -> str:
    """The text of a header: clients send UTF-8, or what the older standard has."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _joined(tags: Iterable[str]) -> str:
    """Tags as one text, the same whatever their order: the first `MOST_TAGS` of them."""
    clean = dict.fromkeys(filter(None, (_clean(tag, _LONGEST_TAG) for tag in tags)))
    return ",".join(sorted(list(clean)[:MOST_TAGS]))


def _clean(text: str, longest: int) -> str:
    return printable(text.strip()[:longest]).strip()
