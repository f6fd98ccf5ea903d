"""Files that a configuration names and whose text is part of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class FileText(NamedTuple):
    """A file as it was when the configuration was read. `problem` says why it could not be, which
    matters to who uses it; `text` is empty then."""

    path: str
    text: bytes = b""
    problem: str = ""

    def __repr__(self) -> str:
        return f"FileText({self.path!r}, {len(self.text)} bytes)"


def read_file(name: str, directory: Path = Path()) -> FileText:
    """The file of this name, from `directory` on."""
    path = directory / Path(name).expanduser()
    try:
        return FileText(os.fspath(path), path.read_bytes())
    except OSError as error:
        return FileText(os.fspath(path), problem=error.strerror or str(error))
