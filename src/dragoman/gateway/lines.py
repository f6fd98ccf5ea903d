"""Lines of a log, written many at a time."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Iterator

_DELAY_S = 0.1
_MOST = 512
_ATOMIC = select.PIPE_BUF
"""Bytes that a pipe takes in one piece, so that lines of several processes do not mix."""


class LineWriter:
    """Writes lines to a file descriptor a tenth of a second after the first of them came, or when
    there are many. A request then pays for no system call. Used from one event loop.
    """

    __slots__ = ("_descriptor", "_lines", "_timer")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, line: bytes) -> None:
        """Take a line, without its line break."""
        self._lines.append(line)
        if len(self._lines) >= _MOST:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY_S, self.flush)

    def flush(self) -> None:
        """Write what was taken. What cannot be written is let go: a log must not stop the work."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        try:
            for piece in _pieces(lines):
                rest = piece
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            pass


def _pieces(lines: list[bytes]) -> Iterator[bytes]:
    """The lines with their breaks, as many at a time as are written in one piece."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        if held and size + len(line) >= _ATOMIC:
            yield b"".join(held)
            held, size = [], 0
        held.append(line + b"\n")
        size += len(line) + 1
    if held:
        yield b"".join(held)
