"""Compressed messages of a client, undone within bounds (RFC 7692)."""

from __future__ import annotations

import zlib

from wsproto.extensions import Extension
from wsproto.frame_protocol import CloseReason, FrameDecoder, FrameProtocol, Opcode, RsvBits

_TAIL = b"\x00\x00\xff\xff"
"""What a sender leaves off the end of each message (RFC 7692, 7.2.1)."""


class Inflation(Extension):
    """Inflates messages of at most `most` bytes, each by itself. What is sent stays as it is."""

    name = "permessage-deflate"

    __slots__ = ("_inflater", "_is_data", "_left", "_most", "_within")

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = 0
        self._inflater: zlib._Decompress | None = None
        """Undoes the message under way, None if that is not compressed."""
        self._within = False
        """Whether a message is under way."""
        self._is_data = False

    def enabled(self) -> bool:
        """It is, where there is one."""
        return True

    def offer(self) -> bool | str:
        """Nothing: this is the server's side."""
        return False

    def frame_inbound_header(
        self,
        proto: FrameDecoder | FrameProtocol,
        opcode: Opcode,
        rsv: RsvBits,
        payload_length: int,
    ) -> CloseReason | RsvBits:
        """A frame begins. The bit of compression stands in the first of a message only."""
        self._is_data = not opcode.iscontrol()
        if rsv.rsv1 and (not self._is_data or opcode is Opcode.CONTINUATION):
            return CloseReason.PROTOCOL_ERROR
        if self._is_data and not self._within:
            self._within = True
            self._left = self._most
            self._inflater = zlib.decompressobj(-zlib.MAX_WBITS) if rsv.rsv1 else None
        return RsvBits(True, False, False)

    def frame_inbound_payload_data(
        self, proto: FrameDecoder | FrameProtocol, data: bytes
    ) -> bytes | CloseReason:
        """A piece of a frame."""
        inflater = self._inflater if self._is_data else None
        return data if inflater is None else self._inflated(inflater, data)

    def frame_inbound_complete(
        self, proto: FrameDecoder | FrameProtocol, fin: bool
    ) -> bytes | CloseReason | None:
        """A frame is over."""
        if not self._is_data or not fin:
            return None
        self._within = False
        inflater, self._inflater = self._inflater, None
        return None if inflater is None else self._inflated(inflater, _TAIL)

    def _inflated(self, inflater: zlib._Decompress, data: bytes) -> bytes | CloseReason:
        try:
            plain = inflater.decompress(data, self._left + 1)
        except zlib.error:
            return CloseReason.INVALID_FRAME_PAYLOAD_DATA
        self._left -= len(plain)
        return plain if self._left >= 0 else CloseReason.MESSAGE_TOO_BIG
