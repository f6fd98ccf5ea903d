"""Gateways as they are run: processes of their own, with workers that can be told apart."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.gateway.http import AUTH, KEY, Answer, Connection, call
from tests.upstream.servers import free_port

CONFIG = """
[server]
port = {port}
workers = {workers}
shutdown_grace_s = {grace_s}
{server}
[[clients]]
name = "tester"
key = "{key}"
[[upstreams]]
name = "chat"
protocol = "openai_chat"
base_url = "{base_url}"
{upstream}
[storage]
path = "{store}"
sync_s = {sync_s}
key = "env:STORE_KEY"
{storage}
"""
ACCOUNT = """
[[accounts]]
name = "{name}"
upstream = "chat"
key = "{key}"
"""
STORE_KEY = "correct horse battery"
STORE = "kept.db"
SYNC_S = 0.05
START_S = 90.0
"""Of processes, on a machine that has other work for all of its cores."""

ASKED = {"model": "chat/sim-text", "messages": [{"role": "user", "content": "hi"}]}


@dataclass
class GatewayProcess:
    """A gateway that runs. `store` is its file, `log` what it has written when it has ended."""

    process: subprocess.Popen[str]
    url: str
    store: Path
    log: str = field(default="")

    def workers(self) -> list[int]:
        """The ids of the processes that serve, the oldest first."""
        pid = self.process.pid
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in text.split()]

    def kill_all(self) -> None:
        """End every process at once, without a chance to do anything."""
        workers = self.workers()
        self.process.kill()
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        self._ended()

    def stop(self) -> None:
        """End as an operator would."""
        self.process.send_signal(signal.SIGTERM)
        self._ended()

    def _ended(self) -> None:
        _, self.log = self.process.communicate(timeout=20)


@contextmanager
def gateway_process(
    folder: Path,
    base_url: str,
    keys: dict[str, str],
    *,
    workers: int = 1,
    name: str = "one",
    server: str = "",
    files: int | None = None,
    account: str = "",
    store: str = STORE,
    storage: str = "",
    upstream: str = "",
    tables: str = "",
    sync_s: float = SYNC_S,
    port: int | None = None,
    grace_s: int = 3,
    source: Path | None = None,
) -> Iterator[GatewayProcess]:
    """Serve with an account for each of `keys`; gateways of one folder share a store. `server` are
    further settings of it, `account` of each account, `storage` of the store, `upstream` of the
    upstream, `tables` further tables, `files` those that each process may have open, `port` where
    it takes over from another gateway, by default a free one, `grace_s` how long it may take to
    end, `source` the folder with the package of another version."""
    takes_over = [] if port is None else ["--take-over"]
    port = free_port() if port is None else port
    file = folder / f"{name}.toml"
    text = CONFIG.format(
        port=port,
        workers=workers,
        grace_s=grace_s,
        server=server,
        key=KEY,
        base_url=base_url,
        store=store,
        sync_s=sync_s,
        storage=storage,
        upstream=upstream,
    )
    file.write_text(
        text
        + "".join(ACCOUNT.format(name=name, key=key) + account for name, key in keys.items())
        + tables
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "serve", "--config", str(file), *takes_over],
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "STORE_KEY": STORE_KEY,
            **({} if source is None else {"PYTHONPATH": str(source)}),
        },
    )
    if files is not None:
        # Before it asks how many there are.
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (files, files))
    running = GatewayProcess(process, f"http://127.0.0.1:{port}", folder / STORE)
    try:
        until(lambda: _serves(running), START_S)
        yield running
    finally:
        if process.poll() is None:
            running.stop()


@contextmanager
def simulator_process() -> Iterator[tuple[str, int]]:
    """Serve the simulator from a process of its own; yields its base URL and process id."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "dragoman", "simulate", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: _answers(url), START_S)
            yield url, process.pid
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        return call(url, "GET", "/v1/models").status > 0
    except OSError:
        return False


def _serves(running: GatewayProcess) -> bool:
    assert running.process.poll() is None, running.process.communicate()[1]
    try:
        return call(running.url, "GET", "/healthz").status == 200
    except OSError:
        return False


def until(
    holds: Callable[[], bool], seconds: float = 60.0, told: Callable[[], str] = lambda: ""
) -> None:
    """Wait until something holds, which is looked at less and less often; `told` is what a failure
    shows."""
    deadline = time.monotonic() + seconds
    pause = 0.001
    while not holds():
        assert time.monotonic() < deadline, f"it never came to that\n{told()}"
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def ask(connection: Connection) -> Answer:
    """One request on a connection that is kept."""
    connection.send("POST", "/v1/chat/completions", ASKED, AUTH)
    return connection.answer()


@contextmanager
def connection_of_each(running: GatewayProcess) -> Iterator[list[Connection]]:
    """A connection to each worker, in the order of `workers()`."""
    workers = running.workers()
    found: dict[int, Connection] = {}
    others: list[Connection] = []
    try:
        while len(found) < len(workers):
            assert len(others) < 500, "some worker takes no connections"
            # Those that nobody uses keep none of the workers busy: a few at once spread better.
            some = [Connection(running.url) for _ in range(8)]
            for connection in some:
                connection.send("GET", "/healthz")
            for connection in some:
                assert connection.answer().status == 200
                found.setdefault(_worker_of(connection, workers), connection)
            others += some
        yield [found[pid] for pid in workers]
    finally:
        for connection in others:
            connection.sock.close()


def _worker_of(connection: Connection, workers: Iterable[int]) -> int:
    """The process that has the other end of a connection on this machine."""
    own, peer = connection.sock.getsockname()[1], connection.sock.getpeername()[1]
    ends = f":{peer:04X}", f":{own:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
            name = f"socket:[{fields[9]}]"
            for pid in workers:
                if any(_target(entry) == name for entry in Path(f"/proc/{pid}/fd").iterdir()):
                    return pid
    raise LookupError("nobody has the other end")


def _target(entry: Path) -> str:
    try:
        return os.readlink(entry)
    except OSError:
        return ""
