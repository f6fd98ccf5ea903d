"""The sources as they are published, and the two packages that are built of them, offline."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

_BUILD = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""
_EPOCH = "1767225600"
"""Seconds that stand for the time of every file, so that what is built twice is equal."""


def tracked() -> list[str]:
    """Paths of the files of the project, new ones that are not ignored included."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return sorted(path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file())


def export(folder: Path) -> Path:
    """A copy of the project's files alone: nothing that lies about gets into a package."""
    for path in tracked():
        if path.startswith(("tests/", "bench/")):
            continue
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target)
    return folder


def build(kind: str, sources: Path, folder: Path) -> Path:
    """Build a `wheel` or an `sdist` of the sources by what is installed, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, f"build_{kind}", str(folder.resolve())],
        cwd=sources,
        env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": _EPOCH, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{done.stdout}\n{done.stderr}")
    return folder / done.stdout.splitlines()[-1]


def unpacked(sdist: Path, folder: Path) -> Path:
    """The one folder in an sdist, unpacked."""
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4 or newer
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)
    (top,) = folder.iterdir()
    return top


def content(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {one: archive.read(one) for one in archive.namelist() if not one.endswith("/")}
