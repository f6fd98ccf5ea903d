"""What was used of limits, counted over processes."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dragoman.config.limits import Limit
from dragoman.limits.admission import Reservation, admit, settle
from dragoman.limits.bound_limits import BoundLimit, window_of
from dragoman.limits.counters import RESERVED, USED, cells_of
from dragoman.limits.rows import written
from dragoman.storage import shared_limits
from dragoman.storage.shared_limits import SharedLimits
from dragoman.storage.shared_mutex import has_mutexes

NOW = 1_795_000_000.0
LIMITS = (
    Limit(kind="requests", amount=1000, window="1m"),
    Limit(kind="tokens", amount=100_000, window="day"),
    Limit(kind="concurrent", amount=50),
)
WANTED = (1, 100, 1)
SPENT = (1, 30, 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "limits"


@pytest.fixture
def workers(path: Path) -> Iterator[list[SharedLimits]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(SharedLimits(path))) for _ in range(4)]


def bound(shared: SharedLimits, limits: tuple[Limit, ...] = LIMITS) -> list[BoundLimit]:
    return [
        BoundLimit(one, "k", shared.row(f"k {one.counted_as}", cells_of(window_of(one))))
        for one in limits
    ]


def reserved(limits: list[BoundLimit]) -> list[int]:
    return [one.row.cells[RESERVED] for one in limits]


def cells(shared: SharedLimits, limits: tuple[Limit, ...] = LIMITS) -> list[tuple[int, int]]:
    return [(one.row.cells[USED], one.row.cells[RESERVED]) for one in bound(shared, limits)]


def test_all_see_what_one_does(workers: list[SharedLimits]) -> None:
    one, other = bound(workers[0]), bound(workers[1])
    found = admit(one, WANTED, NOW)
    assert isinstance(found, Reservation)
    assert cells(workers[2]) == [(1, 0), (0, 100), (0, 1)]
    assert [limit.left(NOW) for limit in other] == [999, 99_900, 49]
    settle(found, SPENT, NOW)
    assert cells(workers[3]) == [(1, 0), (30, 0), (0, 0)]


def test_what_a_worker_had_that_closes_is_given_back(workers: list[SharedLimits]) -> None:
    for number in (0, 1):
        assert isinstance(admit(bound(workers[number]), WANTED, NOW), Reservation)
    workers[0].close()
    assert cells(workers[1]) == [(1, 0), (0, 100), (0, 1)]


def test_what_was_used_outlives_all_processes(path: Path) -> None:
    with closing(SharedLimits(path)) as first:
        found = admit(bound(first), WANTED, NOW)
        assert isinstance(found, Reservation)
        for row in settle(found, SPENT, NOW)[0]:
            written(row, row.settled)
        # Under way when it ends.
        admit(bound(first), WANTED, NOW)
    with closing(SharedLimits(path)) as second:
        assert cells(second) == [(1, 0), (30, 0), (0, 0)]


def test_a_machine_that_was_started_anew_begins_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SharedLimits(path)) as first:
        found = admit(bound(first), WANTED, NOW)
        assert isinstance(found, Reservation)
        for row in settle(found, SPENT, NOW)[0]:
            row.cells[3] = 1
            written(row, row.settled)
    monkeypatch.setattr(shared_limits, "_boot", lambda: 7)
    with closing(SharedLimits(path)) as second:
        assert cells(second) == [(0, 0)] * 3
        assert not any(limit.row.is_restored for limit in bound(second))


def test_a_file_of_something_else_begins_anew(path: Path) -> None:
    path.write_bytes(b"something else" * 1000)
    with closing(SharedLimits(path)) as shared:
        assert cells(shared) == [(0, 0)] * 3


def test_many_counters(path: Path) -> None:
    """Each has cells of its own, also beyond what is shared."""
    with closing(SharedLimits(path)) as shared, closing(SharedLimits(path)) as other:
        names = [f"key {number}" for number in range(3000)]
        for number, name in enumerate(names):
            shared.row(name, 4 if number % 2 else cells_of(window_of(LIMITS[0]))).cells[USED] = (
                number
            )
        for number, name in enumerate(names):
            assert other.row(name, 4).cells[USED] == number


def test_to_look_for_a_counter_makes_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_limits, "_AREA_CELLS", 12)
    with closing(SharedLimits(path)) as shared, closing(SharedLimits(path)) as other:
        for _ in range(2):
            assert [shared.known(f"k{number}") for number in range(100)] == [None] * 100
        for number in range(3):
            shared.row(f"k{number}", 4).cells[USED] = number
            seen = other.known(f"k{number}")
            assert seen is not None
            assert seen.cells[USED] == number
        assert shared.counts_all(shared.row("k2", 4))
        assert not shared.counts_all(shared.row("k3", 4)), "there was room for three"
        assert other.known("k3") is None
        assert shared.known("k3") is shared.row("k3", 4)


@pytest.mark.parametrize("rooms", range(2))
def test_a_full_disk_ends_no_process(
    path: Path, rooms: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What there is no room for counts in each process by itself: to write there would kill it."""
    allocate = os.posix_fallocate
    with closing(SharedLimits(path)) as shared, closing(SharedLimits(path)) as other:
        shared.row("before", 4).cells[USED] = 7
        left = iter(range(rooms))

        def full(file: int, begin: int, size: int) -> None:
            if next(left, None) is None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            allocate(file, begin, size)

        monkeypatch.setattr(os, "posix_fallocate", full)
        found = shared.row("new", 4)
        found.cells[USED] = 3
        assert not shared.counts_all(found)
        monkeypatch.undo()
        assert [other.row(name, 4).cells[USED] for name in ("before", "new")] == [7, 0]
        assert other.counts_all(other.row("new", 4))
    assert "by itself: No space left on device" in caplog.text


