"""A lock in memory that processes share."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dragoman.storage.shared_mutex import MUTEX_BYTES, SharedMutex, has_mutexes

pytestmark = pytest.mark.skipif(not has_mutexes(), reason="this system has no mutexes to share")

_OTHER = """
import mmap, sys
from dragoman.storage.shared_mutex import SharedMutex
with open(sys.argv[1], "r+b") as file:
    memory = memoryview(mmap.mmap(file.fileno(), 4096))
mutex = SharedMutex(memory[128:192])
count = memory[:8].cast("q")
if sys.argv[2] == "hold":
    mutex.lock()
    print("held", flush=True)
    sys.stdin.read()
for _ in range(int(sys.argv[2])):
    mutex.lock()
    count[0] += 1
    mutex.unlock()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shared"
    path.write_bytes(bytes(4096))
    return path


@pytest.fixture
def memory(path: Path) -> memoryview:
    with path.open("r+b") as file:
        memory = memoryview(mmap.mmap(file.fileno(), 4096))
    SharedMutex.make(memory[128 : 128 + MUTEX_BYTES])
    return memory


def other(path: Path, what: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _OTHER, str(path), what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def test_one_process_at_a_time(path: Path, memory: memoryview) -> None:
    workers = [other(path, "20000") for _ in range(4)]
    for worker in workers:
        worker.communicate()
        assert worker.returncode == 0
    assert memory[:8].cast("q")[0] == 80_000


def test_a_killed_process_gives_it_up(path: Path, memory: memoryview) -> None:
    """Each time, and also to one that waits."""
    mutex = SharedMutex(memory[128 : 128 + MUTEX_BYTES])
    for _ in range(3):
        with other(path, "hold") as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            taken = threading.Event()

            def take(taken: threading.Event = taken) -> None:
                mutex.lock()
                taken.set()
                mutex.unlock()

            waiting = threading.Thread(target=take)
            waiting.start()
            # The rest of this process goes on while that waits.
            assert not taken.wait(0.05)
            os.kill(holder.pid, signal.SIGKILL)
            waiting.join(10)
            assert taken.is_set()
    mutex.lock()
    mutex.unlock()
