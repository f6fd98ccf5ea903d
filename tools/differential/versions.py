"""A version of dragoman: a checkout or a wheel, and how its programs are started."""

from __future__ import annotations

import os
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Version:
    """A version. `root` is its checkout, or the folder of its unpacked wheel."""

    name: str
    root: Path

    @classmethod
    def at(cls, name: str, path: Path, folder: Path) -> Version:
        """The version in a checkout, or in a wheel, which is unpacked into `folder`.

        Raises:
            ValueError: the path is neither.
        """
        path = path.resolve()
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(folder / name)
            path = folder / name
        if not _source_of(path).is_dir():
            raise ValueError(f"{path} is neither a checkout nor a wheel of dragoman")
        return cls(name, path)

    @property
    def python(self) -> str:
        """The interpreter: the checkout's own, where it has an environment."""
        own = self.root / ".venv" / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    @property
    def source(self) -> Path:
        """The folder from which it is imported."""
        return _source_of(self.root).parent

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes, in which it is imported before any other version."""
        return {
            **{name: value for name, value in os.environ.items() if "DRAGOMAN" not in name},
            "PYTHONPATH": str(self.source),
            "PYTHONHASHSEED": "0",
        }


def _source_of(path: Path) -> Path:
    below = path / "src" / "dragoman"
    return below if below.is_dir() else path / "dragoman"
