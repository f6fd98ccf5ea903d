"""The health of proxies."""

from __future__ import annotations

import random

import pytest

from dragoman.accounts.decide.proxies import ProxySet, rest_after, same_failure, shown


def take(proxies: ProxySet, count: int, now: float) -> list[int]:
    return [proxies.choose(now) for _ in range(count)]


def fail(proxies: ProxySet, index: int, now: float) -> float:
    rest = proxies.failed(index, now, now, 0.5)
    assert rest is not None
    return rest.until


def test_healthy_proxies_take_turns() -> None:
    assert take(ProxySet(3), 7, 0.0) == [0, 1, 2, 0, 1, 2, 0]


def test_a_failed_proxy_rests_and_comes_back() -> None:
    """req: 141"""
    proxies = ProxySet(3)
    until = fail(proxies, 1, 0.0)
    assert 1 not in take(proxies, 6, until - 0.01)
    assert sorted(take(proxies, 3, until)) == [0, 1, 2]


def test_rests_grow_vary_decay_and_are_forgotten_with_a_success() -> None:
    proxies, now, rests = ProxySet(2), 0.0, []
    for _ in range(12):
        until = fail(proxies, 0, now)
        rests.append(until - now)
        now = until
    assert rests[:4] == [1.0, 2.0, 4.0, 8.0]
    assert rests[-2:] == [120.0, 120.0]
    spread = {rest_after(None, 0.0, part / 4).until for part in range(4)}
    assert len(spread) == 4
    assert all(0.75 <= until < 1.25 for until in spread)
    calm = proxies.rest(0)
    assert calm is not None
    assert rest_after(calm, calm.until + 299.0, 0.5).streak == 13
    assert rest_after(calm, calm.until + 601.0, 0.5).streak == 11
    assert rest_after(calm, calm.until + 1e6, 0.5).streak == 1
    proxies.succeeded(0, now)
    assert proxies.rest(0) is None
    assert sorted(take(proxies, 2, now)) == [0, 1]


def test_when_all_rest_the_first_to_come_back_is_taken() -> None:
    proxies = ProxySet(3)
    for index, now in ((2, 0.0), (0, 0.1), (1, 0.2)):
        fail(proxies, index, now)
    assert take(proxies, 3, 0.3) == [2, 2, 2]
    assert fail(proxies, 2, 0.4) > 2.0
    assert take(proxies, 2, 0.5) == [0, 0]


def test_calls_that_began_before_a_failure_say_nothing_new() -> None:
    """Many calls are in flight when a proxy dies; together they are one failure."""
    proxies = ProxySet(1)
    until = fail(proxies, 0, 10.0)
    assert proxies.failed(0, 9.0, 10.5, 0.5) is None
    proxies.succeeded(0, 9.0)
    rest = proxies.rest(0)
    assert rest is not None
    assert rest.until == until
    assert same_failure(rest, 9.0, 10.5)
    assert not same_failure(rest, 9.0, until)


def test_against_a_plain_look_at_all_proxies() -> None:
    chance = random.Random(3)
    proxies, count, now = ProxySet(9), 9, 0.0
    ends = [0.0] * count
    for _ in range(5000):
        now += chance.random() * 0.3
        index = proxies.choose(now)
        healthy = [end <= now for end in ends]
        assert healthy[index] if any(healthy) else ends[index] == min(ends)
        if chance.random() < 0.3:
            ends[index] = fail(proxies, index, now)
        elif chance.random() < 0.5:
            proxies.succeeded(index, now)
            ends[index] = 0.0


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://proxy:8080", "proxy:8080"),
        ("socks5://me:secret@proxy.example:1080/", "proxy.example:1080"),
        ("http://me:se@cret@proxy:1", "proxy:1"),
        ("http://me:se/cret@proxy:1?x", "proxy:1"),
        ("me:secret@proxy:1", "proxy:1"),
        ("https://[::1]:8443/path", "[::1]:8443"),
    ],
)
def test_only_host_and_port_of_a_proxy_are_shown(url: str, expected: str) -> None:
    assert shown(url) == expected
