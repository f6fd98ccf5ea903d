"""Gateways as a service manager runs them: started beside one another, told by signals, logged to
a file."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dragoman.processes.listening import bind
from tests.gateway import processes
from tests.gateway.http import KEY

CONFIG = """
[server]
port = {port}
workers = {workers}
{settings}
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
[storage]
path = ""
"""
START_S = 90.0
"""Of processes, on a machine that has other work for all of its cores."""

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
needs_files = pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 4096,
    reason="needs 4096 open files: ulimit -n 4096",
)


@dataclass
class Service:
    """One `dragoman serve`. `log_file` takes its standard error."""

    process: subprocess.Popen[bytes]
    url: str
    log_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        """What it has written so far."""
        return self.log_file.read_text()

    def workers(self) -> list[int]:
        """The ids of the processes that serve, the oldest first."""
        text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(child) for child in text.split()]

    def until_logged(self, pattern: str, count: int = 1) -> None:
        """Wait until it has written something so many times."""
        until(lambda: len(re.findall(pattern, self.log())) >= count, self.log)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; gives the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


def until(
    holds: Callable[[], bool], told: Callable[[], str] = lambda: "", seconds: float = START_S
) -> None:
    """Wait until something holds; `told` is what a failure shows."""
    processes.until(holds, seconds, told)


@dataclass
class Services:
    """Starts gateways that share an address; all that still run are ended with the test."""

    folder: Path
    base_url: str
    port: int
    stack: ExitStack
    started: list[Service] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(
        self,
        *,
        workers: int = 1,
        settings: str = "shutdown_grace_s = 10",
        serves: str = r'"route":"GET /readyz"|serving on|took over',
        pass_fds: Sequence[int] = (),
        prefix: Sequence[str] = (),
        run: Sequence[str] = ("-m", "dragoman"),
        options: Sequence[str] = ("--take-over",),
    ) -> Service:
        """Start one; it has bound or taken its sockets when this returns, or logged what `serves`
        matches."""
        name = f"gateway-{len(self.started)}"
        config = self.folder / f"{name}.toml"
        config.write_text(
            CONFIG.format(
                port=self.port, workers=workers, settings=settings, key=KEY, base_url=self.base_url
            )
        )
        log = self.folder / f"{name}.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [*prefix, sys.executable, *run, "serve", "--config", str(config), *options],
                stderr=errors,
                pass_fds=pass_fds,
            )
        service = Service(process, self.url, log)
        self.started.append(service)
        self.stack.callback(_end, service)
        service.until_logged(serves)
        return service


def _end(service: Service) -> None:
    if service.process.poll() is not None:
        return
    try:
        service.stop()
    except subprocess.TimeoutExpired:
        service.process.kill()
        service.process.wait()
        raise


@contextmanager
def services(folder: Path, base_url: str) -> Iterator[Services]:
    """Gateways on one free port."""
    with bind("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
    with ExitStack() as stack:
        yield Services(folder, base_url, port, stack)


def end_process(pid: int) -> None:
    """Kill a worker."""
    os.kill(pid, signal.SIGKILL)
