"""Streams of server-sent events, passed on event by event as they came. Pure.

`dragoman.sse` reads the streams of models, and writes them anew without ids; here ids, `retry` and
events without data are what a client resumes a stream by.
"""

from __future__ import annotations

import re

_END = re.compile(rb"(?>\r\n|\n|\r){2}")
_LINE = re.compile(rb"(?>\r\n|\n|\r)")


class EventTooLarge(ValueError):
    """An event is larger than is passed on."""


class EventSplitter:
    """Cuts a stream into its events, each with the blank line that ends it."""

    __slots__ = ("_buffer", "_most", "_seen")

    def __init__(self, most: int) -> None:
        self._buffer = bytearray()
        self._most = most
        self._seen = 0

    @property
    def held(self) -> int:
        """Bytes of the event that is not complete."""
        return self._seen

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes; return the events that they complete.

        Raises:
            EventTooLarge: one has more than `most` bytes.
        """
        self._buffer += chunk
        events, start = [], 0
        # The end of an event may have begun with the last bytes of the chunk before.
        for found in _END.finditer(self._buffer, max(0, self._seen - 3)):
            events.append(bytes(self._buffer[start : found.end()]))
            start = found.end()
        del self._buffer[:start]
        self._seen = len(self._buffer)
        if self._seen > self._most:
            raise EventTooLarge(f"an event has more than {self._most} bytes")
        return events


def data_of(event: bytes) -> bytes:
    """The data of an event, empty if it has none."""
    return b"\n".join(
        line[5:].removeprefix(b" ") for line in _LINE.split(event) if line.startswith(b"data:")
    )


def with_data(event: bytes, data: bytes) -> bytes:
    """An event with other data, all else as it was."""
    lines = [line for line in _LINE.split(event) if line and not line.startswith(b"data:")]
    lines += [b"data: " + line for line in _LINE.split(data)]
    return b"\n".join(lines) + b"\n\n"
