"""Accounts that have as many requests in flight as they may, over all workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dragoman.accounts.pool import AccountPool, AllBusy, LeaseRequest
from dragoman.accounts.store import UNCOUNTED, Changes
from dragoman.storage.shared_counts import RING, SharedCounts
from tests.accounts.pools import M, name_of, pool_of

MANY = 10_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "counts"


@pytest.fixture
def other(path: Path) -> Iterator[SharedCounts]:
    """What another worker counts."""
    with closing(SharedCounts(path)) as counts:
        yield counts


def sharing(path: Path, stack: ExitStack, names: list[str], most: int = 1) -> AccountPool:
    pool = pool_of(names, max_concurrent=most, queue_s=5.0)
    pool.share(SharedCounts(path))
    stack.callback(pool.share, None)
    return pool


async def test_ten_thousand_full_accounts_cost_those_that_wait_next_to_nothing(
    path: Path, other: SharedCounts
) -> None:
    names = [f"a{number}" for number in range(MANY)]
    with ExitStack() as stack:
        pool = sharing(path, stack, names)
        for name in names:
            assert other.take(name, 1)
        with pytest.raises(AllBusy):
            pool.lease(M)
        waiting = asyncio.create_task(pool.acquire(M))
        await asyncio.sleep(0.05)
        began, spent = time.monotonic(), time.process_time()
        await asyncio.sleep(1.0)
        assert time.process_time() - spent < 0.1 * (time.monotonic() - began)
        # What comes free is seen at once, wherever it stands.
        for name in ("a7777", "a3", "a9999"):
            other.give_back(name)
            began = time.monotonic()
            with await waiting as lease:
                assert lease.account.name == name
            assert time.monotonic() - began < 0.1
            assert other.take(name, 1)
            waiting = asyncio.create_task(pool.acquire(M))
            await asyncio.sleep(0.02)
            assert not waiting.done()
        waiting.cancel()


async def test_what_came_free_while_nobody_waited_is_found(path: Path, other: SharedCounts) -> None:
    """However many requests of other accounts ended since."""
    names = [f"a{number}" for number in range(300)]
    with ExitStack() as stack:
        pool = sharing(path, stack, names)
        for name in (*names, "of another upstream"):
            assert other.take(name, 1)
        with pytest.raises(AllBusy):
            pool.lease(M)
        other.give_back("a250")
        for _ in range(RING + 5):
            other.give_back("of another upstream")
            assert other.take("of another upstream", 1)
        with await pool.acquire(M) as lease:
            assert lease.account.name == "a250"


def test_a_worker_that_does_not_count_is_counted_by_what_it_tells(
    path: Path, other: SharedCounts
) -> None:
    with ExitStack() as stack:
        pool = sharing(path, stack, ["a", "b"], most=3)
        assert other.take("a", 3)
        # Told of workers that count: their count is exact.
        pool.apply(Changes(version=1, leases={"a": 3}))
        assert pool.in_flight("a") == 1
        told = {UNCOUNTED: 1, "a": 3}
        pool.apply(Changes(version=2, leases=told))
        assert pool.in_flight("a") == 3
        assert {name_of(pool) for _ in range(6)} == {"b"}
        leases = [stack.enter_context(pool.lease(M)) for _ in range(3)]
        assert {lease.account.name for lease in leases} == {"b"}
        for _ in range(5):
            with pytest.raises(AllBusy):
                pool.lease(M)
        pool.apply(Changes(version=3, leases={UNCOUNTED: 1, "a": 2}))
        assert name_of(pool) == "a"
        pool.apply(Changes(version=4))
        assert pool.in_flight("a") == 1


def test_one_that_cannot_count_says_so(path: Path) -> None:
    pool = pool_of("a", max_concurrent=1)
    pool.share(None)
    assert pool.take_batch().leases == {UNCOUNTED: 1}
    with pool.lease(LeaseRequest("one", "m")):
        assert pool.take_batch().leases == {UNCOUNTED: 1, "a": 1}
    with closing(SharedCounts(path)) as counts:
        pool.share(counts)
        assert not pool.take_batch().leases
        pool.share(None)
