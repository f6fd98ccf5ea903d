"""A pool that takes the place of another: what it goes on from, and what both count together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.pool import AccountPool, AllBusy, LeaseRequest, NoAccount
from dragoman.config import Account, Config, Secret
from tests.accounts.machine import Machine
from tests.accounts.pools import (
    ONE,
    OUT_OF_QUOTA,
    REFUSED,
    THROTTLED,
    Clock,
    M,
    name_of,
    pool_of,
    settle,
)

WAITS_S = 0.01
"""Of whoever finds an account busy, in a test where none becomes free."""


def account(name: str, **fields: Any) -> Account:
    return Account(name=name, upstream="one", **fields)


def after(
    former: AccountPool, accounts: Iterable[Account], clock: Any, **fields: Any
) -> AccountPool:
    """A pool of the same upstream that has taken the place of `former`."""
    config = Config(upstreams=(replace(ONE, **fields),))
    pool = AccountPool(config, clock=clock, spread=lambda: 0.5)
    pool.take_over(former, accounts)
    return pool


def test_what_is_known_of_an_account_that_stays() -> None:
    clock = Clock()
    former = pool_of("abc", clock, balance=100.0)
    with former.lease(M, ("b", "c")) as lease:
        lease.failed(THROTTLED)
    with former.lease(M, ("a", "c")) as lease:
        lease.failed(REFUSED)
    with former.lease(LeaseRequest("one", "m", b"conversation"), ("a", "b")) as lease:
        lease.succeeded(30.0)
    accounts = [account(name, balance=100.0) for name in "abcd"]
    pool = after(former, accounts, clock, queue_s=1.0)
    assert pool.state("a") == former.state("a")
    assert pool.state("a").cooling
    assert pool.state("b").disabled
    assert (pool.balance("c"), pool.balance("d")) == (70.0, 100.0)
    assert name_of(pool, LeaseRequest("one", "m", b"conversation")) == "c"
    batch = pool.take_batch()
    assert {one.account for one in batch.transitions} == {"a", "b"}
    assert batch.spent == {"c": 30.0}
    assert not former.take_batch().transitions


def test_another_key_undoes_what_was_held_against_the_one_before() -> None:
    clock = Clock()
    former = AccountPool(
        Config(upstreams=(ONE,), accounts=tuple(account(n, key=Secret("k-old")) for n in "abc")),
        clock=clock,
        spread=lambda: 0.5,
    )
    for name, symptom in (("a", REFUSED), ("b", OUT_OF_QUOTA), ("c", REFUSED)):
        with former.lease(M, [one for one in "abc" if one != name]) as lease:
            lease.failed(symptom)
    changed = [account("a", key=Secret("k-new")), account("b", key=Secret("k-new"))]
    pool = after(former, [*changed, account("c", key=Secret("k-old"))], clock)
    assert not pool.state("a").disabled
    assert pool.state("b").exhausted is None
    assert pool.state("c").disabled


def test_the_former_one_lends_on_what_it_had() -> None:
    """To requests that began with it, also accounts and upstreams that are gone."""
    clock = Clock()
    former = pool_of("ab", clock)
    pool = after(former, [account("b"), account("c")], clock)
    assert {name_of(former, tried=tried) for tried in ((), "a", "b")} == {"a", "b"}
    assert {name_of(pool, tried=tried) for tried in ((), "b", "c")} == {"b", "c"}
    bare = AccountPool(Config(), clock=clock)
    bare.take_over(pool, ())
    assert name_of(pool, tried="c") == "b"
    assert not bare.usable()


def test_what_the_former_one_meets_is_told_to_its_successors() -> None:
    clock = Clock()
    former = pool_of("ab", clock)
    begun = former.lease(M, "b")
    middle = after(former, [account("a"), account("b")], clock)
    pool = after(middle, [account("a"), account("b", key=Secret("k-other"))], clock)
    begun.failed(THROTTLED)
    begun.give_back()
    assert pool.state("a").cooling
    assert former.state("a").cooling
    with former.lease(M, "a") as lease:
        lease.failed(REFUSED)
    assert former.state("b").disabled
    assert not pool.state("b").disabled, "that was another key"
    assert [one.account for one in pool.take_batch().transitions] == ["a"]


@pytest.mark.parametrize("has_slots", [False, True])
async def test_both_together_keep_the_limit_of_an_account(has_slots: bool) -> None:
    clock = Clock()
    former = pool_of("a", clock, max_concurrent=2, queue_s=WAITS_S)
    if has_slots:
        Machine().add(former)
    begun = await former.acquire(M)
    pool = after(former, [account("a", max_concurrent=2)], clock, queue_s=WAITS_S)
    assert pool.in_flight("a") == 1
    second = await pool.acquire(M)
    for one in (pool, former):
        with pytest.raises(AllBusy):
            await one.acquire(M)
    assert pool.take_batch().leases == {"a": 2}
    begun.give_back()
    third = await former.acquire(M)
    with pytest.raises(AllBusy):
        await pool.acquire(M)
    for lease in (second, third):
        lease.give_back()
    assert pool.in_flight("a") == former.in_flight("a") == 0
    former.retire()
    with await pool.acquire(M), await pool.acquire(M), pytest.raises(AllBusy):
        await pool.acquire(M)


@pytest.mark.parametrize("waits_for_former", [False, True])
def test_who_waits_is_given_what_the_other_gives_back(waits_for_former: bool) -> None:
    async def run() -> None:
        clock = Clock()
        former = pool_of("a", clock, max_concurrent=1)
        pool = after(former, [account("a", max_concurrent=1)], clock)
        busy, waiting = (pool, former) if waits_for_former else (former, pool)
        lease = busy.lease(M)
        waiter = asyncio.create_task(waiting.acquire(M))
        await settle()
        assert not waiter.done()
        lease.give_back()
        async with asyncio.timeout(30):
            (await waiter).give_back()

    asyncio.run(run())


def test_an_account_that_went_to_another_upstream_begins_anew() -> None:
    clock = Clock()
    former = pool_of("ab", clock)
    with former.lease(M, "b") as lease:
        lease.failed(REFUSED)
    pool = AccountPool(Config(upstreams=(ONE, replace(ONE, name="two"))), clock=clock)
    pool.take_over(former, [Account(name="a", upstream="two"), account("b")])
    assert not pool.state("a").disabled
    with pytest.raises(NoAccount):
        pool.lease(M, "b")
    with pool.lease(LeaseRequest("two", "m")) as lease:
        assert lease.account.name == "a"
