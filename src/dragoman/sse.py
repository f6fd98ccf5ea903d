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
    """One event: its name (empty if unnamed), its data (lines joined by LF; an object is put on one
    line), and the bytes to pass on: as they came, including the blank line that ends the event, or,
    if they came in a form that not every client reads, written anew in the one that all do.
    """

    event: bytes
    data: bytes
    raw: bytes


class EventTooLarge(ValueError):
    """An event is larger than the decoder accepts."""


class Decoder:
    """Turns byte chunks, cut anywhere, into frames.

    Accepts LF, CRLF and CR, a byte-order mark, comments, fields without a space after the
    colon and several data lines. Comments and frames without data give no frame. A JSON object
    without a field is an `error` event: so some servers write what ends a stream.
    """

    __slots__ = ("_max", "_pending", "_size", "_started", "_tail")

    def __init__(self, max_event: int = DEFAULT_MAX_EVENT) -> None:
        self._pending: list[bytes] = []
        self._size = 0
        self._tail = b""
        self._max = max_event
        self._started = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """Take the next bytes; return the frames they complete.

        Raises:
            EventTooLarge: an event exceeds the limit.
        """
        if self._pending:
            # Chunks of a large event are joined once, when its end is in sight.
            if not _may_end(self._tail + chunk):
                self._buffer_rest(chunk)
                return []
            self._pending.append(chunk)
            buffer = b"".join(self._pending)
            self._pending.clear()
            self._size = 0
        else:
            buffer = chunk
        if not self._started:
            if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
                self._buffer_rest(buffer)
                return []
            self._started = True
            buffer = buffer.removeprefix(_BOM)
        if buffer.find(b"\r") >= 0:  # `in` fails first to take it for a number
            return self._feed_any_newline(buffer)
        frames: list[Frame] = []
        start = 0
        while (end := buffer.find(b"\n\n", start, start + _NEAR)) >= 0 or (
            end := _blank_line(buffer, start)
        ) >= 0:
            frame = _parse(buffer[start : end + 2])
            if frame is not None:
                frames.append(frame)
            start = end + 2
        if start < len(buffer):
            self._buffer_rest(buffer[start:])
        return frames

    def finish(self) -> list[Frame]:
        """The bytes are over: a last event without its blank line counts as complete."""
        rest = b"".join(self._pending)
        self._pending.clear()
        frame = _parse(rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + b"\n\n")
        return [] if frame is None else [frame]

    def _feed_any_newline(self, buffer: bytes) -> list[Frame]:
        # A trailing CR may be the first half of a CRLF: it waits for the next chunk.
        last = b"\r" if buffer.endswith(b"\r") else b""
        body = buffer[: len(buffer) - len(last)]
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *complete, rest = body.split(b"\n\n")
        frames = [_parse(raw + b"\n\n") for raw in complete]
        if rest or last:
            self._buffer_rest(rest + last)
        return [frame for frame in frames if frame is not None]

    def _buffer_rest(self, rest: bytes) -> None:
        self._size += len(rest)
        if self._size > self._max:
            raise EventTooLarge(f"an event exceeds {self._max} bytes")
        self._pending.append(rest)
        self._tail = (self._tail + rest)[-2:] if len(rest) < 2 else rest[-2:]


def last_event(data: bytes, end: int) -> tuple[int, Frame | None]:
    """Of whole events that end at `end`, where the last begins, and what it is: None if it has no
    data. Lines end with LF."""
    at = data.rfind(b"\n", 0, max(0, end - 2))
    while at > 0 and data[at - 1] != _LF:
        at = data.rfind(b"\n", 0, at)
    return at + 1, _parse(data[at + 1 : end])


_LF = 10
_BOM = b"\xef\xbb\xbf"
_NEAR = 512
"""Bytes beyond which one character is found much sooner than two."""


def _blank_line(buffer: bytes, start: int) -> int:
    """Where the first two line ends in a row are, -1 if nowhere. Quick where lines are long."""
    end = buffer.find(b"\n", start)
    while end >= 0 and not buffer.startswith(b"\n\n", end):
        end = buffer.find(b"\n", end + 1)
    return end


def _may_end(data: bytes) -> bool:
    """Whether a blank line, in any of the three line endings, may be in `data`."""
    # `in` fails first to take bytes for a number, which costs more than the search.
    if data.find(b"\n") < 0 and data.find(b"\r") < 0:
        return False
    return data.find(b"\n\n") >= 0 or data.find(b"\n\r") >= 0 or data.find(b"\r\r") >= 0


def _parse(raw: bytes) -> Frame | None:
    # The two shapes every vendor writes are cut out directly.
    if raw.startswith(b"data: "):
        if raw.find(b"\n") == len(raw) - 2:
            return Frame(b"", raw[6:-2], raw)
    elif raw.startswith(b"event: "):
        name, has_data, text = raw[7:-2].partition(b"\ndata: ")
        if has_data and text.find(b"\n") < 0 and name.find(b"\n") < 0:
            return Frame(name, text, raw)
    if raw.lstrip(b"\n").startswith(b"{"):
        error = raw.replace(b"\n", b" ").strip()
        return Frame(b"error", error, encode(error, b"error"))
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
    return Frame(name, line if line.startswith(b"{") else b"\n".join(data), encode(line, name))


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
    data = escape(data)
    if event:
        return b"event: %b\ndata: %b\n\n" % (event, data)
    return b"data: %b\n\n" % data


COMMENT = b": keepalive\n\n"
"""A keepalive every client ignores."""
