"""The examples of the README, of the page about clients and of `dragoman guide`, as pasted.

Of each only the address is another, since 8080 may be taken. Python and JavaScript run in the
interpreter that has what they import; programs run with the settings and variables of their page,
with a question added where they would wait for a person. What cannot be had is read for its form
(`tests/test_guides.py`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dragoman.cli import main
from dragoman.config import parse_config, read_config
from dragoman.demo import KEY, demo_config
from dragoman.lab.guides import DEMO_MODEL, DEMO_URL, GUIDES, find_guide
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.clients.commands import WITHOUT_HUB
from tests.clients.installed import (
    AIDER,
    FRAMEWORKS_PYTHON,
    LLAMA_INDEX_PYTHON,
    NODE_MODULES,
    VENV_PYTHON,
    cline,
    guided,
    missing,
    node,
    package,
    qwen_code,
)
from tests.guided_config import ROUTED, json_in
from tests.install.sources import ROOT
from tests.upstream.servers import free_port

NODE = ROOT / "tests/node/node_modules"
PYTHONS = {
    "openai": Path(sys.executable),
    "anthropic": Path(sys.executable),
    "google": Path(sys.executable),
    "agents": VENV_PYTHON,
    "langchain_openai": FRAMEWORKS_PYTHON,
    "pydantic_ai": FRAMEWORKS_PYTHON,
    "llama_index": LLAMA_INDEX_PYTHON,
}
"""Which Python has a package."""


@dataclass(frozen=True)
class Example:
    """A block of a page: its heading, the file named before it, its language and text."""

    heading: str
    file: str
    language: str
    text: str

    @property
    def id(self) -> str:
        return f"{self.heading}-{self.file or self.language}"


def blocks(page: Path) -> list[Example]:
    found: list[Example] = []
    pattern = r"^#+ ([^\n]+)$|(?:^`(~[^`]+)`:\n\n)?^```(\w*)\n(.*?)^```$"
    heading = ""
    for match in re.finditer(pattern, page.read_text(), flags=re.MULTILINE | re.DOTALL):
        if match[1]:
            heading = match[1]
        else:
            found.append(Example(heading, match[2] or "", match[3], match[4]))
    return found


CLIENTS = blocks(ROOT / "docs/clients.md")
README = blocks(ROOT / "README.md")


@pytest.fixture(scope="module")
def gateway() -> Iterator[RunningGateway]:
    with (
        running_simulator() as simulator,
        running_gateway(demo_config(simulator.base_url), None) as running,
    ):
        yield running


def exported() -> dict[str, str]:
    """The variables that the page has people set before all else."""
    first = next(one for one in CLIENTS if one.language == "sh")
    name, _, value = first.text.strip().removeprefix("export ").partition("=")
    assert (name, value) == ("DRAGOMAN_KEY", KEY)
    return {name: value}


def here(text: str, gateway: RunningGateway) -> str:
    return text.replace(DEMO_URL, gateway.base_url)


def environment(home: Path, *folders: str) -> dict[str, str]:
    return {
        **exported(),
        "PATH": os.pathsep.join([*folders, "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "CI": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "KILO_DISABLE_AUTOUPDATE": "1",
        "KILO_DISABLE_CODEBASE_INDEXING": "1",
        "KILO_DISABLE_DEFAULT_PLUGINS": "1",
        "KILO_DISABLE_LSP_DOWNLOAD": "1",
        "KILO_DISABLE_MODELS_FETCH": "1",
        "KILO_DISABLE_PRESENCE": "1",
        "KILO_DISABLE_SESSION_INGEST": "1",
        "KILO_TELEMETRY_LEVEL": "off",
        "PI_OFFLINE": "1",
        **WITHOUT_HUB,
        "DO_NOT_TRACK": "1",
    }


def finish(words: list[str], folder: Path, surroundings: dict[str, str], given: str = "") -> str:
    """Run to the end; what was printed."""
    done = subprocess.run(
        words,
        input=given,
        capture_output=True,
        text=True,
        cwd=folder,
        env=surroundings,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


PYTHON = [one for one in CLIENTS if one.language == "python"]
JAVASCRIPT = [one for one in CLIENTS if one.language == "js"]


@pytest.mark.parametrize("example", PYTHON, ids=lambda one: one.id)
def test_python(example: Example, gateway: RunningGateway, tmp_path: Path) -> None:
    compile(example.text, example.heading, "exec")
    modules = re.findall(r"^from (\w+)", example.text, flags=re.MULTILINE)
    python = next(PYTHONS[name] for name in modules)
    if not python.exists():
        missing(str(python), "run `make clients frameworks`")
    script = tmp_path / "example.py"
    script.write_text(here(example.text, gateway))
    assert "Hello!" in finish([str(python), str(script)], tmp_path, environment(tmp_path))


@pytest.mark.parametrize("example", JAVASCRIPT, ids=lambda one: one.id)
def test_javascript(example: Example, gateway: RunningGateway, tmp_path: Path) -> None:
    of_vendors = r'from "(openai|@anthropic-ai/sdk|@google/genai)"'
    modules = NODE if re.search(of_vendors, example.text) else NODE_MODULES
    if not modules.exists():
        missing(str(modules), "run `make node clients`")
    (tmp_path / "node_modules").symlink_to(modules.resolve())
    script = tmp_path / "example.mjs"
    script.write_text(here(example.text, gateway))
    assert "Hello!" in finish([node(), str(script)], tmp_path, environment(tmp_path))


@dataclass(frozen=True)
class Played:
    """A program: the heading of its guide, the word it is started with, and those with which it
    answers one question, which comes last, after the option `question` if any, and ends."""

    heading: str
    word: str
    asked: str
    question: str = ""


PLAYED = (
    Played("Claude Code", "claude", "claude -p"),
    Played("Codex", "codex", "codex exec --skip-git-repo-check"),
    Played("qwen-code", "qwen", "qwen"),
    Played("pi", "pi", "pi --print"),
    Played("cline", "cline", "cline"),
    Played("Copilot CLI", "copilot", "copilot -p"),
    Played("Continue", "cn", "cn -p"),
    Played("Kilo Code", "kilo", "kilo run"),
    Played("Aider", "aider", "aider --no-git --yes-always --no-check-update", "--message"),
)


def put_on_the_path(word: str, folder: Path) -> None:
    """A folder with the program under the name that the page calls it by."""
    folder.mkdir()
    scripts = {
        "codex": ("@openai/codex", "bin/codex.js"),
        "pi": ("@mariozechner/pi-coding-agent", "dist/cli.js"),
    }
    if word in scripts:
        command = f"{node()} {package(*scripts[word])}"
    elif word == "qwen":
        command = f"{node()} {qwen_code()}"
    elif word == "cline":
        command = str(cline())
    elif word == "copilot":
        command = str(guided("@github/copilot-linux-x64", "copilot"))
    elif word == "kilo":
        command = str(guided("@kilocode/cli-linux-x64", "bin/kilo"))
    elif word == "cn":
        command = f"{node()} {guided('@continuedev/cli', 'dist/cn.js')}"
    elif word == "aider":
        if not AIDER.exists() and sys.version_info >= (3, 13):
            pytest.skip("Aider needs a Python below 3.13")
        if not AIDER.exists():
            missing("aider", "run `make frameworks`")
        command = str(AIDER)
    elif word == "opencode":
        command = str(package("opencode-linux-x64", "bin/opencode"))
    else:
        command = str(package("@anthropic-ai/claude-code", "bin/claude.exe"))
    (folder / word).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    (folder / word).chmod(0o755)


def ways(played: Played) -> list[list[Example]]:
    """The blocks of a client that go together: Claude Code has two ways, each enough."""
    own = [one for one in CLIENTS if one.heading == played.heading]
    return [[one] for one in own] if played.heading == "Claude Code" else [own]


WAYS = [(played, way) for played in PLAYED for way in ways(played)]


@pytest.mark.parametrize(
    ("played", "way"), WAYS, ids=[f"{played.heading}-{way[0].language}" for played, way in WAYS]
)
def test_programs(
    played: Played, way: list[Example], gateway: RunningGateway, tmp_path: Path
) -> None:
    put_on_the_path(played.word, tmp_path / "bin")
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    lines = []
    for example in way:
        text = here(example.text, gateway)
        if example.file:
            file = home / example.file.removeprefix("~/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        else:
            lines += text.splitlines()
    starts = [line for line in lines if line.split()[0] == played.word and "auth " not in line]
    start = starts[-1] if starts else played.word
    before = lines[: lines.index(start)] if starts else lines
    asked = f"{start.replace(played.word, played.asked, 1)} {played.question} 'Say hello to me'"
    script = "\n".join([*before, asked])
    shown = finish(["sh", "-e", "-c", script], home / "work", environment(home, f"{tmp_path}/bin"))
    # Both are the simulator's words; it calls a tool when it is told of one in a certain way.
    assert re.search(r"This is the simulator\. You said:|The tool answered:", shown)


def test_opencode_runs_by_what_is_printed_for_a_configuration(tmp_path: Path) -> None:
    """Which is made as that of its page is, with the models of the routes."""
    put_on_the_path("opencode", tmp_path / "bin")
    home, config, port = tmp_path / "home", tmp_path / "dragoman.toml", free_port()
    (home / "work").mkdir(parents=True)
    with running_simulator() as simulator:
        config.write_text(ROUTED.format(port=port, key=KEY, upstream=f"{simulator.base_url}/v1"))
        printed = CliRunner().invoke(main, ["guide", "opencode", "--config", str(config)]).stdout
        file = home / ".config/opencode/opencode.json"
        file.parent.mkdir(parents=True)
        file.write_text(json_in(printed))
        with running_gateway(read_config(config).config, port=port):
            words = ["sh", "-c", "opencode run 'Say hello to me'"]
            shown = finish(words, home / "work", environment(home, f"{tmp_path}/bin"))
        assert "The dragoman stood between two courts" in shown, "what the simulator answers"
        asked = [one.json for one in simulator.requests if one.json]
        assert {one["model"] for one in asked} == {"sim-text"}
        assert 4_000 in [one.get("max_tokens") for one in asked], "what its file says"


CURL = [one for one in README if one.text.startswith("curl ")]


@pytest.mark.parametrize("example", CURL, ids=lambda one: one.id)
def test_the_first_example_of_the_readme(
    example: Example, gateway: RunningGateway, tmp_path: Path
) -> None:
    words = ["sh", "-e", "-c", here(example.text, gateway)]
    assert "event: message_stop" in finish(words, tmp_path, environment(tmp_path))


def test_the_configuration_of_the_readme_can_be_used() -> None:
    (example,) = [one for one in README if one.language == "toml"]
    names = re.findall(r"env:([A-Z_]+)", example.text)
    loaded = parse_config(example.text, environ=dict.fromkeys(names, "sk-stands-in-for-it"))
    assert not loaded.warnings


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "deploy/README.md"]


def called(page: Path) -> Iterator[list[str]]:
    """The words after `dragoman` in scripts of a page."""
    for example in blocks(page):
        if example.language == "sh":
            text = example.text.replace("\\\n", " ")
            for line in text.splitlines():
                found = re.match(r"(?:\S+/)?dragoman +(.*)", line.partition("  #")[0].strip())
                if found:
                    yield found[1].split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_a_script_of_the_documentation_exists(page: Path) -> None:
    for words in called(page):
        command: click.Command = main
        at = 0
        while isinstance(command, click.Group) and at < len(words):
            found = command.get_command(click.Context(command), words[at])
            assert found is not None, words
            command, at = found, at + 1
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        given = {word.partition("=")[0] for word in words[at:] if word.startswith("-")}
        assert given <= known | {"--help"}, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_script_of_the_documentation_is_one(page: Path) -> None:
    for example in blocks(page):
        if example.language == "sh":
            subprocess.run(["sh", "-n", "-c", example.text], check=True)
        elif example.language == "json":
            json.loads(example.text)


def test_the_command_prints_what_the_page_shows() -> None:
    """So what runs here is what `dragoman guide` prints."""
    for guide in GUIDES:
        shown = CliRunner().invoke(main, ["guide", guide.name, "--model", DEMO_MODEL]).output
        assert find_guide(guide.name) is guide
        own = [one for one in CLIENTS if one.heading == guide.name]
        assert len(own) == len(guide.setup)
        for example in own:
            assert example.text in shown
