"""Event streams of AWS (`application/vnd.amazon.eventstream`): an incremental decoder of binary
messages.

A message is, in big-endian order: its length and that of its headers, the CRC-32 of these eight
bytes, headers, payload, and the CRC-32 of all before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from struct import Struct as Layout
from struct import error as layout_error
from typing import TypeAlias
from zlib import crc32

MEDIA = "application/vnd.amazon.eventstream"

_PRELUDE, _SUM, _SHORT = Layout(">III"), Layout(">I"), Layout(">H")
_AROUND = _PRELUDE.size + _SUM.size
"""Bytes of a message beside headers and payload."""
_MOST_HEADERS = 128 * 1024
_MOST = 16 * 1024 * 1024 + _MOST_HEADERS

_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""The lengths of the values of header types that have always the same: booleans, integers of one to
eight bytes, timestamp and UUID."""
_BYTES, _TEXT = 6, 7


Message: TypeAlias = tuple[Mapping[str, str], bytes]
"""One message: its headers that are texts, by name, and its payload. Messages with the same bytes
of headers commonly have the same object for them."""


class Decoder:
    """Turns byte chunks, cut anywhere, into messages. `damage` says what is wrong with the bytes;
    nothing that comes after is read."""

    __slots__ = ("_needed", "_pending", "_size", "damage")

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._size = 0
        self._needed = _PRELUDE.size
        """Bytes without which there is nothing to read."""
        self.damage = ""

    def feed(self, chunk: bytes) -> list[Message]:
        """Take the next bytes; return the messages they complete."""
        if self.damage:
            return []
        if self._pending:
            self._pending.append(chunk)
            self._size += len(chunk)
            if self._size < self._needed:
                return []
            chunk = b"".join(self._pending)
            self._pending.clear()
        messages: list[Message] = []
        start, end = 0, len(chunk)
        self._needed = _PRELUDE.size
        while end - start >= _PRELUDE.size:
            total, headers, checked = _PRELUDE.unpack_from(chunk, start)
            if checked != crc32(chunk[start : start + 8]):
                self.damage = "the checksum of a message's lengths is wrong"
                return messages
            if not _AROUND + headers <= total <= _MOST or headers > _MOST_HEADERS:
                self.damage = "a message has impossible lengths"
                return messages
            if end - start < total:
                self._needed = total
                break
            last = start + total - _SUM.size
            if _SUM.unpack_from(chunk, last)[0] != crc32(chunk[start:last]):
                self.damage = "the checksum of a message is wrong"
                return messages
            payload = start + _PRELUDE.size + headers
            try:
                texts = _texts(chunk[start + _PRELUDE.size : payload])
            except (IndexError, layout_error, UnicodeDecodeError, KeyError):
                self.damage = "the headers of a message cannot be read"
                return messages
            messages.append((texts, chunk[payload:last]))
            start += total
        if start < end:
            self._pending.append(chunk[start:] if start else chunk)
            self._size = end - start
        return messages

    def finish(self) -> None:
        """The bytes are over."""
        if self._pending and not self.damage:
            self.damage = "it ends within a message"


@lru_cache(maxsize=64)
def _texts(raw: bytes) -> Mapping[str, str]:
    """The headers that are texts. Those of one stream are nearly always the same bytes."""
    return dict(_text_headers(raw))


def _text_headers(raw: bytes) -> Iterator[tuple[str, str]]:
    at, end = 0, len(raw)
    while at < end:
        named = at + 1 + raw[at]
        kind, value = raw[named], named + 1
        if kind in (_BYTES, _TEXT):
            length = _SHORT.unpack_from(raw, value)[0]
            value += _SHORT.size
        else:
            length = _FIXED[kind]
        after = value + length
        if after > end:
            raise IndexError
        if kind == _TEXT:
            yield raw[at + 1 : named].decode(), raw[value:after].decode()
        at = after
