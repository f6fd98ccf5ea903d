"""The files that a configuration names."""

from __future__ import annotations

from pathlib import Path


def file_at(path: str, directory: Path) -> Path:
    """The file that is named by `path`: from `directory`, where it is not absolute; `~` stands for
    a home directory.

    Raises:
        ValueError: no file can have that name, or there is no such home directory.
    """
    if "\0" in path:
        raise ValueError("no file can have a name with a NUL in it")
    try:
        return directory / Path(path).expanduser()
    except RuntimeError:
        raise ValueError(f"there is no home directory {path.partition('/')[0]}") from None
