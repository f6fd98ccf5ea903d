"""Accounts that have as many requests in flight as they may, over all workers."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from dragoman.accounts.pool import AllBusy
from dragoman.accounts.store import Changes
from dragoman.accounts.upstream_pool import Lease
from tests.accounts.machine import Machine
from tests.accounts.pools import M, pool_of, settle

MANY = 10_000


def machine_of(names: list[str], workers: int = 2, most: int = 1, queue_s: float = 5.0) -> Machine:
    machine = Machine()
    for _ in range(workers):
        machine.add(pool_of(names, max_concurrent=most, queue_s=queue_s))
    return machine


async def leases_of(machine: Machine, worker: int, count: int) -> dict[str, Lease]:
    """So many leases of a worker, by account."""
    found = [await machine.pools[worker].acquire(M) for _ in range(count)]
    return {lease.account.name: lease for lease in found}


async def test_ten_thousand_full_accounts_cost_those_that_wait_next_to_nothing() -> None:
    machine = machine_of([f"a{number}" for number in range(MANY)])
    held = await leases_of(machine, 1, MANY)
    assert len(held) == MANY
    waiting = asyncio.create_task(machine.pools[0].acquire(M))
    for _ in range(10_000):
        if machine.pools[0].waiting("one"):
            break
        await asyncio.sleep(0.001)
    began, spent = time.monotonic(), time.process_time()
    await asyncio.sleep(1.0)
    assert time.process_time() - spent < 0.1 * (time.monotonic() - began)
    # What comes free is given to who waits, wherever it stands.
    for name in ("a7777", "a3", "a9999"):
        held[name].give_back()
        lease = await waiting
        assert lease.account.name == name
        held[name] = lease
        waiting = asyncio.create_task(machine.pools[0].acquire(M))
        await settle()
        assert not waiting.done()
    waiting.cancel()


async def test_what_came_free_while_nobody_waited_is_found() -> None:
    machine = machine_of([f"a{number}" for number in range(300)], queue_s=0.0)
    held = await leases_of(machine, 1, 300)
    with pytest.raises(AllBusy):
        await machine.pools[0].acquire(M)
    held["a250"].give_back()
    await settle()
    assert (await machine.pools[0].acquire(M)).account.name == "a250"


async def test_the_first_in_order_is_asked_for_before_another_is_taken() -> None:
    machine = machine_of(["a", "b"], most=2, queue_s=0.0)
    one, other = machine.pools
    # Each worker begins with the account that it has not used for longest.
    held = [await pool.acquire(M) for pool in (one, other, one, other)]
    assert sorted(lease.account.name for lease in held) == ["a", "a", "b", "b"]
    for pool in machine.pools:
        with pytest.raises(AllBusy):
            await pool.acquire(M)


async def test_who_waits_is_given_what_a_worker_had_that_ended() -> None:
    machine = machine_of(["a"], most=3)
    held = [await machine.pools[1].acquire(M) for _ in range(3)]
    waiting = [asyncio.create_task(machine.pools[0].acquire(M)) for _ in range(4)]
    await settle()
    assert not any(one.done() for one in waiting)
    machine.links[1].close()
    await asyncio.sleep(0.01)
    assert [one.done() for one in waiting] == [True, True, True, False]
    waiting[0].result().give_back()
    assert (await waiting[3]).account.name == "a"
    assert len(held) == 3


async def test_a_slot_that_nobody_takes_is_returned() -> None:
    """Such as that of a request which has left while it was asked for."""
    machine = machine_of(["a"], queue_s=0.0)
    one, other = machine.pools
    for _ in range(20):
        leaving = asyncio.create_task(one.acquire(M))
        await asyncio.sleep(0)
        if leaving.cancel():
            await settle()
        else:
            leaving.result().give_back()
        (await other.acquire(M)).give_back()


@pytest.mark.parametrize("workers", [2, 4, 8])
async def test_it_is_never_exceeded_and_all_are_served(workers: int) -> None:
    """Also while workers end and others begin."""
    most, names = 2, ["a", "b", "c"]
    machine = machine_of(names, workers, most, queue_s=30.0)
    in_flight: dict[str, dict[int, int]] = {name: {} for name in names}
    rolls = random.Random(workers)
    served = 0

    async def ask(worker: int) -> None:
        nonlocal served
        lease = await machine.pools[worker].acquire(M)
        if worker in dead:  # It is no process any more, and asks nobody.
            lease.give_back()
            return
        now = in_flight[lease.account.name]
        now[worker] = now.get(worker, 0) + 1
        assert sum(now.values()) <= most
        await asyncio.sleep(rolls.random() / 300)
        if worker not in dead:
            now[worker] -= 1
        lease.give_back()
        served += 1

    dead: set[int] = set()
    tasks: list[asyncio.Task[None]] = []
    for turn in range(400):
        living = [one for one in range(len(machine.pools)) if one not in dead]
        tasks.append(asyncio.create_task(ask(rolls.choice(living))))
        if turn % 50 == 49:
            ended = rolls.choice(living)
            dead.add(ended)
            for now in in_flight.values():
                now.pop(ended, None)
            machine.links[ended].close()
            machine.add(pool_of(names, max_concurrent=most, queue_s=30.0))
        if turn % 10 == 0:
            await asyncio.sleep(0.002)
    await asyncio.sleep(0.1)
    async with asyncio.timeout(60):
        await asyncio.gather(*tasks)
    assert served
    fresh = machine.add(pool_of(names, max_concurrent=most, queue_s=0.0))
    assert len([await fresh.acquire(M) for _ in range(most * len(names))]) == 6


async def test_what_the_store_tells_of_others_makes_no_account_busy_that_has_slots() -> None:
    """The owner knows better, and the store knows it late."""
    machine = machine_of(["a"], most=3, queue_s=0.0)
    pool = machine.pools[0]
    pool.apply(Changes(version=1, leases={"a": 3}))
    assert pool.in_flight("a") == 3
    with await pool.acquire(M):
        assert pool.in_flight("a") == 4
    pool.apply(Changes(version=2))
    assert pool.in_flight("a") == 0


async def test_what_another_gateway_on_the_store_has_in_flight_is_not_lent() -> None:
    """Such as one that this one takes over from: it has an owner of its own."""
    machine = machine_of(["a"], most=3, queue_s=5.0)
    pool = machine.pools[0]
    pool.apply(Changes(version=1, leases={"a": 2}, apart={"a": 2}))
    held = await pool.acquire(M)
    waiting = asyncio.create_task(pool.acquire(M))
    await settle()
    assert not waiting.done()
    pool.apply(Changes(version=2, leases={"a": 1}, apart={"a": 1}))
    async with asyncio.timeout(30):
        (await waiting).give_back()
    held.give_back()
