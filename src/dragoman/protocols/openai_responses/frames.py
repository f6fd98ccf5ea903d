"""The frames of a stream (types: response_stream_event.py), and texts in progress.

In a stream a text is stored as the JSON that was sent, so that nothing is encoded twice and memory
is bounded by the answer. A long one is not copied for each of the four events that repeat it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Raw

from dragoman import jsontext
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.long_texts import LONG, placeholder
from dragoman.sse import escape

_EVENT = b'event: %b\ndata: {"type":"%b","sequence_number":%d%b%b}\n\n'
_encode_text = msgspec.json.Encoder().encode
_decode_text = jsontext.decoder(str)

_NOWHERE: JsonObject = {}

JsonText: TypeAlias = str | Raw
"""A text inside a JSON object, possibly encoded already, or the placeholder of a long one."""


class Frames:
    """The renderer of a stream's events, numbered from zero; `is_silent`: of an answer that is not
    streamed and has none. `long_texts` are the texts of the placeholders in them."""

    __slots__ = ("is_silent", "long_texts", "number")

    def __init__(self, is_silent: bool = False) -> None:
        self.is_silent = is_silent
        self.number = 0
        self.long_texts: list[bytes] = []

    def repeated(self, text: str | bytearray) -> JsonText:
        """A text for the events that repeat it: the text itself, or its JSON without quotes."""
        if len(text) < LONG or self.is_silent:
            return text if isinstance(text, str) else Raw(_quoted(text))
        quoted = escape(_encode_text(text)) if isinstance(text, str) else _quoted(text)
        self.long_texts.append(quoted)
        return Raw(placeholder(len(self.long_texts) - 1))

    def event(self, kind: str, fields: JsonObject) -> bytes:
        """An event of type `response.` + `kind`."""
        return (
            b"" if self.is_silent else self.encoded_event(f"response.{kind}", to_json(fields)[1:-1])
        )

    def encoded_event(self, kind: str, members: bytes) -> bytes:
        """An event with already encoded members besides type and number."""
        number = self.number
        self.number = number + 1
        name = kind.encode()
        return _EVENT % (name, name, number, b"," if members else b"", escape(members))


class TextInProgress:
    """A text with streamed pieces. The constant bytes of its events are built once."""

    __slots__ = ("_counted", "_frames", "_head", "_json", "_length", "_place", "_tail")

    def __init__(
        self, frames: Frames, kind: str = "", place: JsonObject = _NOWHERE, tail: bytes = b""
    ) -> None:
        self._frames = frames
        self._json = bytearray()
        """The text as JSON, without quotes."""
        self._counted = 0
        self._length = 0
        if frames.is_silent:
            return
        name = kind.encode()
        self._head = b'event: response.%b\ndata: {"type":"response.%b","sequence_number":' % (
            name,
            name,
        )
        self._place = b"," + to_json(place)[1:-1] + b',"delta":'
        self._tail = tail + b"}\n\n"

    def write(self, text: str) -> bytes:
        """Add a piece; returns its delta event."""
        frames = self._frames
        if frames.is_silent:
            self.add(text)
            return b""
        number = frames.number
        frames.number = number + 1
        encoded = _encode_text(text)
        if not encoded.isascii():
            encoded = escape(encoded)
        self._json += encoded[1:-1]
        return b"%b%d%b%b%b" % (self._head, number, self._place, encoded, self._tail)

    def add(self, text: str) -> None:
        """Add a piece, with its event written elsewhere."""
        self._json += _encode_text(text)[1:-1]

    def value(self) -> JsonText:
        """The whole text, for the object it belongs to."""
        return self._frames.repeated(self._json)

    def plain(self) -> str:
        """All of it."""
        return _decode_text(_quoted(self._json))

    def length(self) -> int:
        """Its length in characters."""
        self._length += len(_decode_text(_quoted(self._json[self._counted :])))
        self._counted = len(self._json)
        return self._length


def _quoted(text: bytearray) -> bytes:
    return b"".join((b'"', text, b'"'))
