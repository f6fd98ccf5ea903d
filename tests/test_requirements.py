"""Every requirement in `docs/requirements.md` is named by a test, or stated as not built yet."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
NOT_YET = {
    11: "submit_tool_outputs needs stored responses",
    114: "a dialect's event, off by default",
    117: "a dialect's terminator, off by default",
}
"""Lines that no test needs to name yet, with the reason."""


def numbered() -> set[int]:
    text = (ROOT / "docs/requirements.md").read_text()
    return {int(number) for number in re.findall(r"^(\d+)\. ", text, flags=re.MULTILINE)}


def named() -> set[int]:
    found: set[int] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for numbers in re.findall(r"\breq: ([\d, ]+)", path.read_text()):
            found |= {int(number) for number in re.findall(r"\d+", numbers)}
    return found


def test_every_requirement_is_named_by_a_test() -> None:
    missing = numbered() - named() - NOT_YET.keys()
    assert not missing, f"no test names {sorted(missing)}"


def test_tests_name_only_requirements_that_exist() -> None:
    assert named() <= numbered()
