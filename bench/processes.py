"""Starts the processes of a benchmark and reads what they cost from ``/proc``."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def pinned(command: Sequence[str], core: int | None) -> list[str]:
    """The command, held to one core where ``taskset`` exists."""
    taskset = shutil.which("taskset")
    if core is None or taskset is None:
        return list(command)
    return [taskset, "-c", str(core), *command]


def descendants(pid: int) -> list[int]:
    """The process and all its children, their children and so on."""
    found = [pid]
    for parent in found:
        for tasks in Path(f"/proc/{parent}/task").glob("*/children"):
            found.extend(int(child) for child in tasks.read_text().split())
    return found


def _start_of(pid: int) -> str:
    """When a process was started, in ticks since the machine was; empty if there is none."""
    try:
        # The second field is a name in parentheses, which may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def cpu_seconds(pid: int) -> float:
    """CPU time used so far by a process and its children, in seconds.

    Taken from the clocks of the processes, which count nanoseconds and keep what threads used that
    have ended; ``/proc`` counts in steps of 10 ms or forgets those.
    """
    nanoseconds = 0
    for process in descendants(pid):
        # As the C library makes it in clock_getcpuclockid(3): 2 stands for time scheduled.
        clock = (~process << 3) | 2
        with contextlib.suppress(OSError):
            nanoseconds += time.clock_gettime_ns(clock)
    return nanoseconds / 1e9


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and its children, in bytes."""
    pages = 0
    for process in descendants(pid):
        pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * _PAGE


def free_port() -> int:
    """A port of this machine that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, process: "subprocess.Popen[bytes]", seconds: float) -> float:
    """Wait until something listens; the seconds it took.

    :raises RuntimeError: the process ended, or the time is over.
    """
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with status {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=0.2).close()
        except OSError:
            time.sleep(0.02)
        else:
            return time.perf_counter() - start
    raise RuntimeError(f"{process.args!r} did not listen on port {port} within {seconds:g} s")


class Child:
    """A process that is ended when the ``with`` block is left.

    ``log`` takes its output; the tail is shown when it fails to start. ``env`` is added to this
    process's environment, or is the whole of it where ``inherit`` is false.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        core: int | None,
        log: Path,
        env: Mapping[str, str] | None = None,
        inherit: bool = True,
    ) -> None:
        self.command = pinned(command, core)
        self.log = log
        self.env = {**(os.environ if inherit else {}), **(env or {})}

    def __enter__(self) -> "Child":
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                self.command, stdout=output, stderr=subprocess.STDOUT, env=self.env
            )
        return self

    def __exit__(self, *_: object) -> None:
        family = {pid: _start_of(pid) for pid in descendants(self.pid)[1:]}
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        for pid, start in family.items():
            # What it started and left behind, unless the number is another process's by now.
            if start and _start_of(pid) == start:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        return self.process.pid

    def listening(self, port: int, seconds: float = 15.0) -> float:
        """Wait until the process listens on ``port``; the seconds it took.

        :raises RuntimeError: it did not; the message has the last lines of its output.
        """
        try:
            return wait_for_port(port, self.process, seconds)
        except RuntimeError as failure:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{failure}\n{tail}") from None
