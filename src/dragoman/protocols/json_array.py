"""A streamed answer as one JSON array."""

from __future__ import annotations

from dragoman.protocols.base import StreamForm
from dragoman.sse import Decoder

_BETWEEN = b"\n,\n"


class JsonArray:
    """The framing of a stream whose events are the elements of an array."""

    __slots__ = ("_begun", "_decoder")

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._begun = False

    def write(self, data: bytes) -> bytes:
        """The elements for whole events; white space for bytes without events, such as a
        keepalive."""
        elements = _BETWEEN.join(frame.data for frame in self._decoder.feed(data))
        if not elements:
            return b"\n" if data else b""
        begun, self._begun = self._begun, True
        return (_BETWEEN if begun else b"[") + elements

    def end(self) -> bytes:
        """The end of the array."""
        return b"]" if self._begun else b"[]"


ARRAY = StreamForm(b"application/json", JsonArray)
"""Streams as one array."""
