"""The files that a configuration names, and those of which the text is part of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class BadFileName(ValueError):
    """No file can have that name."""


def file_at(path: str, directory: Path) -> Path:
    """The file that is named by `path`: from `directory`, where it is not absolute; `~` stands for
    a home directory.

    Raises:
        BadFileName: no file can have that name, or there is no such home directory.
    """
    if "\0" in path:
        raise BadFileName("no file can have a name with a NUL in it")
    try:
        return directory / Path(path).expanduser()
    except RuntimeError:
        raise BadFileName(f"there is no home directory {path.partition('/')[0]}") from None


class FileText(NamedTuple):
    """A file as it was when the configuration was read. `problem` says why it could not be, which
    matters to who uses it; `text` is empty then."""

    path: str
    text: bytes = b""
    problem: str = ""

    def __repr__(self) -> str:
        return f"FileText({self.path!r}, {len(self.text)} bytes)"


def read_file(name: str, directory: Path = Path()) -> FileText:
    """The file of this name, as `file_at` finds it.

    Raises:
        BadFileName: as `file_at`.
    """
    path = file_at(name, directory)
    try:
        return FileText(os.fspath(path), path.read_bytes())
    except OSError as error:
        return FileText(os.fspath(path), problem=error.strerror or str(error))
