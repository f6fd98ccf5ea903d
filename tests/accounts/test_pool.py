"""Leases."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.accounts.pool import NoAccount, Pool, Wanted
from dragoman.accounts.symptoms import Symptom
from dragoman.canonical.errors import FaultKind
from dragoman.config import Account, Config, Upstream
from dragoman.failing import Verdict

CONFIG = Config(
    upstreams=(
        Upstream(name="one", protocol="openai_chat", base_url="http://127.0.0.1:1"),
        Upstream(name="two", protocol="openai_chat", base_url="http://127.0.0.1:1"),
    ),
    accounts=(
        Account(name="a", upstream="one"),
        Account(name="b", upstream="one", models=("gpt-*",)),
        Account(name="c", upstream="two"),
    ),
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_lease_is_given_back_on_every_path() -> None:
    pool = Pool(CONFIG)
    with pool.lease(Wanted("one", "m")) as lease:
        assert pool.in_flight(lease.account.name) == 1
    assert pool.in_flight("a") == 0
    with pytest.raises(RuntimeError), pool.lease(Wanted("one", "m")):
        raise RuntimeError
    assert pool.in_flight("a") == 0


def test_accounts_are_of_the_upstream_and_for_the_model() -> None:
    pool = Pool(CONFIG)
    assert {pool.lease(Wanted("one", "claude")).account.name for _ in range(3)} == {"a"}
    assert {pool.lease(Wanted("one", "gpt-5")).account.name for _ in range(3)} == {"a", "b"}
    assert pool.lease(Wanted("two", "gpt-5")).account.name == "c"


def test_no_account_says_why_and_when() -> None:
    """req: 139"""
    clock = Clock()
    pool = Pool(CONFIG, clock=clock)
    lease = pool.lease(Wanted("two", "m"))
    assert lease.failed(Symptom(429, retry_after=20.0)).verdict is Verdict.COOL
    clock.now = 5.0
    with pytest.raises(NoAccount) as caught:
        pool.lease(Wanted("two", "m"))
    fault = caught.value.fault
    assert fault.kind is FaultKind.NO_ACCOUNT
    assert fault.retry_after == 15.0
    assert fault.message == "No active accounts available for m (rate limited: 1)"
    assert pool.lease(Wanted("two", "other")).account.name == "c"


def test_rules_are_those_of_the_upstream() -> None:
    """req: 135"""
    upstreams = tuple(replace(entry, account_rules="sop") for entry in CONFIG.upstreams)
    pool = Pool(replace(CONFIG, upstreams=upstreams))
    pool.lease(Wanted("two", "m")).failed(Symptom(429, retry_after=1.0))
    assert pool.state("c").disabled
    assert pool.usable()
    for _ in "ab":
        pool.lease(Wanted("one", "gpt-5")).failed(Symptom(401))
    assert not pool.usable()
    pool.enable("c")
    assert pool.usable()
