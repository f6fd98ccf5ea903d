"""Conversations and proxies: what an account is bound to."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.states import (
    AccountState,
)
from dragoman.accounts.pool import AccountPool, LeaseRequest
from dragoman.config import Account, Config, Secret
from tests.accounts.pools import (
    ONE,
    THROTTLED,
    Clock,
    M,
    name_of,
    pool_of,
)


def test_a_conversation_stays_with_its_account() -> None:
    pool = pool_of("abc")
    wanted = LeaseRequest("one", "m", b"conversation")
    with pool.lease(wanted) as lease:
        assert (lease.account.name, lease.moved) == ("a", False)
        lease.succeeded()
    for _ in range(3):
        with pool.lease(wanted) as lease:
            assert (lease.account.name, lease.moved) == ("a", False)
    assert name_of(pool) == "b"


def test_a_conversation_moves_when_its_account_cannot_serve() -> None:
    pool = pool_of("ab")
    wanted = LeaseRequest("one", "m", b"conversation")
    with pool.lease(wanted) as lease:
        lease.succeeded()
    with pool.lease(wanted) as lease:
        lease.failed(THROTTLED)
    with pool.lease(wanted, ["a"]) as lease:
        assert (lease.account.name, lease.moved) == ("b", True)
        lease.succeeded()
    with pool.lease(wanted) as lease:
        assert (lease.account.name, lease.moved) == ("b", False)
    with pool.lease(LeaseRequest("one", "x", b"conversation")) as lease:
        assert (lease.account.name, lease.moved) == ("b", False)


def test_an_account_that_failed_before_it_answered_holds_no_conversation() -> None:
    pool = pool_of("ab")
    wanted = LeaseRequest("one", "m", b"conversation")
    with pool.lease(wanted) as lease:
        lease.failed(THROTTLED)
    with pool.lease(wanted, ["a"]) as lease:
        assert (lease.account.name, lease.moved) == ("b", False)


def test_further_digests_lead_to_the_account() -> None:
    pool = pool_of("abc")
    with pool.lease(M) as lease:
        lease.pin(b"response")
    assert name_of(pool, LeaseRequest("one", "m", b"response")) == "a"
    assert pool.take_batch().pins == {b"response": ("a", 1000.0)}


def test_affinity_that_is_off_pins_nothing() -> None:
    pool = pool_of("ab", affinity="off")
    wanted = LeaseRequest("one", "m", b"conversation")
    for name in "ab":
        with pool.lease(wanted) as lease:
            lease.succeeded()
            lease.pin(b"response")
            assert (lease.account.name, lease.moved) == (name, False)
    assert not pool.take_batch().pins


def test_a_dead_proxy_is_not_the_accounts_fault() -> None:
    """req: 141"""
    urls = [Secret(f"http://me:secret@proxy-{number}:80") for number in range(2)]
    pool = pool_of("ab", proxies=tuple(urls))
    with pool.lease(M) as lease:
        assert lease.proxy is urls[0]
        lease.proxy_failed()
    assert pool.state("a") == AccountState("a")
    assert not pool.take_batch().transitions
    for _ in range(3):
        with pool.lease(M) as lease:
            assert lease.proxy is urls[1]


def test_an_account_goes_through_its_own_proxy() -> None:
    own, shared = Secret("http://own:1"), Secret("http://shared:1")
    accounts = (
        Account(name="a", upstream="one", proxy=own),
        Account(name="b", upstream="one"),
    )
    config = Config(upstreams=(replace(ONE, proxy=shared),), accounts=accounts)
    pool = AccountPool(config, clock=Clock())
    assert pool.lease(M).proxy is own
    assert pool.lease(M).proxy is shared
    direct = pool_of("a")
    with direct.lease(M) as lease:
        assert lease.proxy is None
        lease.proxy_failed()
    assert name_of(direct) == "a"


def test_accounts_behind_a_dead_proxy_of_their_own_are_avoided_until_it_works() -> None:
    """req: 141"""
    clock = Clock()
    pool = pool_of("ab", clock, proxy=Secret("http://own:1"))
    pool.define([Account(name="c", upstream="one", priority=1)])
    with pool.lease(M) as lease:
        lease.proxy_failed()
    assert {name_of(pool) for _ in range(3)} == {"c"}
    assert {name_of(pool, tried="c") for _ in range(3)} <= {"a", "b"}
    assert pool.state("a") == AccountState("a")
    with pool.lease(M, "c") as lease:
        lease.succeeded()
    assert {name_of(pool) for _ in range(2)} == {"a", "b"}
    with pool.lease(M) as lease:
        lease.proxy_failed()
    clock.now += 60.0
    assert {name_of(pool) for _ in range(2)} == {"a", "b"}
    pool.withdraw("ab")
    assert name_of(pool) == "c"


def test_no_password_of_a_proxy_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    pool = pool_of("a", proxies=(Secret("http://me:hunter2@proxy:80"),))
    with caplog.at_level(logging.DEBUG), pool.lease(M) as lease:
        lease.proxy_failed()
        assert "hunter2" not in repr(lease) + repr(lease.proxy) + repr(lease.account)
    assert "proxy:80" in caplog.text
    assert "hunter2" not in caplog.text
