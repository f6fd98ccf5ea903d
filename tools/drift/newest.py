"""Reports the drift of the newest SDKs: `python -m tools.drift.newest`.

They are installed into an environment of their own that is thrown away. This never fails: what
the vendors release next is news, not a fault of this tree. Without a network it says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TIME_LIMIT_S = 50.0
"""For the installation, and again for the comparison."""

_PACKAGES = ("openai", "anthropic", "google-genai", "msgspec", "typing_extensions")
"""The SDKs, and what the comparison imports beside them."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(_report(Path(folder)) + "\n")


def _report(folder: Path) -> str:
    # Without a pip of its own: to unpack one takes longer than all else.
    venv.create(folder)
    python = str(folder / "bin" / "python")
    installing = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    installing += ["install", "--quiet", "--no-compile"]
    limits = ["--retries", "1", "--timeout", "10", "--only-binary", ":all:"]
    installed = _run([*installing, *limits, *_PACKAGES])
    if installed is None or installed.returncode:
        return "drift: the newest SDKs cannot be installed (no network?); not compared"
    compared = _run([python, "-m", "tools.drift"])
    if compared is None:
        return "drift: the comparison with the newest SDKs took too long"
    return f"drift of the newest SDKs: {compared.stdout.strip() or compared.stderr.strip()}"


def _run(words: list[str]) -> subprocess.CompletedProcess[str] | None:
    """The finished command; None when its time was up."""
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            timeout=_TIME_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    main()
