"""Keys that are refused: of one account, or of all, which is a failure of the upstream."""

from __future__ import annotations

import pytest

from dragoman.accounts.decide.refusals import ALL_REFUSED
from dragoman.accounts.decide.states import Disabled, Transition
from dragoman.accounts.pool import AccountPool, NoAccount
from tests.accounts.pools import REFUSED, Clock, M, pool_of

NAMES = ("a", "b", "c", "d")


def answered(pool: AccountPool, *names: str) -> None:
    """A good answer of each account."""
    for name in names:
        with pool.lease(M, [other for other in NAMES if other != name]) as lease:
            lease.succeeded()


def refused(pool: AccountPool, *names: str) -> None:
    """A refused key of each account."""
    for name in names:
        with pool.lease(M, [other for other in NAMES if other != name]) as lease:
            lease.failed(REFUSED)


def disabled(pool: AccountPool) -> list[str]:
    return [name for name in NAMES if pool.state(name).disabled]


def test_an_outage_of_the_sign_in_disables_nobody() -> None:
    clock = Clock()
    pool = pool_of(NAMES, clock)
    answered(pool, *NAMES)
    refused(pool, "a", "b")
    assert disabled(pool) == ["a", "b"]
    refused(pool, "c", "d")
    assert disabled(pool) == []
    with pytest.raises(NoAccount, match=ALL_REFUSED) as error:
        pool.lease(M)
    assert error.value.fault.retry_after is not None
    clock.now += 600
    used = set()
    for _ in NAMES:
        with pool.lease(M) as lease:
            used.add(lease.account.name)
            lease.succeeded()
    assert used == set(NAMES)


def test_a_good_answer_between_shows_that_keys_are_at_fault() -> None:
    pool = pool_of(NAMES)
    answered(pool, *NAMES)
    refused(pool, "a", "b")
    answered(pool, "d")
    refused(pool, "c")
    assert disabled(pool) == ["a", "b", "c"]


def test_keys_that_never_worked_are_disabled() -> None:
    pool = pool_of(NAMES)
    refused(pool, *NAMES)
    assert disabled(pool) == list(NAMES)


def test_refusals_of_long_ago_do_not_count() -> None:
    clock = Clock()
    pool = pool_of(NAMES, clock)
    answered(pool, *NAMES)
    refused(pool, "a", "b")
    clock.now += 601
    refused(pool, "c")
    assert disabled(pool) == ["a", "b", "c"]


def test_an_account_that_a_person_disabled_stays_disabled() -> None:
    pool = pool_of(NAMES)
    answered(pool, *NAMES)
    refused(pool, "a", "b")
    pool.observe(Transition("a", Disabled("no"), 1000.0))
    refused(pool, "c")
    assert disabled(pool) == ["a"]
