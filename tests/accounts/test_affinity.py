"""Which account a conversation is with."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.accounts.decide.affinity import Affinity
from dragoman.accounts.pool import AccountPool, LeaseRequest
from dragoman.config import Account, Config
from tests.accounts.pools import ONE, Clock


def test_an_account_is_remembered_for_a_while_after_its_last_use() -> None:
    pins = Affinity(100.0, 100.0)
    pins.pin(b"c", "a", 0.0)
    assert pins.find(b"c", 100.0)[0] == "a"
    pins.pin(b"c", "a", 100.0)
    assert pins.find(b"c", 200.0)[0] == "a"
    assert pins.find(b"c", 200.1)[0] == ""
    assert pins.find(b"other", 0.0)[0] == ""


def test_others_are_told_of_new_pins_moves_and_long_use() -> None:
    pins = Affinity(100.0, 100.0)
    assert pins.pin(b"c", "a", 0.0)
    assert not pins.pin(b"c", "a", 10.0)
    assert pins.pin(b"c", "b", 11.0)
    assert not pins.pin(b"c", "b", 36.0)
    assert pins.pin(b"c", "b", 36.1)
    assert not pins.pin(b"c", "b", 61.0)


def test_the_later_pin_of_two_workers_counts() -> None:
    pins = Affinity(100.0, 100.0)
    pins.pin(b"c", "a", 10.0)
    pins.merge(b"c", "b", 9.0)
    assert pins.find(b"c", 10.0)[0] == "a"
    pins.merge(b"c", "b", 11.0)
    assert pins.find(b"c", 11.0)[0] == "b"
    pins.merge(b"d", "a", 1.0)
    assert pins.find(b"d", 101.0)[0] == "a"
    assert pins.find(b"d", 102.0)[0] == ""


def test_the_least_recently_used_are_forgotten_when_there_are_too_many() -> None:
    pins = Affinity(1e9, 1e9, most=3)
    for number, digest in enumerate((b"1", b"2", b"3", b"1", b"4")):
        pins.pin(digest, "a", float(number))
    assert [digest for digest in (b"1", b"2", b"3", b"4") if pins.find(digest, 5.0)[0]] == [
        b"1",
        b"3",
        b"4",
    ]
    for number in range(1000):
        pins.pin(b"%d" % number, "a", 10.0)
    assert len(pins) == 3


def test_what_is_over_does_not_pile_up() -> None:
    pins = Affinity(10.0, 10.0)
    for number in range(1000):
        pins.pin(b"%d" % number, "a", float(number))
    assert len(pins) == 11


def test_a_conversation_returns_from_the_overflow_when_its_cache_has_gone_cold() -> None:
    accounts = (
        Account(name="preferred", upstream="one", priority=0, max_concurrent=1),
        Account(name="overflow", upstream="one", priority=1),
    )
    clock = Clock()
    upstream = replace(ONE, affinity_s=3600.0, cached_s=300.0)
    pool = AccountPool(Config(upstreams=(upstream,), accounts=accounts), clock=clock)
    wanted = LeaseRequest("one", "m", b"talk")

    def asked(wanted: LeaseRequest = wanted) -> tuple[str, bool]:
        with pool.lease(wanted) as lease:
            lease.succeeded()
            return lease.account.name, lease.moved

    with pool.lease(LeaseRequest("one", "m")):
        assert asked() == ("overflow", False)
    for _ in range(3):
        clock.now += 299
        assert asked() == ("overflow", False), "its cache is warm"
    clock.now += 301
    bound = LeaseRequest("one", "m", b"talk", account="overflow")
    assert asked(bound) == ("overflow", False), "its reasoning is there"
    clock.now += 301
    with pool.lease(LeaseRequest("one", "m")):
        assert asked() == ("overflow", False), "the preferred one is busy"
    clock.now += 301
    assert asked() == ("preferred", True)
    assert asked() == ("preferred", False)
