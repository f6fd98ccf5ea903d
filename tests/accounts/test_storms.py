"""Requests that come, wait, are cancelled, fail and forget their leases while accounts come,
go, fall out and are used by other workers, in any order."""

from __future__ import annotations

import asyncio
import random
from typing import get_args

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.states import (
    AccountState,
    Disabled,
    Enabled,
    Outcome,
    Rest,
    Succeeded,
    Transition,
)
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.pool import AccountPool, AllBusy, LeaseRequest, NoAccount
from dragoman.accounts.store import Changes
from dragoman.accounts.upstream_pool import Lease
from dragoman.config import Account, Config
from dragoman.config.settings import Selection
from tests.accounts.pools import ONE, Clock, settle

FAILURES = [Symptom(status) for status in (0, 400, 401, 402, 403, 429, 500, 503)]
FAILURES.append(Symptom(429, retry_after=2.0))
STEPS = 150


class Storm:
    """A pool, those who hold leases of it, and those who wait."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.names = [f"a{number}" for number in range(self.random.randint(1, 6))]
        upstream = replace(
            ONE,
            selection=self.random.choice(get_args(Selection)),
            queue_size=self.random.choice([0, 3, 50]),
            queue_s=1000.0,
        )
        accounts = tuple(map(self.account, self.names))
        config = Config(upstreams=(upstream,), accounts=accounts)
        self.pool = AccountPool(config, clock=self.clock, spread=self.random.random)
        self.queue = self.pool._pools["one"].wait_queue
        self.held: list[Lease] = []
        self.tasks: list[asyncio.Task[None]] = []

    def account(self, name: str) -> Account:
        pick = self.random.choice
        return Account(
            name=name,
            upstream="one",
            max_concurrent=pick([None, 1, 1, 2]),
            priority=pick([0, 0, 1]),
            models=pick([None, None, ("m",), ("x*",)]),
            weight=pick([1.0, 2.0]),
            balance=pick([None, 100.0]),
        )

    async def ask(self, wanted: LeaseRequest, tried: tuple[str, ...]) -> None:
        lease = await self.pool.acquire(wanted, tried)
        self.held.append(lease)
        most, name = lease.account.max_concurrent, lease.account.name
        here = sum(other.account.name == name for other in self.held)
        assert most is None or here <= most

    def step(self) -> None:
        """Something happens."""
        pick, some = self.random.choice, self.random.sample
        now = self.clock.now
        match self.random.choices(range(9), (35, 10, 20, 5, 5, 7, 8, 7, 3))[0]:
            case 0:
                wanted = LeaseRequest("one", pick(["m", "x1", ""]), pick([b"", b"1", b"2"]))
                tried = tuple(some(self.names, pick([0, 0, 1])))
                self.tasks.append(asyncio.create_task(self.ask(wanted, tried)))
            case 1 if self.tasks:
                pick(self.tasks).cancel()
            case 2 if self.held:
                with self.held.pop(self.random.randrange(len(self.held))) as lease:
                    if pick([True, False]):
                        lease.succeeded(pick([0.0, 5.0]))
                    else:
                        lease.failed(pick(FAILURES))
            case 3:
                self.pool.withdraw(some(self.names, 1))
            case 4:
                self.pool.define([self.account(pick(self.names))])
            case 5:
                outcomes: list[Outcome] = [Enabled(), Disabled("x"), Succeeded("probe")]
                self.pool.observe(Transition(pick(self.names), pick(outcomes), now))
            case 6:
                self.clock.now += pick([0.1, 1.0, 5.0, 100.0, 4000.0, -0.5, -30.0])
                # As its timer would: the loop's own clock stands still.
                self.queue.serve()
            case 7:
                name = pick(self.names)
                spent = Rest(now + pick([-5.0, 50.0]), "spent", since=now - 10.0)
                states = (AccountState(name, exhausted=spent), AccountState(name, disabled="k"))
                busy = some(self.names, self.random.randint(0, len(self.names)))
                leases = {other: self.random.randint(1, 3) for other in busy}
                self.pool.apply(Changes(version=1, leases=leases, states={name: pick(states)}))
            case 8 if self.held:
                self.held.pop()

    def nobody_waits_in_vain(self) -> None:
        """Whoever waits could not be served now."""
        for model, tried in [(waiter.wanted.model, waiter.tried) for waiter in self.queue.waiters]:
            try:
                self.pool.lease(LeaseRequest("one", model), tried)
            except AllBusy:
                continue
            pytest.fail("there is an account, and somebody waits for it")

    async def end(self) -> None:
        """All accounts are good again, and requests end one after another."""
        for task in self.random.sample(self.tasks, len(self.tasks) // 3):
            task.cancel()
        self.pool.apply(Changes(version=2))
        self.pool.define(
            Account(name=name, upstream="one", max_concurrent=1) for name in self.names
        )
        for name in self.names:
            self.pool.observe(Transition(name, Enabled(), self.clock.now))
        await settle()
        while self.held:
            self.held.pop().give_back()
            await settle()
        for task in self.tasks:
            assert task.done()
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, NoAccount):
                raise error


@pytest.mark.parametrize("seed", range(60))
async def test_nothing_is_left_of_a_storm(seed: int) -> None:
    """No lease, nobody who waits, and every account can be lent. No account has more requests in
    flight than it may, and nobody waits while there is an account."""
    storm = Storm(seed)
    for _ in range(STEPS):
        storm.step()
        await settle()
        storm.nobody_waits_in_vain()
    await storm.end()
    pool = storm.pool
    assert pool.waiting("one") == 0
    assert not pool.take_batch().leases
    assert all(pool.in_flight(name) == 0 for name in storm.names)
    leases = [pool.lease(LeaseRequest("one", "m")) for _ in storm.names]
    assert {lease.account.name for lease in leases} == set(storm.names)
    for lease in leases:
        lease.give_back()


async def test_what_others_had_in_flight_with_an_account_that_left_is_forgotten() -> None:
    """It comes back while a request of before is still in flight here; the others' are over."""
    account = Account(name="a", upstream="one", max_concurrent=2)
    pool = AccountPool(Config(upstreams=(ONE,), accounts=(account,)), clock=Clock())
    lease = pool.lease(LeaseRequest("one"))
    pool.apply(Changes(version=1, leases={"a": 1}))
    pool.withdraw(["a"])
    pool.define([account])
    pool.apply(Changes(version=2))
    lease.give_back()
    assert pool.in_flight("a") == 0
