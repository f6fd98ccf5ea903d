"""Leases, and why there are none."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Generator
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.states import (
    AccountState,
    Decision,
    Disabled,
    Enabled,
    Failed,
    Succeeded,
    Transition,
)
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.pool import AccountPool, AllBusy, LeaseRequest, NoAccount
from dragoman.canonical.errors import FaultKind
from dragoman.config import Account, Config, Probe
from dragoman.failing import Rule, Verdict
from tests.accounts.pools import (
    CONFIG,
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


def test_a_lease_is_given_back_on_every_path() -> None:
    pool = pool_of("a")
    with pool.lease(M) as lease:
        assert pool.in_flight("a") == 1
        lease.succeeded()
    assert pool.in_flight("a") == 0
    with pytest.raises(RuntimeError), pool.lease(M):
        raise RuntimeError
    with pool.lease(M) as lease:
        lease.failed(Symptom(400))
    assert pool.in_flight("a") == 0


def test_a_lease_is_given_back_once() -> None:
    pool = pool_of("a")
    first, second = pool.lease(M), pool.lease(M)
    with first:
        first.give_back()
    first.give_back()
    assert pool.in_flight("a") == 1
    second.give_back()
    assert pool.in_flight("a") == 0


def test_a_generator_that_is_closed_gives_its_lease_back() -> None:
    pool = pool_of("a")

    def stream() -> Generator[bytes]:
        with pool.lease(M):
            yield b"1"
            yield b"2"

    chunks = stream()
    next(chunks)
    assert pool.in_flight("a") == 1
    chunks.close()
    assert pool.in_flight("a") == 0


async def test_a_call_that_is_cancelled_gives_its_lease_back() -> None:
    pool = pool_of("a")

    async def call() -> None:
        with await pool.acquire(M):
            await asyncio.sleep(60)

    task = asyncio.create_task(call())
    await settle()
    assert pool.in_flight("a") == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pool.in_flight("a") == 0


def test_a_lease_that_is_forgotten_is_given_back_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = pool_of("a", max_concurrent=1)
    cycle: list[Any] = [pool.lease(M)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    with caplog.at_level(logging.ERROR):
        assert name_of(pool) == "a"
    assert "never given back" in caplog.text
    assert pool.in_flight("a") == 0
    assert not pool.take_batch().leases


def test_accounts_are_of_the_upstream_and_for_the_model() -> None:
    pool = AccountPool(CONFIG)
    assert {name_of(pool, LeaseRequest("one", "claude")) for _ in range(3)} == {"a"}
    assert {name_of(pool, LeaseRequest("one", "gpt-5")) for _ in range(3)} == {"a", "b"}
    assert name_of(pool, LeaseRequest("two", "gpt-5")) == "c"


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_the_clients_own_faults_do_not_punish_an_account(status: int) -> None:
    pool = pool_of("a")
    before = pool.state("a")
    with pool.lease(M) as lease:
        assert not lease.failed(Symptom(status)).tries_next
    assert pool.state("a") is before
    assert not pool.take_batch().transitions


def test_rules_are_those_of_the_upstream_its_own_rows_first() -> None:
    """req: 135"""
    row = Rule(Verdict.EXHAUST, "teapot", statuses=(418,))
    pool = pool_of("ab", account_rules="sop", rules=(row,))
    pool.lease(M).failed(Symptom(429, retry_after=1.0))
    assert pool.state("a").disabled
    pool.lease(M).failed(Symptom(418))
    assert pool.state("b").exhausted is not None
    assert not pool.usable()
    pool.observe(Transition("a", Enabled(), 1000.0))
    assert pool.usable()
    assert pool.rules("one").final == "none_left"


def test_who_wants_to_know_is_told_of_changes() -> None:
    pool = pool_of("a")
    told: list[Transition] = []
    pool.on_transition = told.append
    with pool.lease(M) as lease:
        lease.succeeded()
        lease.failed(Symptom(400))
        assert not told
        lease.failed(REFUSED)
    assert [transition.account for transition in told] == ["a"]
    pool.observe(Transition("nobody", Disabled("x"), 1000.0))
    assert len(told) == 1


def test_no_account_says_why_and_when() -> None:
    """req: 139, 144"""
    clock = Clock()
    pool = pool_of("abcd", clock)
    pool.observe(Transition("d", Disabled("taken out"), 1000.0))
    for symptom in (THROTTLED, REFUSED, Symptom(402, retry_after=300.0)):
        assert pool.lease(M).failed(symptom).tries_next
    clock.now += 5.0
    with pytest.raises(NoAccount) as caught:
        pool.lease(M)
    assert not isinstance(caught.value, AllBusy)
    fault = caught.value.fault
    assert fault.kind is FaultKind.NO_ACCOUNT
    assert fault.retry_after == 15.0
    assert fault.message == (
        "No active accounts available for m (out of quota: 1; rate limited: 1; taken out: 1; "
        "the upstream refused its key: 1)"
    )
    assert sum(count for _, count in caught.value.reasons) == 4
    assert name_of(pool, LeaseRequest("one", "other")) == "a"


def test_no_account_for_the_model_is_not_said_of_other_reasons() -> None:
    pool = pool_of("ab", models=("gpt-*",))
    with pytest.raises(NoAccount, match="no account of one serves the model claude") as caught:
        pool.lease(LeaseRequest("one", "claude"))
    assert caught.value.fault.retry_after is None
    for _ in "ab":
        pool.lease(LeaseRequest("one", "gpt-5")).failed(THROTTLED)
    with pytest.raises(NoAccount, match=r"\(rate limited: 2\)"):
        pool.lease(LeaseRequest("one", "gpt-5"))


def test_an_upstream_without_accounts_says_so() -> None:
    pool = pool_of("")
    with pytest.raises(NoAccount, match="one has no account"):
        pool.lease(M)
    assert not pool.usable()


def test_accounts_tried_in_this_request_are_counted() -> None:
    """req: 138, 139"""
    pool = pool_of("ab")
    tried = [name_of(pool), name_of(pool, tried="a")]
    with pytest.raises(NoAccount, match=r"\(already tried for this request: 2\)"):
        pool.lease(M, tried)


def test_accounts_come_and_go_while_requests_are_in_flight() -> None:
    pool = pool_of("ab")
    with pool.lease(M) as lease:
        assert lease.account.name == "a"
        pool.withdraw(["a", "nobody"])
        assert [account.name for account in pool.accounts()] == ["b"]
        assert {name_of(pool) for _ in range(3)} == {"b"}
        assert pool.take_batch().leases == {"a": 1}
        lease.succeeded(5.0)
        lease.failed(REFUSED)
        lease.pin(b"x")
    assert not pool.take_batch().leases
    with pytest.raises(KeyError):
        pool.state("a")


def test_an_account_that_comes_back_still_has_its_requests_in_flight() -> None:
    pool = pool_of("a", max_concurrent=1)
    account = pool.account("a")
    with pool.lease(M) as lease:
        lease.failed(REFUSED)
        pool.withdraw(["a"])
        pool.define([account])
        assert pool.state("a") == AccountState("a")
        with pytest.raises(AllBusy):
            pool.lease(M)
    assert name_of(pool) == "a"


def test_an_account_that_is_defined_again_keeps_what_is_known_of_it() -> None:
    pool = pool_of("ab")
    pool.lease(M).failed(REFUSED)
    pool.define([replace(pool.account("a"), priority=-1, models=("m",))])
    assert name_of(pool) == "b"
    pool.observe(Transition("a", Enabled(), 1000.0))
    assert {name_of(pool) for _ in range(3)} == {"a"}
    assert name_of(pool, LeaseRequest("one", "x")) == "b"


def test_an_account_may_go_to_another_upstream_but_not_to_none() -> None:
    pool = AccountPool(CONFIG)
    pool.define(
        [Account(name="a", upstream="two"), Account(name="z", upstream="nowhere")],
    )
    assert {name_of(pool, LeaseRequest("two", "m")) for _ in range(2)} == {"a", "c"}
    with pytest.raises(NoAccount):
        pool.lease(LeaseRequest("one", "m"))
    assert [account.name for account in pool.accounts() if account.name == "z"] == []


def test_accounts_that_are_out_are_due_for_a_probe_again_and_again() -> None:
    clock = Clock()
    pool = pool_of("abcd", clock, probe=Probe(model="m", every_s=100.0))
    for symptom in (OUT_OF_QUOTA, Symptom(429, retry_after=500.0), THROTTLED, REFUSED):
        with pool.lease(M) as lease:
            lease.failed(symptom)
    assert pool.due_for_probe(1099.0) == []
    assert pool.due_for_probe(1100.0) == ["a", "b"]
    assert pool.due_for_probe(1150.0) == []
    assert pool.due_for_probe(1200.0) == ["a", "b"]
    clock.now = 1250.0
    pool.observe(Transition("a", Succeeded(source="probe"), 1250.0, "m"))
    assert pool.due_for_probe(1300.0) == ["b"]
    assert name_of(pool) == "a"


def test_probes_are_spread_and_only_where_they_are_wanted() -> None:
    names = [f"a{number}" for number in range(100)]
    quota = Failed(Decision(Verdict.EXHAUST, "out of quota"))
    for probe in (Probe(model="m", every_s=100.0), None):
        config = Config(
            upstreams=(replace(ONE, probe=probe),),
            accounts=tuple(Account(name=name, upstream="one") for name in names),
        )
        pool = AccountPool(config, clock=Clock())
        for name in names:
            pool.observe(Transition(name, quota, 1000.0, "m"))
        early, late = pool.due_for_probe(1100.0), pool.due_for_probe(1150.0)
        if probe is None:
            assert not early + late
        else:
            assert 20 < len(early) < 80
            assert set(early + late) >= set(names) - set(early)
