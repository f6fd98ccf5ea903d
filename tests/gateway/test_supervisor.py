"""Workers that crash, hang or are told something, and what those around them notice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.processes.backoff import FIRST_S, HEALTHY_S, MOST_S, BackOff
from dragoman.processes.table import SILENT_S, WorkerTable
from tests.gateway.clients import PATHS, body, completed
from tests.gateway.http import AUTH, KEY, Connection, call
from tests.gateway.services import Services, end_process, needs_linux, services, until

WORKERS_THAT_DO_AS_THEY_ARE_TOLD = """
import logging, os, signal, sys, time
from dragoman.link.owner import Owner
from dragoman.processes.forks import Forks
from dragoman.processes.supervisor import Supervisor
from dragoman.processes.table import WorkerTable
from dragoman.processes.take_over import Offer
from dragoman.processes.worker import show_stacks

logging.basicConfig(level=logging.INFO, format="%(message)s")
table = WorkerTable(2)

def runs_in_a_circle(secret):
    while True:
        pass

class Workers:
    def work(self, number, sock):
        work(number)

    async def start(self):
        pass

    def on_serving(self):
        print("all serve", flush=True)

    def on_hangup(self):
        print("hung up", flush=True)

    async def on_stop(self):
        pass

    async def close(self):
        print("closed", flush=True)

def work(number):
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    show_stacks()
    # In one piece: two processes write to the same pipe.
    os.write(1, b"started %d%c" % (number, 10))
    {before}
    table.serving(number)
    for turn in range(100_000):
        table.beat(number)
        time.sleep(0.05)
        if number == 1 and turn > 5:
            {action}

