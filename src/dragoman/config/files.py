"""Files that a configuration names, and files whose text is part of it."""

from __future__ import annotations

import os
import stat
from errno import EFBIG, EINVAL
from pathlib import Path
from typing import NamedTuple

_MOST_BYTES = 64 * 1024 * 1024


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


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file that a configuration names.

    Raises:
        OSError: it cannot be read, is too large, or a device or pipe, which may have no end.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(EINVAL, "it is no file")
    if found.st_size > _MOST_BYTES:
        raise OSError(EFBIG, f"it has more than {_MOST_BYTES} bytes")
    return Path(path).read_bytes()


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
        return FileText(os.fspath(path), read_bytes(path))
    except OSError as error:
        return FileText(os.fspath(path), problem=error.strerror or str(error))
