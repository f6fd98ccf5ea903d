"""Files that a configuration names, and files whose text is part of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class BadFileName(ValueError):
    """A text cannot be the name of a file."""


def file_at(path: str, directory: Path) -> Path:
    """The file at `path`, relative to `directory` unless absolute; `~` is a home directory.

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
    """The content of a file when the configuration was read. `problem` is why it could not be read;
    then `text` is empty."""

    path: str
    text: bytes = b""
    problem: str = ""

    def __repr__(self) -> str:
        return f"FileText({self.path!r}, {len(self.text)} bytes)"


def read_file(name: str, directory: Path = Path()) -> FileText:
    """The file of this name, found by `file_at`.

    Raises:
        BadFileName: as `file_at`.
    """
    path = file_at(name, directory)
    try:
        return FileText(os.fspath(path), path.read_bytes())
    except OSError as error:
        return FileText(os.fspath(path), problem=error.strerror or str(error))
