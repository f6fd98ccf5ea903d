"""Buffered, non-blocking writing of log lines."""

from __future__ import annotations

import asyncio
import os
import select
from collections import deque
from collections.abc import Callable, Iterable, Iterator

_DELAY_S = 0.1
_MOST = 512
_ATOMIC = select.PIPE_BUF
"""Bytes that a pipe takes in one piece, so that lines of several processes do not mix."""

_MAX_PIECES = 2048
"""Pieces of at most `_ATOMIC` bytes that wait for a reader who does not read."""


class Outlet:
    """A file descriptor, and whether a write of `PIPE_BUF` bytes to it would block: a stopped
    terminal or a pipe that nobody reads must not stop the work."""

    __slots__ = ("_poll", "descriptor")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def is_ready(self) -> bool:
        """Whether a write would not block; it may fail."""
        return bool(self._poll.poll(0))


class LineWriter:
    """Writes lines to a file descriptor a tenth of a second after the first of them came, or when
    there are many. A request then pays for no system call. Used from one event loop.

    Lines that nobody reads wait, up to some megabytes; further ones are dropped. `form` formats a
    line before it is written.
    """

    __slots__ = ("_form", "_lines", "_outlet", "_pieces", "_waits")

    def __init__(self, descriptor: int, form: Callable[[bytes], bytes] | None = None) -> None:
        self._form = form
        self._outlet = Outlet(descriptor)
        self._lines: list[bytes] = []
        self._pieces: deque[bytes] = deque()
        self._waits = False
        """Whether what is there will be written on time."""

    def __call__(self, line: bytes) -> None:
        """Take a line, without its line break."""
        self._lines.append(line)
        if len(self._lines) >= _MOST:
            self.flush()
        if not self._waits:
            self._wait()

    def flush(self) -> None:
        """Write what was taken, as far as that is possible at once."""
        lines, self._lines = self._lines, []
        if len(self._pieces) < _MAX_PIECES:
            self._pieces.extend(_pieces(lines if self._form is None else map(self._form, lines)))
        try:
            while self._pieces and self._outlet.is_ready():
                piece = self._pieces.popleft()
                rest = piece[os.write(self._outlet.descriptor, piece) :]
                if rest:
                    self._pieces.appendleft(rest)
        except OSError:
            self._pieces.clear()

    def _on_time(self) -> None:
        self._waits = False
        self.flush()
        if self._pieces:
            self._wait()

    def _wait(self) -> None:
        self._waits = True
        asyncio.get_running_loop().call_later(_DELAY_S, self._on_time)


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines with their breaks, as many at a time as are written in one piece."""
    text = b"\n".join((*lines, b""))
    start = 0
    while start < len(text):
        end = start + _ATOMIC
        if end < len(text):
            end = text.rfind(b"\n", start, end) + 1 or end
        yield text[start:end]
        start = end
