"""Decoders of content codings, which yield bounded pieces."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

_PIECE = 64 * 1024
"""Most bytes in one piece, so that a small body that unpacks into a huge one takes no memory."""

_AUTO = zlib.MAX_WBITS | 32
_GZIP = zlib.MAX_WBITS | 16
_RAW = -zlib.MAX_WBITS


_FREE_MEMBERS = 1000
_LEAST_IN_MEMBER = 64
"""A body may have so many members (or frames), and one more for each so many bytes that they unpack
into: the shortest has two bytes, and takes as long to begin as kilobytes do to unpack."""


class BadCoding(Exception):
    """A body is not in the content coding that its header names. Says what is wrong."""


class CutOff(BadCoding):
    """A coded body ends before the end of its coding."""


class Unpacker(ABC):
    """The decoder of one body. `_stream` is there within a part of it, such as a member or a
    frame."""

    __slots__ = ("_members", "_stream", "_unpacked")

    def __init__(self) -> None:
        self._stream: Any = None
        self._members = self._unpacked = 0

    def _begin(self, stream: Any) -> None:
        """Begin the next member.

        Raises:
            BadCoding: there are too many for what was in them.
        """
        self._stream = stream
        self._members += 1
        if self._members > _FREE_MEMBERS + self._unpacked // _LEAST_IN_MEMBER:
            raise BadCoding("the compressed body has too many members")

    @abstractmethod
    def feed(self, data: bytes) -> Iterator[bytes]:
        """The pieces that `data` unpacks into.

        Raises:
            BadCoding: the data are not in the coding of the header.
        """

    def finish(self) -> None:
        """Check that the coding reached its end.

        Raises:
            CutOff: it did not.
        """
        if self._stream is not None:
            raise CutOff("the compressed body ended before its end")


class Inflater(Unpacker):
    """Decodes `gzip`, and `deflate` with or without its zlib wrapper unless `gzip_only` is set.
    Several members after one another are one body (RFC 1952, 2.2)."""

    __slots__ = ("_window",)

    def __init__(self, *, gzip_only: bool = False) -> None:
        super().__init__()
        self._window: Callable[[bytes], int] = _gzip if gzip_only else _guessed

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See `Unpacker.feed`."""
        # In pieces as well: what zlib leaves of its input it copies each time.
        for start in range(0, len(data), _PIECE):
            yield from self._feed(data[start : start + _PIECE])

    def _feed(self, data: bytes) -> Iterator[bytes]:
        try:
            while data:
                if self._stream is None:
                    self._begin(zlib.decompressobj(self._window(data)))
                piece = self._stream.decompress(data, _PIECE)
                data = self._stream.unconsumed_tail
                if piece:
                    self._unpacked += len(piece)
                    yield piece
                if self._stream.eof:
                    data, self._stream = self._stream.unused_data, None
        except zlib.error as error:
            raise BadCoding("the content coding could not be decoded") from error


_LONGEST_WINDOW: Final = 23
"""Binary logarithm of the bytes that a frame may refer back to (RFC 9659)."""


def _find_zstd() -> Any:
    """The module, which Python has from 3.14 on; None if there is none."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


_zstd = _find_zstd()

CODINGS: Final = ("gzip", "deflate", "zstd") if _zstd else ("gzip", "deflate")
"""Content codings that are decoded."""


class Zstd(Unpacker):
    """Decodes `zstd` (RFC 8878). Several frames after one another are one body."""

    __slots__ = ()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See `Unpacker.feed`."""
        options = {_zstd.DecompressionParameter.window_log_max: _LONGEST_WINDOW}
        try:
            while data or self._stream is not None:
                if self._stream is None:
                    self._begin(_zstd.ZstdDecompressor(options=options))
                piece = self._stream.decompress(data, _PIECE)
                data = b""
                if piece:
                    self._unpacked += len(piece)
                    yield piece
                if self._stream.eof:
                    data, self._stream = self._stream.unused_data, None
                elif self._stream.needs_input:
                    return
        except _zstd.ZstdError as error:
            raise BadCoding("the content coding could not be decoded") from error


def _gzip(data: bytes) -> int:
    return _GZIP


def _guessed(data: bytes) -> int:
    """The window for a member that begins with `data`: wrapped, or raw deflate."""
    is_gzip = data[0] == 0x1F
    is_zlib = data[0] & 0x0F == 8 and (len(data) < 2 or (data[0] * 256 + data[1]) % 31 == 0)
    return _AUTO if is_gzip or is_zlib else _RAW


def unpacker_for(content_encoding: str, *, exact: bool = False) -> Unpacker | None:
    """The decoder for a `Content-Encoding`; None if there is nothing to decode. Unless it is to be
    `exact`, either of gzip and deflate may be the other.

    Raises:
        BadCoding: an unsupported coding.
    """
    codings = [coding.strip().lower() for coding in content_encoding.split(",")]
    codings = [coding for coding in codings if coding not in ("", "identity")]
    if not codings:
        return None
    coding = codings[0].removeprefix("x-") if len(codings) == 1 else ""
    if coding in CODINGS:
        return Zstd() if coding == "zstd" else Inflater(gzip_only=exact and coding == "gzip")
    raise BadCoding("an unsupported content coding")
