"""A program in a terminal of its own, whose screen is read and whose keys are pressed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_LIMIT_S = 60.0
_ROWS, _COLUMNS = 50, 120
ENTER, DOWN, ESCAPE = "\r", "\x1b[B", "\x1b"


class Screen:
    """What is on a screen of so many columns, by the few commands that programs draw with."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0
        self._rest = ""

    @property
    def text(self) -> str:
        """All of it, from top to bottom, with single spaces."""
        return re.sub(r"\s+", " ", "\n".join("".join(line) for line in self._lines))

    def feed(self, text: str) -> None:
        """Draw."""
        text, self._rest = self._rest + text, ""
        place = 0
        while place < len(text):
            sign = text[place]
            if sign == "\x1b":
                command = _COMMAND.match(text, place)
                if command is None:
                    self._rest = text[place:]
                    return
                self._obey(command)
                place = command.end()
                continue
            place += 1
            if sign == "\n":
                self._row += 1
            elif sign == "\r":
                self._column = 0
            elif sign == "\b":
                self._column = max(0, self._column - 1)
            elif sign >= " ":
                self._put(sign)

    def _put(self, sign: str) -> None:
        if self._column >= self._columns:
            self._row, self._column = self._row + 1, 0
        line = self._line()
        line += " " * (self._column + 1 - len(line))
        line[self._column] = sign
        self._column += 1

    def _line(self) -> list[str]:
        while len(self._lines) <= self._row:
            self._lines.append([])
        return self._lines[self._row]

    def _obey(self, command: re.Match[str]) -> None:
        numbers, letter = command["numbers"], command["letter"]
        if letter is None or not re.fullmatch(r"[0-9;]*", numbers):
            return
        first, _, second = numbers.partition(";")
        count = int(first or 1)
        match letter:
            case "A":
                self._row = max(0, self._row - count)
            case "B":
                self._row += count
            case "C":
                self._column += count
            case "D":
                self._column = max(0, self._column - count)
            case "E":
                self._row, self._column = self._row + count, 0
            case "F":
                self._row, self._column = max(0, self._row - count), 0
            case "G":
                self._column = count - 1
            case "H" | "f":
                self._row, self._column = count - 1, int(second or 1) - 1
            case "J":
                if first == "2" or first == "3":
                    self._lines = [[]]
                else:
                    del self._line()[self._column :]
                    del self._lines[self._row + 1 :]
            case "K":
                line = self._line()
                if first == "2":
                    line.clear()
                else:
                    del line[self._column :]


_COMMAND = re.compile(
    r"\x1b(?:\[(?P<numbers>[0-?]*)[ -/]*(?P<letter>[@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|[PX^_][^\x1b]*\x1b\\|[()#][0-9A-Z]|[^\[\]PX^_()#])"
)


class Terminal:
    """A terminal whose screen is read and whose keys are pressed."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._screen = Screen(_COLUMNS)

    def until(self, pattern: str) -> re.Match[str]:
        """Wait until something is on the screen."""
        deadline = time.monotonic() + _LIMIT_S
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        while True:
            found = re.search(pattern, self._screen.text)
            if found is not None:
                return found
            assert time.monotonic() < deadline, f"{pattern!r} is not in:\n{self._screen.text}"
            if select.select([self._file], [], [], 0.2)[0]:
                with suppress(OSError):
                    self._screen.feed(decode(os.read(self._file, 65536)))

    def press(self, *keys: str) -> None:
        """Press keys, one after another: what comes at once is taken for pasted text."""
        for key in keys:
            time.sleep(0.3)
            os.write(self._file, key.encode())


@contextmanager
def terminal(
    words: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[Terminal]:
    """Run a program in a terminal while the context lasts."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    process = subprocess.Popen(
        words,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(ours)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)
