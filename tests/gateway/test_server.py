"""Starting and stopping."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.config import Config, Server
from dragoman.edge.lines import LineWriter
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.processes.listening import bind
from dragoman.server.server import Server as GatewayServer
from dragoman.server.server import build_app
from tests.gateway.clients import APIS, PATHS, body, completed, error_of, stream_error
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import AUTH, JSON, KEY, Connection, call

GRACE_S = 0.4
"""Of gateways whose requests outlast it."""
CONFIG = """
[server]
port = {port}
workers = {workers}
shutdown_grace_s = {grace_s}
[[clients]]
name = "tester"
key = "{key}"
[[upstreams]]
name = "chat"
protocol = "openai_chat"
base_url = "{base_url}"
[[accounts]]
name = "one"
upstream = "chat"
key = "sk-sim-one"
"""


def test_other_machines_need_a_key() -> None:
    with pytest.raises(ValueError, match="loopback"):
        build_app(Config(server=Server(host="0.0.0.0")))


@contextmanager
def serving(
    tmp_path: Path, simulator: RunningSimulator, workers: int, grace_s: int = 3
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with bind("127.0.0.1", 0) as plug:
        port = plug.getsockname()[1]
    file = tmp_path / "dragoman.toml"
    file.write_text(
        CONFIG.format(
            port=port, workers=workers, grace_s=grace_s, key=KEY, base_url=simulator.base_url
        )
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "serve", "--config", str(file)],
        stderr=subprocess.PIPE,
        text=True,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 15
        while True:
            try:
                assert call(url, "GET", "/readyz").status == 200
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield process, url
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert process.stderr is not None
        process.stderr.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_serve_and_stop(tmp_path: Path, simulator: RunningSimulator, workers: int) -> None:
    with serving(tmp_path, simulator, workers) as (process, url):
        for _ in range(4):
            answer = call(url, "POST", PATHS["messages"], body("messages", "chat/sim-text"))
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=15)
    assert process.returncode == 0
    lines = [json.loads(line) for line in log.splitlines() if '"request_id"' in line]
    assert len([line for line in lines if line["route"] == "POST /v1/messages"]) == 4
    assert KEY not in log
    assert "sk-sim" not in log


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def test_who_is_told_to_stop_while_it_starts_does(simulator: RunningSimulator) -> None:
    """The sockets are closed by then."""
    server = GatewayServer(build_app(config_for(simulator.base_url), None))
    start = server.app.start

    async def told_meanwhile() -> None:
        await start()
        server.stop()
        await asyncio.sleep(0)

    server.app.start = told_meanwhile  # type: ignore[method-assign]
    with bind("127.0.0.1", 0) as sock:
        server.run([sock])
    assert not server.started


@pytest.mark.parametrize(("workers", "number"), [(1, signal.SIGTERM), (2, signal.SIGINT)])
def test_every_request_is_logged_before_the_end(
    tmp_path: Path, simulator: RunningSimulator, workers: int, number: signal.Signals
) -> None:
    with serving(tmp_path, simulator, workers) as (process, url), Connection(url) as connection:
        made = body("chat", "chat/sim-text?delay_ms=50&words=10", stream=True)
        connection.send("POST", PATHS["chat"], made, AUTH)
        connection.head()
        process.send_signal(number)
        assert completed("chat", b"".join(iter(connection.chunk, b"")))
        _, log = process.communicate(timeout=15)
    assert process.returncode == 0
    assert '"route":"POST /v1/chat/completions","status":200' in log
    assert "Traceback" not in log


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_interrupt_does_not_wait_for_what_is_in_flight(
    tmp_path: Path, simulator: RunningSimulator, workers: int
) -> None:
    with (
        serving(tmp_path, simulator, workers, grace_s=600) as (process, url),
        Connection(url) as connection,
    ):
        made = body("chat", "chat/sim-text?delay_ms=50&words=20000", stream=True)
        connection.send("POST", PATHS["chat"], made, AUTH)
        connection.head()
        process.send_signal(signal.SIGTERM)
        until_refused(url)
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "Traceback" not in log


def test_who_comes_too_late_is_refused_at_once(tmp_path: Path, simulator: RunningSimulator) -> None:
    """And not kept waiting in the queue of a socket that nobody listens on."""
    with serving(tmp_path, simulator, 2) as (process, url), Connection(url) as connection:
        made = body("chat", "chat/sim-text?delay_ms=50&words=2000", stream=True)
        connection.send("POST", PATHS["chat"], made, AUTH)
        connection.head()
        process.send_signal(signal.SIGTERM)
        until_refused(url)
        assert process.poll() is None


def until_refused(url: str) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            Connection(url).sock.close()
        except ConnectionRefusedError:
            return
        time.sleep(0.02)
    raise TimeoutError("it still listens")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs procfs")
def test_workers_do_not_outlive_their_parent(tmp_path: Path, simulator: RunningSimulator) -> None:
    with serving(tmp_path, simulator, 2) as (process, url):
        process.kill()
        process.wait(timeout=15)
        until_refused(url)


def test_a_log_that_nobody_reads_stops_nothing(tmp_path: Path, simulator: RunningSimulator) -> None:
    with serving(tmp_path, simulator, 1) as (process, url), Connection(url) as connection:
        for _ in range(1500):
            connection.send("GET", "/healthz")
            assert connection.answer().status == 200
        process.terminate()
        assert process.wait(timeout=15) == 0


def test_a_stopped_reader_does_not_stop_the_end(
    tmp_path: Path, simulator: RunningSimulator
) -> None:
    with (
        serving(tmp_path, simulator, 1, grace_s=1) as (process, url),
        Connection(url) as connection,
    ):
        made = body("chat", "chat/sim-flood?events=100000&bytes=1000", stream=True)
        connection.send("POST", PATHS["chat"], made, AUTH)
        connection.head()
        process.terminate()
        assert process.wait(timeout=15) == 0


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs procfs")
def test_a_worker_that_dies_is_replaced(tmp_path: Path, simulator: RunningSimulator) -> None:
    with serving(tmp_path, simulator, 2) as (process, url):
        before = children(process.pid)
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        deadline = time.monotonic() + 10
        while len(set(children(process.pid)) - set(before)) != 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for _ in range(4):
            assert call(url, "GET", "/healthz").status == 200
        workers = children(process.pid)
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("api", APIS)
def test_requests_in_flight_are_finished(start: Start, api: str) -> None:
    gateway = start(server=Server(shutdown_grace_s=5))
    with Connection(gateway.base_url) as connection:
        made = body(api, "chat/sim-text?delay_ms=50&words=8", stream=True)
        connection.send("POST", PATHS[api], made, AUTH)
        assert connection.head().status == 200
        gateway.stop()
        assert completed(api, b"".join(iter(connection.chunk, b"")))
    with pytest.raises(OSError):  # noqa: PT011  # refused or reset, by whoever is faster
        call(gateway.base_url, "GET", "/healthz")


@pytest.mark.parametrize("api", APIS)
def test_streams_that_outlast_the_grace_end_in_an_error(start: Start, api: str) -> None:
    gateway = start(server=Server(shutdown_grace_s=GRACE_S))
    with Connection(gateway.base_url) as connection:
        made = body(api, "messages/sim-text?delay_ms=50&words=5000", stream=True)
        connection.send("POST", PATHS[api], made, AUTH)
        assert connection.head().status == 200
        gateway.stop()
        stream = b"".join(iter(connection.chunk, b""))
    error = stream_error(api, stream)
    assert error is not None
    assert "shutting down" in error["message"]
    assert not completed(api, stream)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [False, True])
def test_answers_that_outlast_the_grace_are_refused(start: Start, api: str, stream: bool) -> None:
    gateway = start(server=Server(shutdown_grace_s=GRACE_S, commit_after_s=0))
    with Connection(gateway.base_url) as connection:
        made = body(api, "messages/sim-text?head_ms=20000", stream=stream)
        connection.send("POST", PATHS[api], made, AUTH)
        threading.Timer(0.3, gateway.stop).start()
        answer = connection.answer()
    assert answer.status == (529 if api == "messages" else 503)
    assert "shutting down" in error_of(api, answer)["message"]


@pytest.mark.parametrize("api", APIS)
def test_bodies_that_outlast_the_grace_are_refused(start: Start, api: str) -> None:
    gateway = start(server=Server(shutdown_grace_s=GRACE_S))
    with Connection(gateway.base_url) as connection:
        connection.send("POST", PATHS[api], headers={**JSON, **AUTH, "content-length": "100"})
        connection.sock.sendall(b"{")
        threading.Timer(0.1, gateway.stop).start()
        answer = connection.answer()
    assert answer.status == (529 if api == "messages" else 503)
    assert "shutting down" in error_of(api, answer)["message"]


def test_a_body_that_never_comes(start: Start) -> None:
    """A client that leaves in the middle of its own body is no trouble."""
    gateway = start()
    with Connection(gateway.base_url) as connection:
        headers = {**JSON, **AUTH, "content-length": "100"}
        connection.send("POST", PATHS["chat"], headers=headers)
        connection.sock.sendall(b"{")
    assert call(gateway.base_url, "GET", "/healthz").status == 200


def test_bind() -> None:
    with bind("localhost", 0) as plug:
        port = plug.getsockname()[1]
        plug.listen()
        with pytest.raises(OSError, match="in use"):
            bind("localhost", port)
    if socket.has_ipv6:
        with bind("::1", 0) as plug:
            assert plug.family is socket.AF_INET6


async def test_log_lines_are_written_together() -> None:
    reader, writer = os.pipe()
    try:
        lines = LineWriter(writer)
        for number in range(3):
            lines(b"line %d" % number)
        assert not select.select([reader], [], [], 0)[0]
        await asyncio.sleep(0.2)
        assert os.read(reader, 1000) == b"line 0\nline 1\nline 2\n"
        for _ in range(512):
            lines(b"x")
        assert os.read(reader, 10_000) == b"x\n" * 512
        lines(b"last")
        lines.flush()
        assert os.read(reader, 1000) == b"last\n"
        for size in (4094, 4095, 4096, 4097, 9000):
            lines(b"y" * size)
            lines.flush()
            assert os.read(reader, 100_000) == b"y" * size + b"\n"
    finally:
        os.close(reader)
        os.close(writer)
    lines(b"nobody reads this")
    lines.flush()


async def test_log_lines_wait_for_a_slow_reader_and_not_for_a_stopped_one() -> None:
    reader, writer = os.pipe()
    try:
        lines = LineWriter(writer)
        for number in range(1000):
            lines(b"%04d" % number + b"x" * 500)
        got = b""
        while got.count(b"\n") < 1000:
            if select.select([reader], [], [], 0)[0]:
                got += os.read(reader, 65536)
            await asyncio.sleep(0.01)
        assert [int(line[:4]) for line in got.splitlines()] == list(range(1000))
        for _ in range(100_000):
            lines(b"z" * 500)
        lines.flush()
    finally:
        os.close(reader)
        os.close(writer)
    lines.flush()


def test_a_client_that_waits_to_be_asked_for_its_body(start: Start) -> None:
    """`expect: 100-continue`: asked for when wanted, refused without reading when not."""
    gateway = start()
    made = json.dumps(body("chat", "chat/sim-text")).encode()
    for auth, status in ((AUTH, 200), ({}, 401)):
        with Connection(gateway.base_url) as connection:
            headers = {**JSON, **auth, "expect": "100-continue"}
            headers["content-length"] = str(len(made))
            connection.send("POST", PATHS["chat"], headers=headers)
            first = connection.head()
            if status == 200:
                assert first.status == 100
                connection.sock.sendall(made)
                first = connection.answer()
            assert first.status == status


@pytest.mark.parametrize("api", APIS)
def test_head_and_first_event_come_together(start: Start, api: str) -> None:
    """One packet, and so one wakeup of the client."""
    gateway = start()
    with Connection(gateway.base_url) as connection:
        made = body(api, "chat/sim-text?delay_ms=50", stream=True)
        connection.send("POST", PATHS[api], made, AUTH)
        data = connection.sock.recv(65536)
    assert data.startswith(b"HTTP/1.1 200")
    assert b"data: " in data
