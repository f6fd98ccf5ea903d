"""Accounts that are refused: one, or all alike, which is a failure of the upstream."""

from __future__ import annotations

import pytest

from dragoman.accounts.decide.refusals import ALL_REFUSED
from dragoman.accounts.decide.states import AccountState, Disabled, Transition
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.pool import AccountPool, NoAccount
from dragoman.accounts.store import Changes
from dragoman.canonical.errors import FaultKind
from tests.accounts.pools import OUT_OF_QUOTA, REFUSED, Clock, M, pool_of

NAMES = ("a", "b", "c", "d")


def answered(pool: AccountPool, *names: str) -> None:
    """A good answer of each account."""
    for name in names:
        with pool.lease(M, [other for other in NAMES if other != name]) as lease:
            lease.succeeded()


def refused(pool: AccountPool, *names: str, symptom: Symptom = REFUSED) -> None:
    """A refusal of each account."""
    for name in names:
        with pool.lease(M, [other for other in NAMES if other != name]) as lease:
            lease.failed(symptom)


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


@pytest.mark.parametrize(
    ("symptom", "kind"),
    [
        (REFUSED, FaultKind.FORBIDDEN),
        (Symptom(402), FaultKind.PAYMENT_REQUIRED),
        (OUT_OF_QUOTA, FaultKind.PAYMENT_REQUIRED),
        (Symptom(403, frozenset({"insufficient_quota"})), FaultKind.PAYMENT_REQUIRED),
    ],
)
def test_an_upstream_that_refuses_all_alike_rests_until_a_trial_is_answered(
    symptom: Symptom, kind: FaultKind
) -> None:
    clock = Clock()
    pool = pool_of(NAMES, clock)
    refused(pool, *NAMES, symptom=symptom)
    assert pool.left("one") == 0
    assert not pool.usable()
    tried = []
    for _ in range(3):
        with pytest.raises(NoAccount) as error:
            pool.lease(M)
        assert error.value.refused_for is kind
        assert error.value.fault.retry_after is not None
        clock.now += error.value.fault.retry_after
        with pool.lease(M) as lease:
            tried.append(lease.account.name)
            with pytest.raises(NoAccount):
                pool.lease(M)
            lease.failed(symptom)
    assert len(set(tried)) == 3
    assert all(pool.state(name) == AccountState(name, renewed=1000.0) for name in "abc")
    clock.now += 600
    with pool.lease(M) as trial:
        trial.began(0.1, stream=True)
        with pool.lease(M):
            pass


def test_an_account_of_its_own_trouble_does_not_make_the_upstream_rest_again() -> None:
    """Of those that an outage is over for, the refused ones are at fault themselves."""
    clock = Clock()
    pool = pool_of(NAMES, clock)
    refused(pool, *NAMES)
    clock.now += 600
    answered(pool, "d")
    refused(pool, "a", "b", "c")
    assert disabled(pool) == ["a", "b", "c"]
    assert pool.left("one") == 1


def test_a_request_of_before_the_rest_is_no_trial() -> None:
    clock = Clock()
    pool = pool_of(NAMES, clock)
    with pool.lease(M) as early:
        clock.now += 1
        refused(pool, *NAMES)
        early.succeeded()
        assert pool.left("one") == 0


def test_a_rest_ends_where_the_trial_said_nothing() -> None:
    clock = Clock()
    pool = pool_of(NAMES, clock)
    refused(pool, *NAMES)
    clock.now += 600
    with pool.lease(M):
        pass
    clock.now += 60
    with pool.lease(M) as lease:
        lease.succeeded()
    assert pool.left("one") == len(NAMES)


def test_what_other_workers_were_refused_counts() -> None:
    pool = pool_of(NAMES)
    refused(pool, "a")
    states = {name: AccountState(name, disabled="the upstream refused its key") for name in "bcd"}
    pool.apply(Changes(version=1, states=states))
    assert disabled(pool) == []
    assert pool.left("one") == 0


def test_accounts_that_were_disabled_before_stay_disabled() -> None:
    pool = pool_of(NAMES)
    states = {name: AccountState(name, disabled="the upstream refused its key") for name in "bcd"}
    pool.apply(Changes(version=1, states=states))
    refused(pool, "a")
    assert disabled(pool) == list(NAMES)


def test_quota_that_the_upstream_says_the_end_of_is_the_accounts_own() -> None:
    pool = pool_of(NAMES)
    refused(pool, *NAMES, symptom=Symptom(402, retry_after=7200.0))
    with pytest.raises(NoAccount) as error:
        pool.lease(M)
    assert error.value.refused_for is None
    assert error.value.fault.retry_after == 7200.0


def test_a_good_answer_between_shows_that_keys_are_at_fault() -> None:
    pool = pool_of(NAMES)
    answered(pool, *NAMES)
    refused(pool, "a", "b")
    answered(pool, "d")
    refused(pool, "c")
    assert disabled(pool) == ["a", "b", "c"]


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
