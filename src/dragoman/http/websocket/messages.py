"""Payloads of messages, and text frames of the server (RFC 6455, 5; RFC 7692, 7.2)."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from io import BytesIO

from websockets.frames import Frame, Opcode

_PIECE = 64 * 1024
_TAIL = b"\x00\x00\xff\xff"
"""What a sender leaves off the end of each compressed message (RFC 7692, 7.2.1)."""


_utf8 = codecs.getincrementaldecoder("utf-8")


class BadCompression(Exception):
    """The payload of a message is not compressed as agreed."""


def pieces_of(payload: bytes, *, is_compressed: bool, is_text: bool) -> Iterator[bytes]:
    """The payload of a message in pieces of 64 KB at most, inflated, and checked to be UTF-8.

    Raises:
        BadCompression: it cannot be inflated.
        UnicodeDecodeError: it is text, and not UTF-8.
    """
    decoder = _utf8()
    for piece in _inflated(payload) if is_compressed else _slices(payload):
        if is_text:
            decoder.decode(piece)
        yield piece
    decoder.decode(b"", final=True)


def _slices(data: bytes) -> Iterator[bytes]:
    source = BytesIO(data)
    while piece := source.read(_PIECE):
        yield piece


def _inflated(data: bytes) -> Iterator[bytes]:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        # In pieces as well: what zlib leaves of its input it copies each time.
        for left in _slices(data + _TAIL):
            while True:
                piece = stream.decompress(left, _PIECE)
                left = stream.unconsumed_tail
                if piece:
                    yield piece
                if not left and len(piece) < _PIECE:
                    break
    except zlib.error:
        raise BadCompression from None


def text_frame(data: bytes) -> bytes:
    """A text message in one frame. `data` is in UTF-8. As `Frame.serialize`, in a quarter of the
    time where messages are short."""
    size = len(data)
    if size < 126:
        return b"\x81%c%b" % (size, data)
    if size < 65536:
        return b"\x81\x7e%c%c%b" % (size >> 8, size & 0xFF, data)
    return b"\x81\x7f%b%b" % (size.to_bytes(8, "big"), data)


def control_frame(opcode: Opcode, payload: bytes = b"") -> bytes:
    """A control frame of the server; of a longer payload than it may have, the beginning."""
    return Frame(opcode, payload[:125]).serialize(mask=False)
