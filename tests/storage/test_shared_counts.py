"""Requests in flight, counted over processes."""

from __future__ import annotations

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

from dragoman.storage import shared_counts
from dragoman.storage.shared_counts import RING, SharedCounts
from dragoman.storage.shared_file import PROCESSES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "counts"


@pytest.fixture
def workers(path: Path) -> Iterator[list[SharedCounts]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(SharedCounts(path))) for _ in range(4)]


def test_no_more_than_the_most_over_all(workers: list[SharedCounts]) -> None:
    assert [worker.take("a", 3) for worker in workers] == [True, True, True, False]
    assert [worker.elsewhere("a") for worker in workers] == [2, 2, 2, 3]
    assert workers[3].take("b", 1)
    workers[0].give_back("a")
    assert workers[3].take("a", 3)
    assert not workers[0].take("a", 3)
    assert workers[0].take("a", 4)


def test_what_others_ended_is_told(workers: list[SharedCounts]) -> None:
    """To each who asks, and each time once; of too many it is only told that there were."""
    one, two, three = workers[:3]
    for worker in workers:
        for name in "abc":
            assert worker.take(name, 9)
    told = one.returns()
    assert told() == []
    two.give_back("a")
    two.give_back("a")  # there is none
    three.give_back("b")
    one.give_back("c")
    assert sorted(told() or ()) == ["a", "b"]
    assert told() == []
    late = one.returns()
    for number in range(RING + 1):
        assert two.take("b", 99)
        two.give_back("b")
        if number == RING - 1:
            assert late() == ["b"]
    assert late() == ["b"]
    assert told() is None
    assert told() == []
    two.close()
    assert told() is None, "what it held is free"


def test_a_file_of_a_version_without_rings_is_taken_over(path: Path) -> None:
    with closing(SharedCounts(path)) as one:
        assert one.take("a", 1)
        os.truncate(path, shared_counts._RINGS)
        with closing(SharedCounts(path)) as other:
            assert not other.take("a", 1)
            told = other.returns()
            one.give_back("a")
            assert told() == ["a"]


def test_nothing_is_lost_nor_made_up(workers: list[SharedCounts]) -> None:
    """Against a plain count."""
    chance = random.Random(7)
    names = [f"account-{number}" for number in range(50)]
    held = {(number, name): 0 for number in range(4) for name in names}
    for _ in range(20_000):
        number, name = chance.randrange(4), chance.choice(names)
        total = sum(held[other, name] for other in range(4))
        if chance.random() < 0.55:
            assert workers[number].take(name, 5) is (total < 5)
            held[number, name] += total < 5
        elif held[number, name]:
            workers[number].give_back(name)
            held[number, name] -= 1
        mine = held[number, name]
        assert workers[number].elsewhere(name) == (
            sum(held[other, name] for other in range(4)) - mine
        )


def test_one_that_ends_gives_back_what_it_held(path: Path) -> None:
    with closing(SharedCounts(path)) as one:
        with closing(SharedCounts(path)) as other:
            assert other.take("a", 1)
            assert not one.take("a", 1)
        assert one.take("a", 1)
        one.give_back("a")
        one.give_back("a")  # never below nothing
        assert one.take("a", 1)
        assert not one.take("a", 1)
    # The last one leaves nothing behind.
    with closing(SharedCounts(path)) as one:
        assert one.take("a", 1)


HOLDER = """
import sys, time
from dragoman.storage.shared_counts import SharedCounts
counts = SharedCounts(sys.argv[1])
assert counts.take("a", 2) and counts.take("a", 2)
print("held", flush=True)
time.sleep(60)
"""


def test_one_that_is_killed_gives_back_what_it_held(path: Path) -> None:
    with closing(SharedCounts(path)) as counts:
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert not counts.take("a", 2)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
        time.sleep(0.06)
        assert counts.take("a", 2)
        assert counts.elsewhere("a") == 0


HAMMER = """
import random, sys, time
from dragoman.storage.shared_counts import ROW_LOCKS, SharedCounts
counts, most, chance = SharedCounts(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
row = counts._row("a")
print("ready", flush=True)
sys.stdin.readline()
taken = 0
until = time.monotonic() + 2.0
while time.monotonic() < until:
    if counts.take("a", most):
        taken += 1
        # What is in flight, as whoever takes can see it: nobody else takes meanwhile.
        counts._lock(ROW_LOCKS + row)
        seen = counts._sum(row)
        counts._unlock(ROW_LOCKS + row)
        assert seen <= most, "too many"
        if chance.random() < 0.01:
            time.sleep(0.0005)
        counts.give_back("a")
print(taken, flush=True)
"""


@pytest.mark.parametrize("most", [1, 3])
def test_processes_that_hammer_it_never_exceed(path: Path, most: int) -> None:
    """Each checks, while it holds one, that there are no more than there may be."""
    with closing(SharedCounts(path)) as counts:
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", HAMMER, str(path), str(most), str(seed)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for seed in range(4)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        outs = []
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            out, _ = process.communicate(timeout=30)
            assert process.returncode == 0
            outs.append(int(out))
        assert min(outs) > 100
        assert counts.elsewhere("a") == 0


def test_there_is_room_for_so_many_processes(path: Path) -> None:
    with ExitStack() as stack:
        for _ in range(PROCESSES):
            stack.enter_context(closing(SharedCounts(path)))
        with pytest.raises(OSError, match="too many"):
            SharedCounts(path)
    with closing(SharedCounts(path)) as again:
        assert again.take("a", 1)


def test_many_accounts_have_rows_of_their_own(workers: list[SharedCounts]) -> None:
    names = [f"account-{number}" for number in range(10_000)]
    for name in names:
        assert workers[0].take(name, 1)
    assert not any(workers[1].take(name, 1) for name in names)
    assert all(workers[2].elsewhere(name) == 1 for name in names)


def test_a_file_of_another_version_is_made_anew_if_nobody_uses_it(path: Path) -> None:
    path.write_bytes(b"something else" * 1000)
    with closing(SharedCounts(path)) as counts:
        assert counts.take("a", 1)
        assert not counts.take("a", 1)


def test_it_is_for_its_owner_alone(path: Path) -> None:
    with closing(SharedCounts(path)):
        assert path.stat().st_mode & 0o777 == 0o600
