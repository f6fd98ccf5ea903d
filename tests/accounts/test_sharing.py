"""What is shared with other workers."""

from __future__ import annotations

import asyncio

from dragoman.accounts.decide.decisions import apply
from dragoman.accounts.decide.states import (
    AccountState,
    Failed,
)
from dragoman.accounts.pool import AccountPool, LeaseRequest
from dragoman.accounts.store import Changes
from dragoman.config import Account, Config, Secret
from dragoman.config.secret import fingerprint
from tests.accounts.pools import (
    ONE,
    REFUSED,
    THROTTLED,
    Clock,
    M,
    name_of,
    pool_of,
    settle,
)


def test_a_batch_tells_what_happened_and_what_is_in_flight() -> None:
    clock = Clock()
    pool = pool_of("ab", clock, balance=100.0)
    held = pool.lease(LeaseRequest("one", "m", b"c"))
    clock.now += 1.0
    held.succeeded(30.0)
    with pool.lease(M) as lease:
        lease.failed(REFUSED)
    batch = pool.take_batch()
    assert [(entry.account, type(entry.outcome)) for entry in batch.transitions] == [("b", Failed)]
    assert batch.leases == {"a": 1}
    assert batch.used == {"a": 1000.0, "b": 1001.0}
    assert batch.spent == {"a": 30.0}
    assert batch.pins == {b"c": ("a", 1001.0)}
    assert pool.balance("a") == 70.0
    held.give_back()
    after = pool.take_batch()
    for part in (after.transitions, after.leases, after.used, after.spent, after.pins):
        assert not part


def test_a_batch_that_could_not_be_told_is_told_again() -> None:
    pool = pool_of("ab", balance=100.0)
    with pool.lease(M) as lease:
        lease.succeeded(1.0)
        lease.failed(THROTTLED)
    lost = pool.take_batch()
    with pool.lease(M) as lease:
        lease.succeeded(2.0)
        lease.failed(REFUSED)
    with pool.lease(LeaseRequest("one", "x")) as lease:
        lease.succeeded(4.0)
    pool.restore(lost)
    batch = pool.take_batch()
    assert [entry.account for entry in batch.transitions] == ["a", "b"]
    assert batch.spent == {"a": 5.0, "b": 2.0}
    assert set(batch.used) == {"a", "b"}
    assert not pool.take_batch().transitions


def test_a_key_that_was_refused_is_told_by_its_print_alone() -> None:
    account = Account(name="a", upstream="one", key=Secret("sk-secret-1"))
    pool = AccountPool(Config(upstreams=(ONE,), accounts=(account,)))
    with pool.lease(M) as lease:
        lease.failed(REFUSED)
    outcome = pool.take_batch().transitions[0].outcome
    assert isinstance(outcome, Failed)
    assert outcome.key == fingerprint(account.key)
    assert "secret" not in outcome.key
    assert fingerprint(account.key) != fingerprint(Secret("sk-secret-2"))


def test_states_of_the_store_take_the_place_of_local_ones() -> None:
    pool = pool_of("ab")
    pool.apply(Changes(version=1, states={"a": AccountState("a", disabled="elsewhere")}))
    assert {name_of(pool) for _ in range(2)} == {"b"}
    pool.apply(Changes(version=2, states={"a": AccountState("a")}))
    assert "a" in {name_of(pool) for _ in range(2)}
    pool.apply(Changes(version=3, states={"unknown": AccountState("unknown")}))


def test_what_happened_since_the_batch_was_taken_still_counts() -> None:
    pool = pool_of("ab", balance=100.0)
    with pool.lease(M) as lease:
        lease.succeeded(1.0)
        lease.failed(THROTTLED)
    told = pool.take_batch().transitions
    with pool.lease(LeaseRequest("one", "x"), "b") as lease:
        lease.succeeded(2.0)
        lease.failed(REFUSED)
    stored = apply(AccountState("a"), told[0])
    pool.apply(Changes(version=1, states={"a": stored}, balances={"a": 90.0}))
    state = pool.state("a")
    assert state.disabled
    assert state.cooling.keys() == {"m"}
    assert pool.balance("a") == 88.0


def test_leases_uses_pins_and_balances_of_others_count() -> None:
    pool = pool_of("ab", max_concurrent=2, selection="highest_balance", balance=10.0)
    pool.apply(Changes(version=1, leases={"a": 2}, balances={"a": 20.0}))
    assert pool.in_flight("a") == 2
    assert {name_of(pool) for _ in range(2)} == {"b"}
    pool.apply(Changes(version=2))
    assert pool.in_flight("a") == 0
    assert {name_of(pool) for _ in range(2)} == {"a"}
    pool.apply(Changes(version=3, pins={b"c": ("b", 1000.0)}))
    assert name_of(pool, LeaseRequest("one", "m", b"c")) == "b"
    recent = pool_of("ab")
    recent.apply(Changes(version=1, used={"a": 999.0}))
    assert name_of(recent) == "b"


async def test_what_others_give_back_goes_to_who_waits_here() -> None:
    pool = pool_of("a", max_concurrent=1)
    pool.apply(Changes(version=1, leases={"a": 1}))
    waiting = asyncio.create_task(pool.acquire(M))
    await settle()
    pool.apply(Changes(version=2))
    (await waiting).give_back()


class TakenSlots:
    """Slots of which each is taken by somebody else between being lent and being used."""

    def __init__(self) -> None:
        self.lent = 0

    def take(self, name: str, most: int) -> bool:
        return False

    def give_back(self, name: str) -> None:
        raise AssertionError("nothing was taken")

    def return_free(self, name: str) -> None:
        self.lent = 0

    async def borrow(self, name: str, most: int) -> bool:
        self.lent += 1
        return True


async def test_whoever_leaves_while_others_have_their_turn_keeps_no_slot() -> None:
    pool, slots = pool_of("a", max_concurrent=1), TakenSlots()
    pool.share(slots)
    asking = asyncio.create_task(pool.acquire(M))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert not slots.lent
