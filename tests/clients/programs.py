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

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.clients.commands import PROGRAMS
from tests.clients.installed import FOLDER, NODE_MODULES, VENV_PYTHON, missing
from tests.clients.tasks import KEY, Api, Task

__all__ = [
    "FOLDER",
    "KEY",
    "NODE_MODULES",
    "PROGRAMS",
    "VENV_PYTHON",
    "Api",
    "Finished",
    "missing",
    "run",
    "usual_environment",
]

_TIME_LIMIT_S = 180.0
_POLL_S = 0.2
_SHOWN = 4000


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
    killed_when: Callable[[], bool] = lambda: False,
) -> Finished:
    """Run a program of `PROGRAMS` on one prompt until it ends by itself or its time is up.

    Args:
        gateway_url: without `/v1`.
        arguments: further words of the program's own command line.
        environment: goes over the program's own.
        killed_when: asked again and again; its time is up when this holds.

    Skips the test when the program is not installed; with DRAGOMAN_REQUIRE_SERVICES=1 fails it.
    """
    home, folder = workdir / "home", workdir / "work"
    for made in (home, folder):
        made.mkdir(parents=True, exist_ok=True)
    task = Task(gateway_url, model, prompt, home, folder, resume, arguments)
    command = PROGRAMS[program].command(task)
    surroundings = {**usual_environment(home), **command.environment, **(environment or {})}
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
        status = _wait(process, command.stdin.encode(), killed_when)
    return Finished(
        status,
        shown.read_text(errors="replace"),
        told.read_text(errors="replace"),
        folder,
    )


def _wait(
    process: subprocess.Popen[bytes], stdin: bytes, killed_when: Callable[[], bool]
) -> int | None:
    """The exit status. Whatever is left of the program's process group is killed."""
    given: bytes | None = stdin
    deadline = time.monotonic() + _TIME_LIMIT_S
    try:
        while time.monotonic() < deadline and not killed_when():
            with suppress(subprocess.TimeoutExpired):
                process.communicate(given, timeout=_POLL_S)
                return process.returncode
            given = None
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def usual_environment(home: Path) -> dict[str, str]:
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