Supervisor(
    table, Workers(), grace_s=1, stuck_after_s=1, offer=Offer([], lambda: None),
    owner=Owner(), forks=Forks(),
).run()
"""


@pytest.fixture
def running(tmp_path: Path, simulator: RunningSimulator) -> Iterator[Services]:
    with services(tmp_path, simulator.base_url) as found:
        yield found


def supervised(
    folder: Path, action: str, before: str = "pass", *, enough: Callable[[str, str], bool]
) -> tuple[str, str, int]:
    """Output, log and status of a supervisor of two workers that is stopped, unless it ends, when
    the first two are `enough`; worker 1 does `action` again and again."""
    text = WORKERS_THAT_DO_AS_THEY_ARE_TOLD.format(action=action, before=before)
    output, log = folder / "output", folder / "log"
    with output.open("w") as out, log.open("w") as errors:
        process = subprocess.Popen([sys.executable, "-c", text], stdout=out, stderr=errors)
    try:
        until(lambda: process.poll() is not None or enough(output.read_text(), log.read_text()))
    finally:
        process.terminate()
        process.wait(10)
    return output.read_text(), log.read_text(), process.returncode


WAITS = re.compile(r"another starts in ([\d.]+) s")


def test_a_worker_that_keeps_crashing_is_started_at_growing_intervals(tmp_path: Path) -> None:
    """The other one is left alone, and so is the supervisor."""
    output, log, status = supervised(
        tmp_path,
        "os.kill(os.getpid(), signal.SIGSEGV)",
        enough=lambda _, log: len(WAITS.findall(log)) >= 4,
    )
    assert status == 0, log
    waits = [float(found) for found in WAITS.findall(log)]
    assert waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert output.count("started 0") == 1
    assert len(waits) <= output.count("started 1") <= len(waits) + 1
    assert "ended with SIGSEGV" in log
    assert output.count("all serve") == 1


def test_a_stuck_worker_is_shown_and_replaced(tmp_path: Path) -> None:
    output, log, status = supervised(
        tmp_path,
        "runs_in_a_circle('sk-secret')",
        enough=lambda output, _: output.count("started 1") >= 2,
    )
    assert status == 0, log
    assert "worker 1" in log
    assert "worker 0" not in log
    assert "its stack follows" in log
    assert "in runs_in_a_circle" in log
    assert "sk-secret" not in log
    assert re.search(r"stuck for 1 s and is replaced", log)
    assert output.count("started 1") >= 2
    assert output.count("started 0") == 1


def test_what_never_serves_ends(tmp_path: Path) -> None:
    """What all have in common is at fault, and who started it is told."""
    output, log, status = supervised(
        tmp_path, "pass", "raise RuntimeError('no')", enough=lambda *_: False
    )
    assert status == 1
    assert "workers end before they serve" in log
    assert "all serve" not in output


def test_back_off() -> None:
    back_off = BackOff()
    assert [back_off.ended(1.0) for _ in range(4)] == [FIRST_S * 2**step for step in range(4)]
    for _ in range(100):
        assert back_off.ended(HEALTHY_S - 1) <= MOST_S
    assert back_off.ended(1.0) == MOST_S
    assert back_off.ended(HEALTHY_S) == 0
    assert back_off.ended(1.0) == FIRST_S


def test_who_takes_the_connections_of_a_silent_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each silent one has one taker, whatever the others are; one that starts is left alone."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    table = WorkerTable(4)
    for number in range(4):
        table.started(number)
    assert table.count_serving() == 0
    assert [table.orphans(number) for number in range(4)] == [set()] * 4
    for number in range(4):
        table.serving(number)
    assert table.count_serving() == 4
    table.ended(1)
    assert [table.orphans(number) for number in range(4)] == [set(), set(), {1}, set()]
    now[0] += SILENT_S + 1
    table.beat(3)
    assert table.orphans(3) == {0, 1, 2}
    table.started(1)
    assert table.orphans(3) == {0, 2}
    assert table.count_serving() == 1
    assert table.restarts() == 1


def six_times_in_three_seconds(running: Services) -> None:
    service = running.started[0]
    for _ in range(6):
        for pid in service.workers()[:2]:
            end_process(pid)
        time.sleep(0.5)


@needs_linux
def test_workers_that_are_killed_again_and_again_do_not_end_the_gateway(running: Services) -> None:
    service = running.start(workers=3)
    until(lambda: ready(running.url).get("serving") == 3)
    six_times_in_three_seconds(running)
    assert service.process.poll() is None, service.log()
    until(lambda: ready(running.url).get("serving") == 3, service.log)
    found = ready(running.url)
    assert found["status"] == "ready"
    assert found["workers"] == 3
    assert found["restarts"] >= 6
    metrics = call(running.url, "GET", "/metrics").body.decode()
    assert "\ndragoman_workers 3\n" in metrics
    restarts = re.search(r"\ndragoman_worker_restarts_total (\d+)\n", metrics)
    assert restarts is not None
    assert int(restarts[1]) >= 6


def ready(url: str) -> dict[str, Any]:
    try:
        with Connection(url) as connection:
            connection.sock.settimeout(3)
            connection.send("GET", "/readyz")
            found: dict[str, Any] = connection.answer().json
            return found
    except OSError:
        return {}


STUCK_SOON = (
    "-c",
    "from dragoman.cli import main; from dragoman.server import service; "
    "service.STUCK_AFTER_S = 8.0; main()",
)
"""Runs the command with a shorter time than workers have."""


@needs_linux
def test_nobody_waits_for_a_worker_that_hangs(running: Services) -> None:
    """New connections are taken by the others as soon as it is silent, long before it is replaced;
    then it serves again."""
    service = running.start(workers=2, settings="shutdown_grace_s = 2", run=STUCK_SOON)
    until(lambda: ready(running.url).get("serving") == 2)
    hanging = service.workers()[0]
    os.kill(hanging, signal.SIGSTOP)
    time.sleep(SILENT_S + 1)
    assert hanging in service.workers()
    begun = time.monotonic()
    for _ in range(60):
        assert call(running.url, "GET", "/healthz").status == 200
    assert time.monotonic() - begun < 3
    assert ready(running.url)["serving"] == 1
    until(lambda: hanging not in service.workers())
    until(lambda: ready(running.url).get("serving") == 2)
    for _ in range(20):
        assert call(running.url, "GET", "/healthz").status == 200
    service.until_logged("is stuck for 8 s and is replaced")


@needs_linux
@pytest.mark.parametrize("workers", [1, 2])
def test_a_hangup_ends_nothing(running: Services, workers: int) -> None:
    """Not even a stream; one line tells what is served by all."""
    service = running.start(workers=workers)
    until(lambda: ready(running.url).get("serving", 1) == workers if ready(running.url) else False)
    before = service.workers()
    with Connection(running.url) as connection:
        made = body("chat", "chat/sim-text?delay_ms=50&words=30", stream=True)
        connection.send("POST", PATHS["chat"], made, AUTH)
        connection.head()
        for count in range(1, 4):
            service.process.send_signal(signal.SIGHUP)
            service.until_logged(f"configuration {count + 1} is served: nothing changed")
        assert completed("chat", b"".join(iter(connection.chunk, b"")))
    assert service.workers() == before
    assert service.stop() == 0
    assert KEY not in service.log()


@needs_linux
def test_the_last_request_of_an_idle_connection(running: Services) -> None:
    """It is answered, and the client told that it was the last."""
    service = running.start()
    until(lambda: bool(ready(running.url)))
    with Connection(running.url) as connection:
        connection.send("GET", "/healthz")
        assert connection.answer().headers.get("connection") != "close"
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        connection.send("GET", "/healthz")
        answer = connection.answer()
        assert answer.status == 200
        assert answer.headers["connection"] == "close"
    assert service.process.wait(timeout=10) == 0


@needs_linux
def test_no_process_writes_its_memory_to_a_disk(
    tmp_path: Path, simulator: RunningSimulator
) -> None:
    """A core dump would hold keys and prompts."""
    with services(tmp_path, simulator.base_url) as running:
        service = running.start(workers=2)
        until(lambda: len(service.workers()) >= 2)
        for pid in (service.pid, *service.workers()):
            limits = Path(f"/proc/{pid}/limits").read_text()
            assert re.search(r"Max core file size +0 +0 ", limits), limits
