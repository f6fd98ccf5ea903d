"""Frames of either side, as they come and as they go (RFC 6455, 5; RFC 7692)."""

from __future__ import annotations

import os
import zlib

from msgspec import Struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_DATA = (CONTINUATION, TEXT, BINARY)
_OPCODES = frozenset({*_DATA, CLOSE, PING, PONG})
_LAST, _COMPRESSED, _RESERVED = 0x80, 0x40, 0x30

PROTOCOL_ERROR = 1002
NOT_UTF8 = 1007
TOO_BIG = 1009
_CLOSE_CODES = frozenset({*range(1000, 1004), *range(1007, 1015)})
"""Codes of a close frame below 3000 (RFC 6455, 7.4; the registry of close codes)."""

_MOST_CONTROL = 125
_TAIL = b"\x00\x00\xff\xff"
"""What a sender leaves off the end of each compressed message (RFC 7692, 7.2.1)."""


_FEW = 1024
"""Bytes up to which it is quicker to mask them as a number."""
_BLOCK = 32768
"""Bytes that are masked at once, so that they fit the processor's caches; a multiple of a mask's
length."""
_BYTES = int.from_bytes(bytes(range(256)), "big")
_MASKS = [
    (_BYTES ^ int.from_bytes(bytes([key]) * 256, "big")).to_bytes(256, "big") for key in range(256)
]
"""For each byte of a mask, what becomes of each byte that is masked with it."""


class BadFrame(Exception):
    """What came is no frame that may come; `code` is that to close with."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Piece(Struct, frozen=True, gc=False):
    """A piece of a message, as much as came, inflated; or a whole control frame. `opcode` is that
    of the message. `ends_frame` and `ends_message` say that nothing of either is to come."""

    opcode: int
    data: bytes
    ends_frame: bool
    ends_message: bool


class FrameReader:
    """Takes the other side's bytes, cut anywhere, apart into pieces. Messages may have `most` bytes
    once they are inflated; they are only if that was agreed (`compressed`). A client's frames are
    `masked`, a server's are not."""

    __slots__ = (
        "_buffer",
        "_compressed",
        "_inflater",
        "_is_last",
        "_left",
        "_mask",
        "_masked",
        "_message",
        "_most",
        "_opcode",
        "_room",
    )

    def __init__(self, most: int, *, compressed: bool, masked: bool = True) -> None:
        self._most = most
        self._masked = masked
        self._compressed = compressed
        self._buffer = bytearray()
        self._left = -1
        """Bytes to come of the frame under way, -1 if none is."""
        self._opcode = 0
        self._is_last = False
        self._mask = b""
        self._message = 0
        """Opcode of the message under way, 0 if none is."""
        self._inflater: zlib._Decompress | None = None
        """Undoes the message under way, None if it is not compressed."""
        self._room = 0
        """Bytes that it may inflate to yet."""

    def feed(self, data: bytes | bytearray) -> None:
        """Take bytes."""
        self._buffer += data

    def next(self) -> Piece | None:
        """The next piece; None if it has not come yet.

        Raises:
            BadFrame: what comes is none. Nothing can be read after this.
        """
        if self._left < 0 and not self._read_head():
            return None
        buffer = self._buffer
        size = min(self._left, len(buffer))
        if size < self._left and (not size or self._opcode >= CLOSE):
            return None
        if self._masked:
            data = _mixed(buffer[:size], self._mask)
        elif size < _FEW:
            data = bytes(buffer[:size])
        else:
            with memoryview(buffer) as view:
                data = bytes(view[:size])
        del buffer[:size]
        self._left -= size
        ends = not self._left
        if ends:
            self._left = -1
        else:
            turned = size % 4
            self._mask = self._mask[turned:] + self._mask[:turned]
        if self._opcode >= CLOSE:
            if self._opcode == CLOSE:
                _check_close(data)
            return Piece(self._opcode, data, True, True)
        return self._data(data, ends)

    def _data(self, data: bytes, ends: bool) -> Piece:
        opcode, ends_message = self._message, ends and self._is_last
        inflater = self._inflater
        if inflater is not None:
            data = self._inflated(inflater, data)
            if ends_message:
                data += self._inflated(inflater, _TAIL)
        if ends_message:
            self._message, self._inflater = 0, None
        return Piece(opcode, data, ends, ends_message)

    def _inflated(self, inflater: zlib._Decompress, data: bytes) -> bytes:
        try:
            plain = inflater.decompress(data, self._room + 1)
        except zlib.error:
            raise BadFrame(NOT_UTF8, "not compressed as agreed") from None
        self._room -= len(plain)
        if self._room < 0:
            raise BadFrame(TOO_BIG, "message too big")
        return plain

    def _read_head(self) -> bool:
        """Read the head of a frame; False if it is not all there."""
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        first, second = buffer[0], buffer[1]
        opcode, size = first & 0x0F, second & 0x7F
        self._check(first, opcode, size)
        if bool(second & 0x80) != self._masked:
            raise BadFrame(PROTOCOL_ERROR, "only a client's frames are masked, and all of them")
        start = 2
        if size > _MOST_CONTROL:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return False
            size = int.from_bytes(buffer[2:start], "big")
            if size <= (_MOST_CONTROL if start == 4 else 0xFFFF) or size >> 63:
                raise BadFrame(PROTOCOL_ERROR, "a length is not as short as it may be")
        end = start + 4 if self._masked else start
        if len(buffer) < end:
            return False
        self._mask = bytes(buffer[start:end])
        del buffer[:end]
        self._left, self._opcode, self._is_last = size, opcode, bool(first & _LAST)
        if opcode in (TEXT, BINARY):
            self._message, self._room = opcode, self._most
            if first & _COMPRESSED:
                self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        return True

    def _check(self, first: int, opcode: int, size: int) -> None:
        if opcode not in _OPCODES:
            raise BadFrame(PROTOCOL_ERROR, "there is no such opcode")
        begins = opcode in (TEXT, BINARY)
        if first & _RESERVED or (first & _COMPRESSED and not (self._compressed and begins)):
            raise BadFrame(PROTOCOL_ERROR, "a reserved bit is set")
        if opcode >= CLOSE and (not first & _LAST or size > _MOST_CONTROL):
            raise BadFrame(PROTOCOL_ERROR, "a control frame is too large, or not whole")
        if begins and self._message:
            raise BadFrame(PROTOCOL_ERROR, "a message begins within another")
        if opcode == CONTINUATION and not self._message:
            raise BadFrame(PROTOCOL_ERROR, "there is no message to go on with")


