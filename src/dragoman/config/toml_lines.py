"""The line of each key of a TOML document.

The standard library's parser returns values without positions, and an error with a line is better
than one without. This scanner only finds keys: it runs on text that `tomllib` has accepted, so it
checks nothing itself.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right

Path = tuple[str | int, ...]
"""A position in the document: keys and array indexes from the root."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")'
    r"|'''.*?'{3,5}(?!')"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,#\]}\n]+")


class TomlLines:
    """The line of every key path of one document; lines count from 1."""

    __slots__ = ("_lines",)

    def __init__(self, text: str) -> None:
        self._lines = _Scanner(text).scan()

    def line(self, path: Path) -> int:
        """The line where `path` is set, or that of its nearest ancestor; 1 for the root."""
        for end in range(len(path), 0, -1):
            found = self._lines.get(path[:end])
            if found is not None:
                return found
        return 1


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[Path, int] = {}
        self._array_tables: dict[Path, int] = {}

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while True:
            self._skip_blank()
            if self._pos >= len(self._text):
                return self._lines
            if self._peek("["):
                table = self._header()
            else:
                self._assignment(table)

    def _header(self) -> Path:
        start = self._pos
        is_array = self._text.startswith("[[", start)
        self._pos += 2 if is_array else 1
        parts = self._key()
        self._pos += 2 if is_array else 1
        path: Path = ()
        for part in parts[:-1]:
            path = self._element(self._record((*path, part), start))
        path = (*path, parts[-1])
        if is_array:
            self._array_tables[path] = self._array_tables.get(path, 0) + 1
        return self._record(self._element(self._record(path, start)), start)

    def _element(self, path: Path) -> Path:
        """The newest element of `path` if it is an array of tables, otherwise `path` itself."""
        count = self._array_tables.get(path)
        return path if count is None else (*path, count - 1)

    def _assignment(self, table: Path) -> None:
        start = self._pos
        path = table
        for part in self._key():
            path = self._record((*path, part), start)
        self._skip_blank()
        self._value(path)

    def _key(self) -> list[str]:
        """Read a dotted key and its `=`, or stop before the `]` that ends it."""
        parts: list[str] = []
        while True:
            self._skip_blank()
            if bare := _BARE_KEY.match(self._text, self._pos):
                parts.append(bare.group())
                self._pos = bare.end()
            elif quoted := _STRING.match(self._text, self._pos):
                parts.append(tomllib.loads(f"key = {quoted.group()}")["key"])
                self._pos = quoted.end()
            self._skip_blank()
            if self._peek("."):
                self._pos += 1
                continue
            if self._peek("="):
                self._pos += 1
            return parts

    def _value(self, path: Path) -> None:
        if string := _STRING.match(self._text, self._pos):
            self._pos = string.end()
        elif self._peek("["):
            self._array(path)
        elif self._peek("{"):
            self._inline_table(path)
        elif scalar := _SCALAR.match(self._text, self._pos):
            self._pos = scalar.end()

    def _array(self, path: Path) -> None:
        self._pos += 1
        index = 0
        while True:
            self._skip_separators()
            if self._peek("]"):
                self._pos += 1
                return
            self._value(self._record((*path, index), self._pos))
            index += 1

    def _inline_table(self, path: Path) -> None:
        self._pos += 1
        while True:
            self._skip_separators()
            if self._peek("}"):
                self._pos += 1
                return
            self._assignment(path)

    def _record(self, path: Path, position: int) -> Path:
        self._lines.setdefault(path, bisect_right(self._newlines, position - 1) + 1)
        return path

    def _peek(self, character: str) -> bool:
        return self._text.startswith(character, self._pos)

    def _skip_blank(self) -> None:
        blank = _BLANK.match(self._text, self._pos)
        self._pos = blank.end() if blank else self._pos

    def _skip_separators(self) -> None:
        self._skip_blank()
        while self._peek(","):
            self._pos += 1
            self._skip_blank()
