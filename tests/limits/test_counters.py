"""What is counted within windows."""

from __future__ import annotations

import random
from itertools import accumulate
from math import inf

import pytest

from dragoman.config.windows import Fixed, Rolling
from dragoman.limits.counters import CLOCK_SLACK_S, PARTS, Counter, counts_until

NOW = 1_795_000_000.0


def counter(seconds: int) -> Counter:
    return Counter(Rolling(seconds))


@pytest.mark.parametrize("seed", range(40))
def test_no_rolling_window_has_more_than_the_limit_and_little_is_wasted(seed: int) -> None:
    chance = random.Random(seed)
    limit, seconds = chance.choice([20, 100, 1000]), 60
    counted, now = counter(seconds), NOW
    begin, taken = now, []
    exact: list[float] = []
    while now < begin + 20 * seconds:
        if counted.advance(now) < limit:
            counted.add(now, 1)
            taken.append(now)
        # What may be taken where each is remembered by itself.
        if len(exact) < limit or now - exact[-limit] >= seconds:
            exact.append(now)
        now += chance.expovariate(3 * limit / seconds)
    for first, last in zip(taken, taken[limit:], strict=False):
        assert last - first > seconds
    assert len(taken) >= 0.99 * len(exact) - 1


@pytest.mark.parametrize("seed", range(20))
def test_a_rolling_counter_against_a_list(seed: int) -> None:
    """Whatever is counted and taken back, in whatever steps time goes on."""
    chance = random.Random(seed)
    seconds = chance.choice([30, 3600])
    counted, now = counter(seconds), NOW
    told: list[tuple[int, int]] = []
    for _ in range(3000):
        now += chance.choice([0.0, 0.001, 0.3, seconds / 300, seconds / 3, seconds * 1.2])
        part = int(now * PARTS / seconds)
        told = [(at, amount) for at, amount in told if at >= part - PARTS]
        assert counted.advance(now) == sum(amount for _, amount in told)
        ends = (max(told)[0] + PARTS + 1) * seconds / PARTS if told else now
        assert counted.resets_at(now) == pytest.approx(ends)
        if told:
            missing = chance.randrange(1, counted.advance(now) + 1)
            sums = zip(sorted(told), accumulate(amount for _, amount in sorted(told)), strict=True)
            freeing = next(at for (at, _), so_far in sums if so_far >= missing)
            frees = max(now, (freeing + PARTS + 1) * seconds / PARTS)
            assert counted.free_at(now, missing) == pytest.approx(frees)
        if chance.random() < 0.7:
            amount = chance.randrange(1, 1000)
            counted.add(now, amount)
            told.append((part, amount))
            if chance.random() < 0.2:
                counted.take_back(now, amount)
                told.pop()
        elif told and chance.random() < 0.2:
            at, amount = told[0]
            told[0] = at, amount - 1
            counted.take_back_oldest(now, 1)
            if amount == 1:
                told.pop(0)


DAYS_S = 90 * 86_400.0


@pytest.mark.parametrize(
    "window", [Rolling(60), Rolling(30 * 86_400), Fixed("day"), Fixed("month"), Fixed("hour")]
)
def test_what_was_counted_by_a_clock_far_ahead_is_free_when_its_window_ends(
    window: Rolling | Fixed,
) -> None:
    ahead = Counter(window)
    ahead.add(NOW + DAYS_S, 7)
    for counted in (ahead, Counter(window, ahead.state())):
        assert counted.advance(NOW) == 7
        ends = counted.resets_at(NOW)
        assert ends <= counts_until(window, NOW) + 0.01 * DAYS_S
        assert counted.advance(ends) == 0
        counted.add(ends, 1)
        assert counted.advance(ends + CLOCK_SLACK_S / 2) in (0, 1)


def test_it_is_told_when_there_is_room() -> None:
    for amount in (1, 5, 10):
        counted = counter(64)
        for second in range(10):
            counted.add(6400.0 + second, 1)
        at = counted.free_at(6420.0, amount)
        assert counted.advance(at - 0.01) > 10 - amount >= counted.advance(at)
        assert at - (6400.0 + amount - 1) <= 64.0 * (1 + 2 / PARTS)
    counted = counter(64)
    counted.add(6400.0, 10)
    assert counted.free_at(6420.0, 11) == inf
    reset = counted.resets_at(6420.0)
    assert counted.advance(reset - 0.01) == 10
    assert counted.advance(reset) == 0


@pytest.mark.parametrize("window", [Rolling(3600), Fixed("day"), Fixed(None)])
def test_a_counter_goes_on_from_its_state(window: Rolling | Fixed) -> None:
    first = Counter(window)
    first.add(NOW, 5)
    first.add(NOW + 60, 7)
    second = Counter(window, first.state())
    first.add(NOW + 60, 100)
    assert second.advance(NOW + 61) == 12
    assert second.resets_at(NOW + 61) == first.resets_at(NOW + 61)


def test_a_calendar_begins_anew() -> None:
    day = Counter(Fixed("day"))
    midnight = counts_until(Fixed("day"), NOW)
    day.add(midnight - 1, 5)
    assert (day.resets_at(midnight - 1), day.free_at(midnight - 1, 5)) == (midnight, midnight)
    assert day.advance(midnight) == 0
    day.take_back(midnight - 1, 5)
    assert day.advance(midnight) == 0


def test_forecasts() -> None:
    """By the last eighth of a rolling window, less what becomes free; by all of a calendar's."""
    rolling = Counter(Rolling(256))
    for second in range(32):
        rolling.add(25_600.0 + second, 2)
    assert rolling.runs_out_at(25_631.5, 100, 0.0) == pytest.approx(25_631.5 + 50, abs=2)
    assert rolling.runs_out_at(25_631.5, 10_000, 0.0) == inf
    midnight = counts_until(Fixed("day"), NOW)
    day = Counter(Fixed("day"))
    day.add(midnight - 43_200, 30)
    assert day.runs_out_at(midnight - 43_200, 10, 0.0) == midnight - 43_200 + 14_400
    assert day.runs_out_at(midnight - 43_200, 100, 0.0) == inf
    assert Counter(Fixed(None)).runs_out_at(NOW, 5, 0.0) == inf


def test_more_than_fits_64_bits_is_not_counted() -> None:
    counted = Counter(Fixed("day"))
    for _ in range(1000):
        counted.add(NOW, 10**16)
    assert 10**18 < counted.advance(NOW) < 1 << 63
