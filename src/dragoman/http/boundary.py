"""Where a message ends in the bytes that were read."""

from __future__ import annotations

EMPTY_LINE = b"\r\n\r\n"


class Boundary:
    """Cuts what is read at empty lines: a head and a chunked body end with one, though not every
    empty line is their end.
    """

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = b""
        """The last bytes before a cut, where an empty line may have begun."""

    def cut(self, data: bytes | bytearray, start: int, end: int) -> int:
        """Up to where `data`, which is of interest from `start` to `end`, may be parsed at once."""
        tail = self._tail
        if tail:
            self._tail = b""
            at = (tail + bytes(data[start : min(end, start + 3)])).find(EMPTY_LINE)
            if at >= 0:
                return start + at + 4 - len(tail)
        at = data.find(EMPTY_LINE, start, end)
        if at >= 0:
            return at + 4
        self._tail = (tail + bytes(data[max(start, end - 3) : end]))[-3:]
        return end
