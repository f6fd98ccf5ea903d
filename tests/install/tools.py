"""The virtualenv of `make release`, and what tests ask of it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.clients.installed import missing
from tests.install.sources import ROOT

RELEASE = ROOT / ".venv-release/bin"
_YAML = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"


def tool(name: str) -> str:
    """A program of the virtualenv; skips or fails the test where it is not there."""
    found = RELEASE / name
    if not found.exists():
        missing(f"{name} of .venv-release", "run `make .venv-release/.installed`")
    return str(found)


def documents_of(text: str) -> list[Any]:
    """The documents of a YAML text."""
    done = subprocess.run(
        [tool("python"), "-c", _YAML], input=text, capture_output=True, text=True, check=True
    )
    read: list[Any] = json.loads(done.stdout)
    return read


def yaml_of(text: str) -> Any:
    """The one document of a YAML text."""
    (document,) = documents_of(text)
    return document
