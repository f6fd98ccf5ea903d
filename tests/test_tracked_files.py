"""What is under version control is files: a link would name a place that only one machine has."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SYMLINK_MODE = "120000"


@pytest.mark.skipif(
    not (ROOT / ".git").exists() or shutil.which("git") is None,
    reason="only a clone knows which files are tracked",
)
def test_no_link_is_tracked() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert listed
    assert [line for line in listed if line.startswith(SYMLINK_MODE)] == []
