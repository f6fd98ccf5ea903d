"""Every requirement in `docs/requirements.md` is named by a test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def numbered() -> set[int]:
    text = (ROOT / "docs/requirements.md").read_text()
    return {int(number) for number in re.findall(r"^(\d+)\. ", text, flags=re.MULTILINE)}


def named() -> set[int]:
    found: set[int] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        # Other people's programs are installed below the tests.
        if "site-packages" in path.parts or "node_modules" in path.parts:
            continue
        for numbers in re.findall(r"\breq: ([\d, ]+)", path.read_text()):
            found |= {int(number) for number in re.findall(r"\d+", numbers)}
    return found


def test_every_requirement_is_named_by_a_test() -> None:
    missing = numbered() - named()
    assert not missing, f"no test names {sorted(missing)}"


def test_tests_name_only_requirements_that_exist() -> None:
    assert named() <= numbered()
