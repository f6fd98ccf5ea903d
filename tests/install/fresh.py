"""A virtualenv that has the package and what it says that it needs, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement


def needed(name: str = "dragoman") -> set[str]:
    """Names of all distributions that a distribution needs here, by what they say themselves."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for text in distribution(waiting.pop()).requires or ():
            wanted = Requirement(text)
            plain = re.sub(r"[-_.]+", "-", wanted.name).lower()
            if (wanted.marker is None or wanted.marker.evaluate({"extra": ""})) and (
                plain not in found
            ):
                found.add(plain)
                waiting.append(plain)
    return found


def fresh_venv(folder: Path, wheel: Path) -> Path:
    """Make a virtualenv with a wheel in it; its `bin` folder.

    What it needs is copied from the running Python, where it was installed by the lock, so that no
    network is needed and nothing else comes along.
    """
    # Without a pip of its own: to unpack one takes longer than all else.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    for name in needed():
        for file in distribution(name).files or ():
            target = site / file
            if ".." not in file.parts and Path(str(file.locate())).is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), target)
    python = str(folder / "bin/python")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    options = ["--quiet", "--no-index"]
    subprocess.run(
        [*pip, "install", *options, str(wheel)], check=True, capture_output=True, text=True
    )
    return folder / "bin"
