"""Hosts that cannot be reached, and calls that say nothing: what is decided, and what of it the
pool does."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.hosts import Host, Hosts, dials_again
from dragoman.accounts.decide.states import Rest
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.pool import AccountPool, LeaseRequest
from dragoman.accounts.silence import (
    UsualWait,
    after_late_answer,
    rest_after_silence,
    trial,
)
from dragoman.accounts.upstream_pool import Lease
from dragoman.config import Account, Config, Secret, Upstream
from tests.accounts.pools import ONE, Clock, M, name_of, pool_of

HOST = Host("upstream.example", 443)
NOW = 1000.0


@pytest.mark.parametrize(
    ("failed", "timed_out", "was_known", "one_way", "again"),
    [
        (1, False, False, True, True),  # refused, by a host that was well: once more
        (2, False, False, True, False),  # refused again
        (1, True, False, True, False),  # a wait for nothing is not repeated
        (2, True, False, True, False),
        (1, False, True, True, False),  # it was known to be down: one look is enough
        (1, True, True, True, False),
        (1, True, True, False, True),  # another account may go another way
        (3, True, True, False, True),
        (4, True, True, False, False),
    ],
)
def test_how_often_a_request_dials(
    failed: int, timed_out: bool, was_known: bool, one_way: bool, again: bool
) -> None:
    dials = dials_again(failed, timed_out=timed_out, was_known=was_known, one_way=one_way)
    assert dials is again


def test_a_host_rests_longer_with_each_failure_in_a_row() -> None:
    hosts, now, found = Hosts(), NOW, []
    for _ in range(10):
        rest = hosts.failed(HOST, now, now, 0.5)
        assert rest is not None
        found.append(rest.until - now)
        now = rest.until
    assert found == [1, 2, 4, 8, 16, 32, 64, 120, 120, 120]
    hosts.answered(HOST, now - 200.0)
    assert hosts.rest(HOST) is not None, "it was connected before"
    hosts.answered(HOST, now)
    assert hosts.rest(HOST) is None
    assert not hosts.rests


def test_failures_of_one_moment_are_one() -> None:
    hosts = Hosts()
    rest = hosts.failed(HOST, NOW, NOW + 1.0, 0.5)
    assert rest is not None
    for taken in (NOW, NOW + 0.5):
        assert hosts.failed(HOST, taken, NOW + 1.5, 0.5) is None
    assert hosts.rest(HOST) == rest


def test_one_request_is_the_trial() -> None:
    hosts = Hosts()
    assert not hosts.is_avoided(HOST, NOW)
    rest = hosts.failed(HOST, NOW, NOW, 0.5)
    assert rest is not None
    assert hosts.is_avoided(HOST, NOW + 0.5)
    later = rest.until
    assert [hosts.is_avoided(HOST, later) for _ in range(3)] == [False, True, True]
    # Its failure is one more in a row; one without an outcome is followed by another in time.
    again = hosts.failed(HOST, later, later + 0.1, 0.5)
    assert again is not None
    assert (again.streak, again.until) == (2, later + 0.1 + 2.0)
    assert not hosts.is_avoided(HOST, again.until)
    assert not hosts.is_avoided(HOST, again.until + 10.0)
    # The way through a proxy is another.
    assert not hosts.is_avoided(replace(HOST, proxy="http://u:secret@p:1"), NOW)
    assert "secret" not in repr(replace(HOST, proxy="http://u:secret@p:1"))


def usual(*seconds: float) -> UsualWait:
    wait = UsualWait()
    for one in seconds:
        wait.heard(one)
    return wait


@pytest.mark.parametrize(
    ("heard", "limit"),
    [
        ([], 0.0),
        ([1.0] * 31, 0.0),  # too little is known
        ([0.2] * 32, 5.0),  # never before some seconds
        ([1.0] * 32, 5.0),
        ([3.0] * 32, 16.384),
        ([0.5] * 31 + [50.0], 262.144),  # one of few may be usual
        ([0.5] * 200 + [50.0] + [0.5] * 200, 5.0),  # one of many is not
        ([60.0] * 32, 262.144),
        ([1e9] * 32, 4 * 2**23 / 1000),
        ([0.0] * 32, 5.0),
        ([60.0] * 32 + [0.5] * 2000, 5.0),  # what was usual is forgotten
    ],
)
def test_what_is_far_longer_than_usual(heard: list[float], limit: float) -> None:
    assert usual(*heard).limit == limit


def test_the_rest_of_a_silent_account_grows_and_is_forgotten() -> None:
    rest: Rest | None = None
    now, found = NOW, []
    for _ in range(8):
        rest = rest_after_silence(rest, now, now, 0.5)
        assert rest is not None
        assert rest.soft
        found.append(rest.until - now)
        now = rest.until
    assert found == [30, 60, 120, 240, 480, 960, 1920, 3600]
    assert rest is not None
    much_later = rest_after_silence(rest, now + 8 * 3600.0, now + 8 * 3600.0, 0.5)
    assert much_later is not None
    assert much_later.streak == 1
    assert rest_after_silence(rest, NOW, rest.until - 1.0, 0.5) is None


def test_it_lasts_as_long_as_the_call_may_but_no_longer_than_it_does() -> None:
    rest = rest_after_silence(None, NOW, NOW + 5.0, 0.5, 595.0)
    assert rest is not None
    assert rest.until == NOW + 600.0
    again = rest_after_silence(rest, NOW + 700.0, NOW + 705.0, 0.5, 595.0)
    assert again is not None
    assert again.until == NOW + 705.0 + 2 * 595.0
    assert after_late_answer(rest, NOW + 10.0).until == NOW + 35.0
    assert after_late_answer(rest, NOW + 300.0).until == NOW + 300.0
    short = rest_after_silence(None, NOW, NOW + 5.0, 0.5, -1.0)
    assert short is not None
    assert after_late_answer(short, NOW + 6.0) == short


def test_a_trial_keeps_others_away_until_it_is_late_itself() -> None:
    rest = Rest(NOW, "silent", True, 3, NOW - 40.0)
    assert trial(rest, 20.0, NOW - 1.0) is None
    assert trial(rest, 20.0, NOW) == replace(rest, until=NOW + 20.0)
    assert trial(rest, 0.0, NOW) == replace(rest, until=NOW + 10.0)


def silent_pool(clock: Clock, **upstream: object) -> AccountPool:
    """A pool whose upstream commonly answers within half a second."""
    pool = pool_of("abc", clock, **upstream)
    for _ in range(40):
        with pool.lease(M) as lease:
            lease.began(0.4, stream=True)
    assert lease.accounts.waits[True].limit == 5.0
    assert lease.accounts.waits[False].limit == 0.0
    return pool


def test_a_silent_account_is_avoided_until_a_trial_is_answered_as_usual() -> None:
    clock = Clock()
    pool = silent_pool(clock)
    hung = pool.lease(M)
    name = hung.account.name
    clock.now += 5.0
    assert not hung.fell_silent()  # it may be at work: it goes on
    others = {name_of(pool) for _ in range(20)}
    assert others == {"a", "b", "c"} - {name}
    # Its conversations go on elsewhere, and it serves if no other can.
    assert name_of(pool, M, others) == name
    clock.now += 31.0
    assert name not in {name_of(pool) for _ in range(20)}, "the call may still be at work"
    clock.now += 600.0
    trials: list[Lease] = []
    while not trials or trials[-1].account.name != name:
        trials.append(pool.lease(M))
    assert name not in {name_of(pool) for _ in range(20)}, "one trial at a time"
    clock.now += 5.0
    assert not trials[-1].fell_silent()
    clock.now += 10.0
    trials[-1].began(15.0, stream=True)  # far too late
    assert name not in {name_of(pool) for _ in range(20)}
    clock.now += 600.0
    while trials[-1].account.name != name or trials[-1].taken < clock.now:
        trials.append(pool.lease(M))
    trials[-1].began(0.3, stream=True)
    assert name in {name_of(pool) for _ in range(20)}
    for lease in [hung, *trials]:
        lease.give_back()


def test_a_request_that_met_a_silence_is_no_trial() -> None:
    """It has waited long enough, unless there is no other account."""
    clock = Clock()
    pool = silent_pool(clock, max_concurrent=1)
    with pool.lease(M) as hung:
        hung.fell_silent(ended=True)
    name = hung.account.name
    clock.now += 3600.0
    proven = replace(M, proven=True)
    others = {name_of(pool, proven) for _ in range(20)}
    assert others == {"a", "b", "c"} - {name}
    assert name_of(pool, proven, others) == name
    clock.now += 3600.0
    assert name in {name_of(pool) for _ in range(3)}, "any other may be the trial"
    assert not pool.take_batch().leases


def test_a_person_may_forget_a_silence() -> None:
    clock = Clock()
    pool = silent_pool(clock)
    with pool.lease(M) as hung:
        assert not hung.fell_silent()
    clock.now += 1.0
    assert hung.account.name not in {name_of(pool) for _ in range(20)}
    pool.enable(hung.account.name)
    assert hung.account.name in {name_of(pool) for _ in range(20)}


def test_a_call_moves_where_that_is_set() -> None:
    pool = silent_pool(Clock(), silent_calls="move")
    with pool.lease(M) as hung:
        assert hung.fell_silent()


def test_other_upstreams_go_before_one_whose_host_is_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    pool = pool_of("ab", clock)
    assert not pool.avoids("one")
    with pool.lease(M) as lease:
        assert lease.unreached(failed=1, timed_out=False, cause="connection_refused")
        assert not lease.unreached(failed=2, timed_out=False)
    assert pool.avoids("one")
    assert ":1 cannot be reached (connection refused): avoided for " in caplog.text
    assert "Host(" not in caplog.text
    with pool.lease(M) as lease:
        assert not lease.unreached(failed=1, timed_out=False), "it was known"
        lease.failed(Symptom(429))
    assert not pool.avoids("one"), "whatever it answers, it answers"


def test_accounts_that_go_another_way_are_not_concerned() -> None:
    accounts = (
        Account(name="a", upstream="one"),
        Account(name="b", upstream="one", proxy=Secret("http://p:1")),
    )
    pool = AccountPool(Config(upstreams=(ONE,), accounts=accounts), clock=Clock())
    with pool.lease(M, ("b",)) as lease:
        assert lease.unreached(failed=1, timed_out=True)
    assert not pool.avoids("one"), "some of its accounts may reach it"
    pool.withdraw(["b"])
    assert pool.avoids("one")


def test_hosts_are_those_of_base_urls() -> None:
    upstreams: tuple[Upstream, ...] = (
        replace(ONE, name="one", base_url="https://h/v1"),
        replace(ONE, name="two", base_url="https://h:443"),
        replace(ONE, name="three", base_url="http://h"),
    )
    accounts = tuple(Account(name=one.name, upstream=one.name) for one in upstreams)
    pool = AccountPool(Config(upstreams=upstreams, accounts=accounts), clock=Clock())
    with pool.lease(LeaseRequest("one")) as lease:
        lease.unreached(failed=1, timed_out=False)
    assert [pool.avoids(one.name) for one in upstreams] == [True, True, False]
