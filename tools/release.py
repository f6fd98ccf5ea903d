"""Build all that is published into a folder, and check it; no network is needed.

    python -m tools.release dist

makes the wheel and the sdist, the packed chart, the bill of materials of what the wheel installs,
and the checksums of these.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import dragoman
from tests.install.fresh import fresh_venv
from tests.install.sources import ROOT, build, content, export, unpacked
from tests.install.tools import RELEASE

_PACK = """
import asyncio, sys, helm_sdkpy
helm = helm_sdkpy.Configuration(kubeconfig="/nonexistent")
asyncio.run(helm_sdkpy.Package(helm).run(sys.argv[1], sys.argv[2]))
"""
_RENDER = """
import sys
from readme_renderer.markdown import render
told = sys.stdin.read()
sys.exit(None if render(told) else "an index would not show the README")
"""


def release(folder: Path) -> None:
    """Build and check everything.

    Raises:
        SystemExit, CalledProcessError, RuntimeError: something cannot be built, or is not right.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "chart").mkdir()
    with tempfile.TemporaryDirectory() as scratch:
        sources = export(Path(scratch) / "sources")
        sdist = build("sdist", sources, folder)
        wheel = build("wheel", sources, folder)
        (Path(scratch) / "tree").mkdir()
        again = build("wheel", unpacked(sdist, Path(scratch) / "tree"), Path(scratch) / "again")
        if content(again) != content(wheel):
            raise SystemExit("the sdist builds another wheel")
        _render_readme(wheel)
        _describe(wheel, Path(scratch) / "venv", sources, folder)
        _release(
            "python", "-c", _PACK, str(sources / "deploy/helm/dragoman"), str(folder / "chart")
        )
    _write_checksums(folder)
    _warn_of_addresses()
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/install", "tests/test_guides.py"],
        cwd=ROOT,
        check=True,
    )


def _release(program: str, *words: str, given: str = "") -> None:
    subprocess.run([str(RELEASE / program), *words], input=given, text=True, check=True)


def _render_readme(wheel: Path) -> None:
    """Make sure that an index of packages can show the README."""
    name = f"dragoman-{dragoman.__version__}.dist-info/METADATA"
    text = content(wheel)[name].decode().partition("\n\n")[2]
    _release("python", "-c", _RENDER, given=text)


def _describe(wheel: Path, venv: Path, sources: Path, folder: Path) -> None:
    """Write the bill of materials (CycloneDX) of what installing the wheel brings."""
    python = fresh_venv(venv, wheel) / "python"
    # What came with the virtualenv is not what the package needs.
    leave = ["-m", "pip", "--disable-pip-version-check", "uninstall", "--quiet", "--yes"]
    subprocess.run([str(python), *leave, "setuptools", "pip"], check=True)
    file = folder / f"{wheel.name.partition('-py3')[0]}.cdx.json"
    _release(
        *("cyclonedx-py", "environment", str(python)),
        *("--pyproject", str(sources / "pyproject.toml"), "--mc-type", "application"),
        *("--output-reproducible", "--validate", "--of", "JSON"),
        *("--output-file", str(file)),
    )
    # The tool reads pyproject.toml, which leaves the version to the package.
    told = json.loads(file.read_text())
    told["metadata"]["component"]["version"] = dragoman.__version__
    file.write_text(json.dumps(told, indent=2) + "\n")


def _write_checksums(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n"
        for path in files
    ]
    (folder / "SHA256SUMS").write_text("".join(lines))


def _warn_of_addresses() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    source = tomllib.loads(text)["project"]["urls"]["Source"]
    if ".example/" in source:
        sys.stderr.write(
            f"warning: {source} is nobody's address: set [project.urls] before this is published\n"
        )


if __name__ == "__main__":
    release(Path(sys.argv[1]))
