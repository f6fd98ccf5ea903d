"""Requests that wait for an account."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.states import (
    Disabled,
    Enabled,
    Transition,
)
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.pool import AccountPool, AllBusy, LeaseRequest, NoAccount
from dragoman.accounts.store import Changes
from dragoman.accounts.upstream_pool import Lease
from dragoman.config import Account, Config
from tests.accounts.pools import (
    ONE,
    OUT_OF_QUOTA,
    REFUSED,
    Clock,
    M,
    name_of,
    pool_of,
    settle,
)


async def test_requests_wait_for_busy_accounts_first_come_first_served() -> None:
    pool = pool_of("ab", max_concurrent=1)
    held = [pool.lease(M), pool.lease(M)]
    order: list[int] = []

    async def call(number: int) -> Lease:
        lease = await pool.acquire(M)
        order.append(number)
        return lease

    tasks = [asyncio.create_task(call(number)) for number in range(3)]
    await settle()
    assert pool.waiting("one") == 3
    held[1].give_back()
    await settle()
    assert order == [0]
    held[0].give_back()
    await settle()
    assert order == [0, 1]
    (await tasks[0]).give_back()
    (await tasks[1]).give_back()
    (await tasks[2]).give_back()
    assert order == [0, 1, 2]
    assert pool.waiting("one") == 0
    assert not pool.take_batch().leases


async def test_only_who_can_go_is_woken() -> None:
    accounts = (
        Account(name="a", upstream="one", models=("x",), max_concurrent=1),
        Account(name="b", upstream="one", models=("y",), max_concurrent=1),
    )
    pool = AccountPool(Config(upstreams=(ONE,), accounts=accounts))
    x, y = pool.lease(LeaseRequest("one", "x")), pool.lease(LeaseRequest("one", "y"))
    for_x = asyncio.create_task(pool.acquire(LeaseRequest("one", "x")))
    for_y = asyncio.create_task(pool.acquire(LeaseRequest("one", "y")))
    await settle()
    y.give_back()
    await settle()
    assert for_y.done()
    assert not for_x.done()
    x.give_back()
    (await for_x).give_back()
    (await for_y).give_back()


async def test_the_queue_is_short() -> None:
    pool = pool_of("a", max_concurrent=1, queue_size=1)
    held = pool.lease(M)
    waiting = asyncio.create_task(pool.acquire(M))
    await settle()
    with pytest.raises(AllBusy, match=r"\(busy: 1\)") as caught:
        await pool.acquire(M)
    assert caught.value.fault.retry_after is not None
    held.give_back()
    (await waiting).give_back()


async def test_a_wait_ends_after_its_time() -> None:
    pool = pool_of("a", max_concurrent=1, queue_s=0.02)
    with pool.lease(M):
        with pytest.raises(AllBusy, match=r"\(busy: 1\)"):
            await pool.acquire(M)
        assert pool.waiting("one") == 0
    with await pool.acquire(M) as lease:
        assert lease.account.name == "a"


async def test_a_queue_that_is_off_refuses_at_once() -> None:
    for off in ({"queue_size": 0}, {"queue_s": 0.0}):
        pool = pool_of("a", max_concurrent=1, **off)
        with pool.lease(M), pytest.raises(AllBusy):
            await pool.acquire(M)


async def test_nobody_waits_for_accounts_that_are_not_busy() -> None:
    pool = pool_of("a")
    pool.lease(M).failed(REFUSED)
    with pytest.raises(NoAccount) as caught:
        await pool.acquire(M)
    assert not isinstance(caught.value, AllBusy)


async def test_who_waits_is_told_when_there_is_nothing_left_to_wait_for() -> None:
    pool = pool_of("a", max_concurrent=1)
    with pool.lease(M) as held:
        waiting = asyncio.create_task(pool.acquire(M))
        await settle()
        held.failed(REFUSED)
        with pytest.raises(NoAccount, match="refused its key"):
            await waiting


async def test_who_waits_gets_an_account_that_is_new_or_enabled() -> None:
    pool = pool_of("ab", max_concurrent=1)
    pool.observe(Transition("b", Disabled("x"), 1000.0))
    with pool.lease(M):
        first = asyncio.create_task(pool.acquire(M))
        second = asyncio.create_task(pool.acquire(M))
        await settle()
        pool.observe(Transition("b", Enabled(), 1000.0))
        assert (await first).account.name == "b"
        pool.define([Account(name="c", upstream="one")])
        assert (await second).account.name == "c"


async def test_who_waits_gets_an_account_whose_rest_ends() -> None:
    pool = AccountPool(
        Config(
            upstreams=(ONE,),
            accounts=(
                Account(name="a", upstream="one"),
                Account(name="b", upstream="one", max_concurrent=1),
            ),
        )
    )
    with pool.lease(M) as lease:
        assert lease.account.name == "a"
        lease.failed(Symptom(429, retry_after=0.5))
    with pool.lease(M):
        lease = await asyncio.wait_for(pool.acquire(M), 9.0)
        assert lease.account.name == "a"
        lease.give_back()


async def test_a_waiter_that_is_cancelled_leaves_nothing_behind() -> None:
    pool = pool_of("a", max_concurrent=1)
    held = pool.lease(M)
    first = asyncio.create_task(pool.acquire(M))
    second = asyncio.create_task(pool.acquire(M))
    await settle()
    first.cancel()
    await settle()
    assert pool.waiting("one") == 1
    held.give_back()
    (await second).give_back()
    assert not pool.take_batch().leases


async def test_a_waiter_that_is_cancelled_as_it_is_woken_passes_its_account_on() -> None:
    pool = pool_of("a", max_concurrent=1)
    held = pool.lease(M)
    first = asyncio.create_task(pool.acquire(M))
    second = asyncio.create_task(pool.acquire(M))
    await settle()
    held.give_back()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    (await asyncio.wait_for(second, 5.0)).give_back()
    assert not pool.take_batch().leases


async def test_a_trial_that_succeeds_lets_waiters_go_before_it_ends() -> None:
    clock = Clock()
    pool = pool_of("a", clock)
    with pool.lease(M) as lease:
        lease.failed(OUT_OF_QUOTA)
    clock.now += 1e6
    trial = pool.lease(M)
    waiting = asyncio.create_task(pool.acquire(M))
    await settle()
    assert not waiting.done()
    trial.succeeded()
    (await waiting).give_back()
    trial.give_back()


async def test_a_trial_that_fails_takes_the_account_out_for_longer() -> None:
    clock = Clock()
    pool = pool_of("a", clock)
    rests = []
    for _ in range(3):
        with pool.lease(M) as lease:
            lease.failed(OUT_OF_QUOTA)
        exhausted = pool.state("a").exhausted
        assert exhausted is not None
        rests.append(exhausted.until - clock.now)
        clock.now = exhausted.until
    assert rests == sorted(set(rests))


async def test_who_waits_gets_an_account_that_may_do_more_than_before() -> None:
    pool = pool_of("a", max_concurrent=1)
    with pool.lease(M):
        waiting = asyncio.create_task(pool.acquire(M))
        await settle()
        pool.define([replace(pool.account("a"), max_concurrent=2)])
        (await waiting).give_back()


async def test_who_waits_is_told_when_its_account_is_removed() -> None:
    pool = pool_of("a", max_concurrent=1)
    with pool.lease(M):
        waiting = asyncio.create_task(pool.acquire(M))
        await settle()
        pool.withdraw(["a"])
        with pytest.raises(NoAccount, match="one has no account"):
            await waiting


async def test_a_lease_that_is_lost_in_another_thread_goes_to_who_waits() -> None:
    """The garbage collector runs in any thread."""
    pool = pool_of("a", max_concurrent=1)
    held = [pool.lease(M)]
    waiting = asyncio.create_task(pool.acquire(M))
    await settle()
    await asyncio.to_thread(held.clear)
    (await asyncio.wait_for(waiting, 5.0)).give_back()
    assert not pool.take_batch().leases


@pytest.mark.parametrize("seed", range(5))
async def test_nothing_leaks_whoever_leaves_and_when(seed: int) -> None:
    """Hundreds come, wait, are cancelled at any moment, fail and succeed, while accounts fall out
    and come back: no account ever has too many, all who stay are served, and nothing is left."""
    chance = random.Random(seed)
    pool = pool_of("abcde", max_concurrent=2, queue_size=1000, queue_s=60.0)
    served = 0
    here = Counter[str]()

    async def call() -> None:
        nonlocal served
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        with await pool.acquire(M) as lease:
            name = lease.account.name
            here[name] += 1
            assert here[name] <= 2
            try:
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
            finally:
                here[name] -= 1
            if chance.random() < 0.1:
                lease.failed(Symptom(503))
            else:
                lease.succeeded()
        served += 1

    async def operator() -> None:
        while True:
            name = chance.choice("abcde")
            pool.observe(Transition(name, Disabled("x"), 1000.0))
            await asyncio.sleep(0)
            pool.observe(Transition(name, Enabled(), 1000.0))
            pool.apply(Changes(version=1, leases={chance.choice("abcde"): chance.randrange(2)}))
            await asyncio.sleep(0)

    trouble = asyncio.create_task(operator())
    calls = [asyncio.create_task(call()) for _ in range(400)]
    leavers = chance.sample(calls, 150)
    for leaver in leavers:
        if chance.random() < 0.5:
            await asyncio.sleep(0)
        leaver.cancel()
    results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 30.0)
    trouble.cancel()
    pool.apply(Changes(version=2))
    assert {type(result) for result in results} == {type(None), asyncio.CancelledError}
    assert served == sum(result is None for result in results) >= 250
    assert pool.waiting("one") == 0
    assert not pool.take_batch().leases
    for name in "abcde":
        pool.observe(Transition(name, Enabled(), 1000.0))
    assert {name_of(pool) for _ in "abcde"} == set("abcde")