def _mixed(data: bytes | bytearray, mask: bytes) -> bytes:
    """Data with its mask, or without it."""
    size = len(data)
    if size < _FEW:
        return _mixed_number(data, mask)
    mixed = bytearray(size)
    _mix_into(mixed, 0, data, mask)
    return bytes(mixed)


def _mixed_number(data: bytes | bytearray, mask: bytes) -> bytes:
    size, number = len(data), int.from_bytes
    key = number((mask * (size // 4 + 1))[:size], "little")
    return (number(data, "little") ^ key).to_bytes(size, "little")


def _mix_into(mixed: bytearray, start: int, data: bytes | bytearray, mask: bytes) -> None:
    """Put data with its mask, or without it, into `mixed` from `start` on, to its end."""
    size = len(data)
    for at in range(0, size, _BLOCK):
        end = min(at + _BLOCK, size)
        for place, byte in enumerate(mask):
            part = data[at + place : end : 4].translate(_MASKS[byte])
            mixed[start + at + place : start + end : 4] = part


def _check_close(payload: bytes) -> None:
    if not payload:
        return
    code = int.from_bytes(payload[:2], "big")
    if len(payload) == 1 or not (code in _CLOSE_CODES or 3000 <= code < 5000):
        raise BadFrame(PROTOCOL_ERROR, "a close frame has no code that may be sent")
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        raise BadFrame(NOT_UTF8, "a reason is not UTF-8") from None


def text_frame(data: bytes) -> bytes:
    """A text message in one frame. `data` is in UTF-8."""
    size = len(data)
    if size < 126:
        return b"\x81%c%b" % (size, data)
    if size < 65536:
        return b"\x81\x7e%c%c%b" % (size >> 8, size & 0xFF, data)
    return b"\x81\x7f%b%b" % (size.to_bytes(8, "big"), data)


def control_frame(opcode: int, payload: bytes = b"") -> bytes:
    """A control frame; of a longer payload than it may have, the beginning."""
    payload = payload[:_MOST_CONTROL]
    return b"%c%c%b" % (_LAST | opcode, len(payload), payload)


def masked_frame(opcode: int, data: bytes, *, last: bool = True) -> bytes | bytearray:
    """A client's frame."""
    size, mask = len(data), os.urandom(4)
    first = (_LAST if last else 0) | opcode
    if size < 126:
        head = b"%c%c" % (first, 0x80 | size)
    elif size < 65536:
        head = b"%c\xfe%b" % (first, size.to_bytes(2, "big"))
    else:
        head = b"%c\xff%b" % (first, size.to_bytes(8, "big"))
    if size < _FEW:
        return b"%b%b%b" % (head, mask, _mixed_number(data, mask))
    frame = bytearray(head + mask + bytes(size))
    _mix_into(frame, len(head) + 4, data, mask)
    return frame
