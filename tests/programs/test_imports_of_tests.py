"""What tests import: those of `make check-fast` stay inside, and none imports another test."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = re.compile(
    r"socket|subprocess|http\.client|multiprocessing|playwright|psycopg"
    r"|dragoman\.(server|lab\.simulator)\.testing|tests\.gateway\.processes|tests\.storage\.cluster"
)
"""Modules by which a test gets outside its process."""

OTHERS = ("node_modules", ".venv", "__pycache__")
"""What folders of installed packages are called, or begin with: they hold many thousands of files.
"""


def fast_files() -> list[Path]:
    listed = re.search(r"^FAST := (.*?)\n[^\t]", (ROOT / "Makefile").read_text(), re.M | re.S)
    assert listed is not None
    places = [ROOT / word for word in listed[1].replace("\\", " ").split()]
    return [
        file for place in places for file in ([place] if place.is_file() else place.rglob("*.py"))
    ]


def imported(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_fast_tests_stay_inside_their_process() -> None:
    files = fast_files()
    strays = {
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files
        if "pytestmark = pytest.mark.slow" not in file.read_text()
        for name in imported(file)
        if OUTSIDE.fullmatch(name)
    }
    assert len(files) > 100
    assert strays == set()


def test_no_test_file_imports_another() -> None:
    """What they share is in modules beside them."""
    files = []
    for folder, below, names in os.walk(ROOT / "tests"):
        below[:] = [name for name in below if not name.startswith(OTHERS)]
        files += [Path(folder, name) for name in names if name.endswith(".py")]
    strays = {
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files
        for name in imported(file)
        if name.rpartition(".")[2].startswith("test_")
    }
    assert len(files) > 400
    assert strays == set()
