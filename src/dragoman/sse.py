"""Server-sent events: an incremental decoder that reads everything, an encoder that writes the
one form every client reads (LF only, one data line, never `id:` or `retry:`).
"""

from __future__ import annotations

from msgspec import Struct

DEFAULT_MAX_EVENT = 64 * 1024 * 1024
"""Largest event accepted, in bytes; images and files travel inside events."""

DONE = b"[DONE]"
"""The payload that ends a Chat Completions stream. It is not JSON."""


class Frame(Struct, frozen=True, gc=False):
    """One event: its name (empty if unnamed), and its data: lines joined by LF; an object is on one
    line."""

    event: bytes
    data: bytes

    @property
    def raw(self) -> bytes:
        """The bytes to pass on, in the form that every client reads."""
        return encode(self.data, self.event)


class EventTooLarge(ValueError):
    """An event is larger than the decoder accepts."""


class Decoder:
    """Turns byte chunks, cut anywhere, into frames.

    Accepts LF, CRLF and CR, a byte-order mark, comments, fields without a space after the
    colon and several data lines. Comments and frames without data give no frame. A JSON object
    without a field is an `error` event: so some servers write what ends a stream.
    """

    __slots__ = ("_after_cr", "_end", "_max", "_pending", "_size", "_started")

    def __init__(self, max_event: int = DEFAULT_MAX_EVENT) -> None:
        self._pending: list[bytes] = []
        """The event in progress, in pieces, without the line end at its end, which is in `_end`."""
        self._size = 0
        self._end = b""
        self._after_cr = False
        """Whether the last chunk ended with a CR, which may be the first half of a CRLF."""
        self._max = max_event
        self._started = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """Take the next bytes; return the frames they complete.

        Raises:
            EventTooLarge: an event exceeds the limit.
        """
        if self._after_cr or _CR in chunk:
            chunk = self._with_lf(chunk)
        if self._end:
            chunk, self._end = self._end + chunk, b""
        # One is found much sooner than two, in a long line.
        events = chunk.split(b"\n\n") if _LF in chunk else [chunk]
        rest = events.pop()
        if events and (self._pending or not self._started):
            events[0] = b"".join([*self._pending, events[0]])
            self._pending.clear()
            self._size = 0
            if not self._started:
                self._started = True
                events[0] = events[0].removeprefix(_BOM)
        if rest:
            self._keep(rest)
        return [frame for event in events if (frame := _parse(event)) is not None]

    def finish(self) -> list[Frame]:
        """The bytes are over: a last event without its blank line counts as complete."""
        return self.feed(b"\n\n")

    def _with_lf(self, chunk: bytes) -> bytes:
        """A chunk with LF for the other line ends."""
        if not chunk:
            return chunk
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _keep(self, rest: bytes) -> None:
        """Keep what is there of an event in progress."""
        if rest.endswith(b"\n"):
            self._end, rest = b"\n", rest[:-1]
        self._size += len(rest)
        if self._size > self._max:
            raise EventTooLarge(f"an event exceeds {self._max} bytes")
        self._pending.append(rest)


def last_event(data: bytes, end: int) -> tuple[int, Frame | None]:
    """Of whole events that end at `end`, where the last begins, and what it is: None if it has no
    data. Lines end with LF."""
    at = data.rfind(b"\n", 0, max(0, end - 2))
    while at > 0 and data[at - 1] != _LF:
        at = data.rfind(b"\n", 0, at)
    return at + 1, _parse(data[at + 1 : end].removesuffix(b"\n\n"))


_LF, _CR = b"\n\r"
_BOM = b"\xef\xbb\xbf"


def _parse(raw: bytes) -> Frame | None:
    """The frame of an event without the blank line at its end; None if it has no data."""
    first, _, second = raw.partition(b"\n")
    # The two shapes every vendor writes are cut out directly.
    if not second:
        text = first.removeprefix(b"data: ")
        if text != first:
            return Frame(b"", text)
    elif _LF not in second:
        name, text = first.removeprefix(b"event: "), second.removeprefix(b"data: ")
        if name != first and text != second:
            return Frame(name, text)
    if raw.lstrip(b"\n").startswith(b"{"):
        return Frame(b"error", raw.replace(b"\n", b" ").strip())
    name = b""
    data: list[bytes] = []
    for line in raw.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    if not data:
        return None
    # Between the lines of one JSON value a line feed is mere white space.
    line = b" ".join(data)
    return Frame(name, line if line.lstrip().startswith(b"{") else b"\n".join(data))


_SEPARATORS = (
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)


def escape(data: bytes) -> bytes:
    """JSON text without raw U+2028, U+2029 and U+0085, at which some readers split lines."""
    if data.isascii():
        return data  # the usual case, found out much faster than the rest
    if b"\xe2\x80" in data or b"\xc2\x85" in data:
        for raw, escaped in _SEPARATORS:
            data = data.replace(raw, escaped)
    return data


def encode(data: bytes, event: bytes = b"") -> bytes:
    """One event, ready to be written in one piece. `data` is JSON on one line."""
    if not data.isascii():
        data = escape(data)
    if event:
        name = event if event.isascii() else escape(event)
        return b"event: %b\ndata: %b\n\n" % (name, data)
    return b"data: %b\n\n" % data


COMMENT = b": keepalive\n\n"
"""A keepalive every client ignores."""
