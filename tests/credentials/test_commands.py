"""Credentials that a command prints."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from datetime import UTC, datetime
from math import inf
from pathlib import Path

import pytest

from dragoman.accounts.credentials.decide.signing import AwsKeys
from dragoman.accounts.credentials.place import Place
from tests.credentials.environments import Clouds, failure, settings_of, token_of

MOMENT = datetime.fromtimestamp(int(time.time()) + 90_000, UTC)


def script(folder: Path, text: str) -> str:
    """A program; returns the setting that runs it."""
    file = folder / "program"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o700)
    return f'kind = "command", command = ["{file}", "one argument"]'


async def test_the_trimmed_text_is_the_token(tmp_path: Path) -> None:
    run = script(tmp_path, 'printf "  of $1 for $WHO $UNKNOWN \\n\\n"')
    more = 'refresh_s = 900, environment = { WHO = "me" }'
    clouds = Clouds({"UNKNOWN": "not passed on"})
    found = await clouds.obtain(settings_of(f"{run}, {more}"))
    assert token_of(found) == "of one argument for me"
    assert found.expires_at == inf
    assert 890 < found.refresh_at - time.time() <= 900


@pytest.mark.parametrize(
    ("output", "printed", "token", "life"),
    [
        ("json", {"access_token": "a", "expires_in": "60000"}, "a", 60_000),
        ("json", {"token": "t", "expires_at": MOMENT.isoformat()}, "t", 90_000),
        ("json", {"api_key": "k", "expires_at": MOMENT.timestamp()}, "k", 90_000),
        ("json", {"api_key": "k"}, "k", inf),
        (
            "kubernetes",
            {"status": {"token": "k8s", "expirationTimestamp": MOMENT.isoformat()}},
            "k8s",
            90_000,
        ),
        ("kubernetes", {"status": {"token": "k8s"}}, "k8s", inf),
    ],
)
async def test_objects_are_read_as_the_output_says(
    tmp_path: Path, output: str, printed: object, token: str, life: float
) -> None:
    (tmp_path / "printed").write_text(json.dumps(printed))
    run = script(tmp_path, f"cat {tmp_path}/printed")
    found = await Clouds().obtain(settings_of(f'{run}, output = "{output}"'))
    assert token_of(found) == token
    assert found.expires_at - time.time() == pytest.approx(life, abs=3000)


async def test_keys_of_aws_and_keys_in_the_headers_of_their_service(tmp_path: Path) -> None:
    keys = {"Version": 1, "AccessKeyId": "I", "SecretAccessKey": "s", "SessionToken": "t"}
    (tmp_path / "printed").write_text(json.dumps(keys))
    run = script(tmp_path, f"cat {tmp_path}/printed")
    found = await Clouds().obtain(settings_of(f'{run}, output = "aws"'))
    assert found.keys == AwsKeys("I", "s", "t")
    run = script(tmp_path, "echo of-an-api-key-helper")
    found = await Clouds().obtain(settings_of(run), Place("https://x.example", "x-api-key"))
    assert found.headers == (("x-api-key", "of-an-api-key-helper"),)


async def test_kubernetes_programs_are_told_what_is_asked_of_them(tmp_path: Path) -> None:
    count = "$(echo $KUBERNETES_EXEC_INFO | wc -w)"
    run = script(tmp_path, f"""printf '{{"status":{{"token":"%s"}}}}' "{count}" """)
    found = await Clouds().obtain(settings_of(f'{run}, output = "kubernetes"'))
    assert token_of(found) == "1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exit 3", "failed with status 3"),
        ("echo no vault >&2; echo of $TOKEN_OF_MINE >&2; exit 1", r"status 1$"),
        ("echo two words; echo on-two-lines", "no token"),
        ("true", "no token"),
        ("head -c 100000 /dev/zero | tr '\\0' x; sleep 60", "more than 65536 bytes"),
        ("sleep 60", "took more than 0.3 s"),
    ],
)
async def test_what_a_command_does_wrong_is_the_reason(
    tmp_path: Path, text: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What it prints is for operators, in the log."""
    run = script(tmp_path, text)
    more = 'timeout_s = 0.3, environment = { TOKEN_OF_MINE = "very-secret-value" }'
    if "took" not in message:
        more = more.replace("0.3", "30")
    error = await failure(Clouds(), f"{run}, {more}")
    assert error.problem == "unavailable"
    assert re.search(message, str(error))
    assert ("of [hidden]" in caplog.text) is ("no vault" in text)
    assert "very-secret-value" not in f"{error}{caplog.text}"


def test_all_that_a_command_has_started_is_killed(tmp_path: Path) -> None:
    run = script(tmp_path, f"sleep 300 & echo $! > {tmp_path}/child; wait")
    asyncio.run(failure(Clouds(), f"{run}, timeout_s = 2"))
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 30
    while _runs(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_leaves_the_group_of_a_command_holds_no_file_of_the_gateway(tmp_path: Path) -> None:
    """A daemon that a command starts would, with each time, cost two until there are none."""
    child = tmp_path / "child"
    run = script(tmp_path, f"setsid sleep 300 & echo $! > {child}; echo token")

    async def opened() -> list[int]:
        counts = []
        for _ in range(3):
            await failure(Clouds(), f"{run}, timeout_s = 0.3")
            pids.append(int(child.read_text()))
            await asyncio.sleep(0)
            counts.append(len(os.listdir("/proc/self/fd")))
        return counts

    pids: list[int] = []
    try:
        first, *_, last = asyncio.run(opened())
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    assert first == last


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_a_command_that_is_not_there_is_a_reason() -> None:
    error = await failure(Clouds(), 'kind = "command", command = ["/nowhere/program"]')
    assert "cannot be started (No such file or directory)" in str(error)