_WORK = """
import sys, time, random
from dragoman.storage import shared_limits
from dragoman.storage.shared_limits import SharedLimits
if sys.argv[3] == "kernel":
    shared_limits.has_mutexes = lambda: False
from tests.storage.test_shared_limits import bound, WANTED, SPENT
from dragoman.limits.admission import Reservation, admit, settle
from dragoman.limits.rows import written
shared = SharedLimits(sys.argv[1])
limits, chance = bound(shared), random.Random(int(sys.argv[2]))
held, total = [], 0
print("begun", flush=True)
while True:
    shared.lock()
    if held and chance.random() < 0.55:
        for row in settle(held.pop(), SPENT, time.time())[0]:
            amount, row.settled = row.settled, 0
            written(row, amount)
    else:
        found = admit(limits, WANTED, time.time())
        if isinstance(found, Reservation):
            held.append(found)
    shared.unlock()
"""


@pytest.mark.parametrize("lock", ["mutex", "kernel"])
def test_killed_processes_leave_nothing(
    path: Path, lock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever they are killed, in the middle of a step too, and with the lock."""
    if lock == "kernel":
        monkeypatch.setattr(shared_limits, "has_mutexes", lambda: False)
    elif not has_mutexes():
        pytest.skip("this system has no mutexes that a killed process gives up")
    chance = random.Random(5)
    with closing(SharedLimits(path)) as shared:
        watched = bound(shared)
        for number in range(12):
            with subprocess.Popen(
                [sys.executable, "-c", _WORK, str(path), str(number), lock],
                stdout=subprocess.PIPE,
            ) as worker:
                assert worker.stdout is not None
                assert worker.stdout.readline() == b"begun\n"
                time.sleep(chance.random() * 0.2)
                os.kill(worker.pid, signal.SIGKILL)
            deadline = time.monotonic() + 2
            shared.reclaim_lost()
            while any(reserved(watched)) and time.monotonic() < deadline:
                time.sleep(0.01)
                shared.reclaim_lost()
            assert reserved(watched) == [0, 0, 0], number
        assert watched[1].row.cells[USED] % 30 == 0
        assert watched[1].row.cells[USED] > 0


def test_what_is_closed_is_not_counted_in(path: Path) -> None:
    shared = SharedLimits(path)
    shared.close()
    shared.close()
    with pytest.raises(OSError, match="closed"):
        shared.lock()


@pytest.mark.skipif(not has_mutexes(), reason="this system has no mutexes to share")
def test_all_use_the_lock_of_the_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another C library, the mutex of others is none that could be taken."""
    with closing(SharedLimits(path)) as first:
        monkeypatch.setattr(shared_limits, "has_mutexes", lambda: False)
        with pytest.raises(OSError, match="another C library"):
            SharedLimits(path)
        assert cells(first) == [(0, 0)] * 3
    # The first of those that come later decides anew.
    with closing(SharedLimits(path)), closing(SharedLimits(path)) as second:
        admit(bound(second), WANTED, NOW)
        assert cells(second) == [(1, 0), (0, 100), (0, 1)]
