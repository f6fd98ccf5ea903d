"""Wheel and sdist are whole, equal however they are built, and serve the demo where nothing else
is."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

import dragoman
from tests.cli.serving import free_port
from tests.install.fresh import fresh_venv
from tests.install.sources import ROOT, build, content, export, tracked, unpacked

NAME = f"dragoman-{dragoman.__version__}"


@dataclass(frozen=True)
class Built:
    wheel: Path
    sdist: Path
    sdist_tree: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    sources = export(folder / "sources")
    sdist = build("sdist", sources, folder / "dist")
    wheel = build("wheel", sources, folder / "dist")
    (folder / "tree").mkdir()
    return Built(wheel, sdist, unpacked(sdist, folder / "tree"))


def metadata(wheel: Path) -> Message:
    return BytesParser().parsebytes(content(wheel)[f"{NAME}.dist-info/METADATA"])


def test_names(built: Built) -> None:
    assert built.wheel.name == f"{NAME}-py3-none-any.whl"
    assert built.sdist.name == f"{NAME}.tar.gz"


def is_shipped(path: str) -> bool:
    """Whether a file belongs into what is built: declarations for the type check of JavaScript do
    not."""
    return not path.endswith(".d.ts")


def test_every_file_of_the_package_is_in_the_wheel_and_nothing_else(built: Built) -> None:
    sources = [path for path in tracked() if path.startswith("src/")]
    wanted = {path.removeprefix("src/") for path in sources if is_shipped(path)}
    found = {path for path in content(built.wheel) if not path.startswith(f"{NAME}.dist-info/")}
    assert found == wanted
    assert {"dragoman/py.typed", "dragoman/prices/snapshot.json"} <= found


def test_the_sdist_has_what_it_takes_to_build_to_run_and_to_read(built: Built) -> None:
    wanted = {
        path
        for path in tracked()
        if (path.startswith("src/") and is_shipped(path))
        or path.startswith(("docs/", "deploy/", "requirements/"))
        or path in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "CHANGELOG.md")
    }
    tree = built.sdist_tree
    found = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    made = {path for path in found if ".egg-info/" in path}
    assert found - made == wanted | {"MANIFEST.in", "PKG-INFO", "setup.cfg"}


def test_the_sdist_builds_the_same_wheel(built: Built, tmp_path: Path) -> None:
    """As pip builds it where it installs it, so that what is tried of one holds for both."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    subprocess.run([*pip, *options, str(built.sdist)], check=True)
    (again,) = tmp_path.iterdir()
    assert again.name == built.wheel.name
    assert content(again) == content(built.wheel)


def test_what_an_index_shows(built: Built) -> None:
    told = metadata(built.wheel)
    assert told["Name"] == "dragoman"
    assert told["Version"] == dragoman.__version__
    assert told["License-Expression"] == "Apache-2.0"
    assert told["License-File"] == "LICENSE"
    assert f"{NAME}.dist-info/licenses/LICENSE" in content(built.wheel)
    urls = dict(line.split(", ") for line in told.get_all("Project-URL") or [])
    assert set(urls) == {"Source", "Documentation", "Changelog", "Issues"}
    assert told["Description-Content-Type"] == "text/markdown"
    classifiers = told.get_all("Classifier") or []
    assert "Typing :: Typed" in classifiers
    for minor in (11, 12, 13, 14):
        assert f"Programming Language :: Python :: 3.{minor}" in classifiers


def test_links_of_the_readme_lead_somewhere_from_an_index(built: Built) -> None:
    """Each is absolute, and each that leads to the sources names a file that is there."""
    told = metadata(built.wheel)
    urls = dict(line.split(", ") for line in told.get_all("Project-URL") or [])
    page = told.get_payload()
    assert isinstance(page, str)
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert len(links) >= 8
    assert all(link.startswith(("https://", "http://")) for link in links)
    own = [link for link in links if link.startswith(urls["Source"])]
    for link in own:
        kind, version, path = link.removeprefix(f"{urls['Source']}/").split("/", 2)
        assert kind == ("raw" if path.endswith((".svg", ".png")) else "blob")
        assert version == f"v{dragoman.__version__}"
        assert (ROOT / path.partition("#")[0]).exists()
    assert [link for link in own if link.endswith("/docs/overview.svg")]
    assert not re.search(r'(?:src|href)="(?!https?:)', page)


@pytest.fixture(scope="module")
def bin_of(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a virtualenv with the wheel."""
    return fresh_venv(tmp_path_factory.mktemp("wheel") / "venv", built.wheel)


@pytest.fixture
def demo(bin_of: Path, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The demo, run in an empty folder by the program that was installed."""
    port = free_port()
    process = subprocess.Popen(
        [str(bin_of / "dragoman"), "demo", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    try:
        yield f"http://127.0.0.1:{port}", process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_the_demo_serves_from_an_empty_folder(
    demo: tuple[str, subprocess.Popen[str]], tmp_path: Path
) -> None:
    url, process = demo
    deadline = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(f"{url}/readyz") as ready:
                assert ready.status == 200
            break
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    for model in ("sim-chat", "sim-messages", "sim-responses"):
        question = {
            "model": model,
            "max_tokens": 500,
            "messages": [{"role": "user", "content": "Hello!"}],
        }
        request = urllib.request.Request(
            f"{url}/v1/messages",
            json.dumps(question).encode(),
            {"x-api-key": "sk-dragoman-demo", "content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            assert "Hello!" in json.load(answer)["content"][-1]["text"]
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 0
    assert process.stdout is not None
    assert f"dragoman demo: {url}" in process.stdout.read()
    assert list(tmp_path.iterdir()) == []


def test_the_installed_package_has_its_types(bin_of: Path) -> None:
    program = "import dragoman, pathlib; print(pathlib.Path(dragoman.__file__).parent / 'py.typed')"
    done = subprocess.run(
        [str(bin_of / "python"), "-c", program], capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).is_file()
    assert str(bin_of.parent) in done.stdout


def test_every_command_of_the_installed_package_can_be_asked_for_help(bin_of: Path) -> None:
    shown = subprocess.run(
        [str(bin_of / "dragoman"), "--help"], capture_output=True, text=True, check=True
    )
    commands = re.findall(r"^  ([a-z]+)  ", shown.stdout, flags=re.MULTILINE)
    assert {"demo", "guide", "serve"} <= set(commands)
    shown = subprocess.run(
        [str(bin_of / "dragoman"), "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == f"dragoman, version {dragoman.__version__}\n"
