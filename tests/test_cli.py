"""The command line, run as a person runs it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import dragoman
from dragoman import demo
from dragoman.cli import main
from dragoman.cli.serve import SIMULATOR_PORT
from dragoman.lab.simulator.server import DEFAULT_PORT

GOOD = """
[[upstreams]]
name = "openai"
protocol = "openai_responses"
base_url = "https://api.openai.com/v1"

[[accounts]]
name = "openai-1"
upstream = "openai"
key = "env:SOME_OPENAI_KEY"

[[routes]]
match = "gpt-*"
upstream = "openai"
"""


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *arguments],
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], **environ},
        text=True,
        timeout=30,
    )


def invoked(*arguments: str, **environ: str) -> Result:
    """The same in this process, which starts in no time."""
    return CliRunner(env=environ).invoke(main, arguments)


@contextmanager
def serving(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "dragoman", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def fetch(url: str, process: subprocess.Popen[str], key: str = "sk-test-key") -> bytes:
    """The body at `url`, as soon as `process` serves it."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})
    for _ in range(1800):
        assert process.poll() is None, process.communicate()[0]
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.URLError:
            time.sleep(0.05)
    pytest.fail(f"{url} was never served")


def test_version() -> None:
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"dragoman, version {dragoman.__version__}\n")


def commands(group: click.Group, name: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield name
    context = click.Context(group)
    for part in group.list_commands(context):
        command = group.get_command(context, part)
        if isinstance(command, click.Group):
            yield from commands(command, (*name, part))
        else:
            yield (*name, part)


@pytest.mark.parametrize("name", list(commands(main)), ids=" ".join)
def test_help_is_whole(name: tuple[str, ...]) -> None:
    """Nothing is cut off where a terminal has 80 columns."""
    shown = CliRunner().invoke(main, [*name, "--help"], terminal_width=80).output
    assert "Usage" in shown
    lines = [line for line in shown.splitlines() if "NAME..." not in line and "ARGS" not in line]
    assert not [line for line in lines if line.endswith("...") or len(line) > 80]


def test_check_a_usable_configuration(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(GOOD)
    result = run("check", str(file), SOME_OPENAI_KEY="sk-1")
    assert result.returncode == 0
    assert result.stderr == ""
    assert result.stdout == (
        f"{file}: usable (1 upstream, 1 account, 1 route, 0 clients, "
        f"store {tmp_path / 'dragoman.db'}, /admin off)\n"
    )


def test_check_warns_of_a_budget_that_refuses_a_model(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(
        GOOD
        + """
[[routes]]
match = "odd"
upstream = "openai"
model = "nobody-knows"
[[clients]]
name = "spender"
key = "sk-spender-of-the-tests"
[[clients.limits]]
kind = "cost"
amount = "1"
window = "day"
"""
    )
    result = invoked("check", str(file), SOME_OPENAI_KEY="sk-1")
    assert result.exit_code == 0
    assert "the key spender has a budget, and the model odd of openai has no price" in result.stderr


def test_check_tells_every_fault(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(GOOD.replace("match", "matsch"))
    result = invoked("check", str(file))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"error: {file}:10: accounts[0].key: environment variable SOME_OPENAI_KEY is not set",
        f"error: {file}:12: routes[0].match: required, but not set",
        f"error: {file}:13: routes[0].matsch: unknown key; did you mean match?",
    ]


def test_check_tells_warnings(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(GOOD + "[[routes]]\nmatch = 'gpt-5'\nupstream = 'openai'\n")
    result = invoked("check", str(file), SOME_OPENAI_KEY="sk-1")
    assert result.exit_code == 0
    assert result.stderr == (
        f"warning: {file}:16: routes[1].match: never reached: routes[0] (gpt-*) matches first\n"
    )


def test_check_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = invoked("check", str(tmp_path / "none.toml"))
    assert result.exit_code == 1
    assert f"there is no configuration at {tmp_path / 'none.toml'}" in result.stderr
    assert "dragoman init" in result.stderr
    assert "Traceback" not in result.stderr


def test_serve_until_interrupted(tmp_path: Path) -> None:
    file, port = tmp_path / "dragoman.toml", free_port()
    file.write_text(f"[server]\nport = {port}\n" + GOOD.replace("env:SOME_OPENAI_KEY", "sk-1"))
    with serving("serve", "--config", str(file)) as process:
        assert fetch(f"http://127.0.0.1:{port}/healthz", process)
        taken = run("demo", "--port", str(port))
        assert taken.returncode == 1
        assert f"cannot listen on 127.0.0.1:{port}" in taken.stderr
        assert "--port names another" in taken.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0


def test_options_win_over_the_configuration(tmp_path: Path) -> None:
    """The file is found by the environment; a store it does not name is beside it."""
    file, port = tmp_path / "mine.toml", free_port()
    file.write_text("[server]\nport = 1\n" + GOOD.replace("env:SOME_OPENAI_KEY", "sk-1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_CONFIG", str(file))
        with serving("serve", "--port", str(port), "--workers", "2") as process:
            for _ in range(200):
                metrics = fetch(f"http://127.0.0.1:{port}/metrics", process).decode()
                if "dragoman_workers 2" in metrics:
                    break
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=10) == 0
            assert process.stdout is not None
            log = process.stdout.read()
    assert "dragoman_workers 2" in metrics
    assert f"serving on http://127.0.0.1:{port}: 1 upstream, 1 account, 1 route, 0 clients" in log
    assert f"store {tmp_path / 'dragoman.db'}, /admin off" in log


def test_options_are_checked_like_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(GOOD.replace("env:SOME_OPENAI_KEY", "sk-1"))
    result = run("serve", "-c", str(file), "--host", "0.0.0.0")
    assert result.returncode == 1
    assert "server.host: anyone who reaches this address" in result.stderr


def test_serve_takes_no_address_of_another_program(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        file = tmp_path / "dragoman.toml"
        file.write_text(f"[server]\nport = {port}\n" + GOOD.replace("env:SOME_OPENAI_KEY", "sk-1"))
        taken = run("serve", "--config", str(file))
    assert taken.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in taken.stderr


def test_serve_refuses_a_faulty_configuration(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("[server]\nhost = '0.0.0.0'\n")
    result = run("serve", "--config", str(file))
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: {file}:2: server.host: ")


def test_simulate_serves_until_interrupted() -> None:
    port = free_port()
    with serving("simulate", "--port", str(port)) as process:
        listed = json.loads(fetch(f"http://127.0.0.1:{port}/v1/models", process))
        assert listed["data"]
        taken = run("simulate", "--port", str(port))
        assert taken.returncode == 1
        assert taken.stderr.startswith(f"Error: cannot listen on 127.0.0.1:{port}")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0


def test_demo_serves_its_three_models() -> None:
    port = free_port()
    with serving("demo", "--port", str(port)) as process:
        url = f"http://127.0.0.1:{port}/v1/models"
        names = {entry["id"] for entry in json.loads(fetch(url, process, demo.KEY))["data"]}
        assert {"sim-chat", "sim-messages", "sim-responses"} <= names
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
        assert process.stdout is not None
        assert f"http://127.0.0.1:{port}" in process.stdout.read()


def test_the_simulators_port_is_its_own() -> None:
    assert SIMULATOR_PORT == DEFAULT_PORT


@pytest.mark.parametrize(
    ("module", "light"), [("dragoman.cli", ()), ("dragoman.config", ("dragoman.protocols",))]
)
def test_what_every_command_imports_is_small(module: str, light: tuple[str, ...]) -> None:
    """Starting is cheap because servers, clients and protocols are imported only to be used. A
    configuration uses the protocols: they declare settings of it."""
    script = f"import sys, {module}; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True, timeout=30
    ).stdout.split()
    heavy = (
        "asyncio",
        "uvloop",
        "httptools",
        "dragoman.server",
        "dragoman.serving",
        "dragoman.protocols",
    )
    assert [name for name in heavy if name in loaded and name not in light] == []


def test_the_store_is_looked_at_without_the_environment_of_the_service(tmp_path: Path) -> None:
    config = tmp_path / "dragoman.toml"
    config.write_text(GOOD + '[admin]\nkey = "env:SOME_ADMIN_KEY"\n' + _CLIENT, encoding="utf-8")
    at = ("-c", str(config))
    for command in (
        ("usage", "--cost"),
        ("audit",),
        ("accounts", "list"),
        ("accounts", "disable", "openai-1"),
        ("key", "add", "bob"),
        ("admin", "list"),
        ("store", "check"),
    ):
        done = invoked(*command, *at)
        assert done.exit_code == 0, (command, done.stderr)
    tested = invoked("accounts", "test", "openai-1", "--model", "gpt-x", *at)
    assert tested.exit_code == 1
    assert "environment variable SOME_OPENAI_KEY is not set" in tested.stderr
    checked = invoked("check", *at)
    assert checked.exit_code == 1
    assert checked.stderr.count("is not set") == 3


_CLIENT = """
[[clients]]
name = "me"
key = "env:SOME_CLIENT_KEY"
"""
