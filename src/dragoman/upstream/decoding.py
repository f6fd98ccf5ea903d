"""Content codings that the standard library can undo.

Requests ask for `identity`, but some upstreams compress all the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from dragoman.upstream.errors import BadAnswer, Truncated

_PIECE = 64 * 1024
"""Most bytes in one piece, so that a small answer that unpacks into a huge one takes no memory."""

_AUTO = zlib.MAX_WBITS | 32
_RAW = -zlib.MAX_WBITS


class Inflater:
    """Undoes `gzip` and `deflate`, the latter with or without its zlib wrapper."""

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream: zlib._Decompress | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The pieces that `data` unpacks into.

        Raises:
            BadAnswer: the data are not what the answer's header says.
        """
        try:
            while data:
                if self._stream is None:
                    self._stream = zlib.decompressobj(_AUTO if _is_wrapped(data) else _RAW)
                piece = self._stream.decompress(data, _PIECE)
                data = self._stream.unconsumed_tail
                if piece:
                    yield piece
                if self._stream.eof:
                    # A further member of a gzip file may follow (RFC 1952, 2.2).
                    data, self._stream = self._stream.unused_data, None
        except zlib.error as error:
            raise BadAnswer("the answer's content coding could not be undone") from error

    def finish(self) -> None:
        """Check that the coding reached its end.

        Raises:
            Truncated: it did not.
        """
        if self._stream is not None:
            raise Truncated("the compressed answer ended before its end")


def _is_wrapped(data: bytes) -> bool:
    is_gzip = data[0] == 0x1F
    is_zlib = data[0] & 0x0F == 8 and (len(data) < 2 or (data[0] * 256 + data[1]) % 31 == 0)
    return is_gzip or is_zlib


def inflater_for(content_encoding: str) -> Inflater | None:
    """What undoes a `Content-Encoding`; None where nothing is to be undone.

    Raises:
        BadAnswer: a coding that the request did not ask for and that is not known here.
    """
    codings = [coding.strip().lower() for coding in content_encoding.split(",")]
    codings = [coding for coding in codings if coding not in ("", "identity")]
    if not codings:
        return None
    if len(codings) == 1 and codings[0] in ("gzip", "x-gzip", "deflate"):
        return Inflater()
    raise BadAnswer("the answer has a content coding that was not asked for")
