"""States of a gateway whose clock was ahead."""

from __future__ import annotations

import pytest

from dragoman.accounts.decide.states import AccountState, Rest
from dragoman.accounts.store import Changes
from dragoman.operations.account_views import status_of
from tests.accounts.pools import THROTTLED, Clock, M, name_of, pool_of

DAYS_S = 90 * 86_400.0


def test_rests_of_a_clock_that_was_ahead_are_over(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    pool = pool_of("ab", clock)
    began = clock.now + DAYS_S
    rest = Rest(began + 60, "rate limited", since=began)
    states = {
        "a": AccountState("a", exhausted=rest, cooling={"m": rest}),
        "b": AccountState("b", cooling={"": rest}),
    }
    assert [status_of(state, clock.now).state for state in states.values()] == ["active"] * 2
    pool.apply(Changes(version=1, states=states, used={"a": began, "b": began}))
    assert {name_of(pool, M), name_of(pool, M)} == {"a", "b"}
    assert "account a: a rest of a clock that was ahead is over" in caplog.text


def test_a_clock_that_is_set_back_keeps_no_account_out(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    pool = pool_of("a", clock)
    clock.now += DAYS_S
    with pool.lease(M) as lease:
        lease.failed(THROTTLED)
    pool.take_batch()
    assert pool.lend(M) is None
    clock.now -= DAYS_S
    pool.take_batch()
    assert name_of(pool, M) == "a"
    assert "the clock was set back by 7776000 s" in caplog.text
