"""Limits: their windows, what is counted in them, and which requests are admitted."""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate
from math import inf
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dragoman.canonical.usage import Usage
from dragoman.config.limits import Limit, Weights, limit_faults
from dragoman.config.windows import Fixed, Rolling, Window, WindowError, parse_window, span_of
from dragoman.edge.record import Record
from dragoman.limits.admission import Refusal, Reservation, Wanted, admit, fitting_output, settle
from dragoman.limits.bound_limits import BoundLimit, BoundLimits, Counts, Kind, kind_of, window_of
from dragoman.limits.counters import PARTS, RESERVED, RollingCounter, cells_of
from dragoman.limits.crossings import Crossing
from dragoman.limits.estimates import text_and_files
from dragoman.limits.rows import OWN_RESERVED, OWN_UNWRITTEN, Row, private_row, reclaim, written
from dragoman.protocols.base import RateLimit
from dragoman.protocols.openai_limits import limit_lines
from dragoman.serving.limits_told import refused as told_refused
from dragoman.serving.request_use import spent_by

NOW = 1_795_000_000.0


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("30s", Rolling(30)),
        ("1m", Rolling(60)),
        ("5h", Rolling(18_000)),
        ("7d", Rolling(604_800)),
        ("day", Fixed("day", "Europe/Berlin")),
        ("total", Fixed(None)),
    ],
)
def test_windows_are_read(text: str, window: Window) -> None:
    assert parse_window(text, "Europe/Berlin") == window


@pytest.mark.parametrize("text", ["", "0s", "1", "-1h", "1y", "daily", "1000000s", "1 h"])
def test_what_is_no_window_is_told(text: str) -> None:
    with pytest.raises(WindowError, match="expected a window"):
        parse_window(text)


def test_a_zone_that_is_none_is_told() -> None:
    for zone in ("Mars/Base", "", "../etc/passwd"):
        for window in ("day", "1m", "total"):
            with pytest.raises(WindowError, match="no time zone"):
                parse_window(window, zone)


# Window, zone, a time there, and when it begins and ends.
SPANS = [
    ("day", "UTC", "2026-11-22T17:00", "2026-11-22T00:00", "2026-11-23T00:00"),
    ("week", "UTC", "2026-11-22T17:00", "2026-11-16T00:00", "2026-11-23T00:00"),
    ("month", "UTC", "2026-12-31T23:59", "2026-12-01T00:00", "2027-01-01T00:00"),
    ("month", "UTC", "2028-02-29T12:00", "2028-02-01T00:00", "2028-03-01T00:00"),
    ("hour", "UTC", "2026-11-22T17:59", "2026-11-22T17:00", "2026-11-22T18:00"),
    ("hour", "Asia/Kolkata", "2026-11-22T17:10", "2026-11-22T17:00", "2026-11-22T18:00"),
    # Clocks are put forward, and back: days of 23 and 25 hours.
    ("day", "Europe/Berlin", "2026-03-29T12:00", "2026-03-29T00:00", "2026-03-30T00:00"),
    ("day", "Europe/Berlin", "2026-10-25T12:00", "2026-10-25T00:00", "2026-10-26T00:00"),
    # Those that begin elsewhere.
    ("day 06:00", "Europe/Berlin", "2026-03-29T05:59", "2026-03-28T06:00", "2026-03-29T06:00"),
    ("day 06:00", "Europe/Berlin", "2026-03-29T06:01", "2026-03-29T06:00", "2026-03-30T06:00"),
    ("day 02:30", "Europe/Berlin", "2026-03-29T12:00", "2026-03-29T03:30", "2026-03-30T02:30"),
    ("day 23:59", "America/Nuuk", "2026-03-29T00:30", "2026-03-27T23:59", "2026-03-29T00:59"),
    ("week Sunday", "UTC", "2026-11-25T12:00", "2026-11-22T00:00", "2026-11-29T00:00"),
    ("week sunday", "UTC", "2026-11-22T00:01", "2026-11-22T00:00", "2026-11-29T00:00"),
    ("week monday", "UTC", "2026-11-22T17:00", "2026-11-16T00:00", "2026-11-23T00:00"),
    ("month 15", "Europe/Berlin", "2026-11-14T23:59", "2026-10-15T00:00", "2026-11-15T00:00"),
    ("month 15", "Europe/Berlin", "2026-01-03T12:00", "2025-12-15T00:00", "2026-01-15T00:00"),
    ("month 31", "UTC", "2026-02-28T00:01", "2026-02-28T00:00", "2026-03-31T00:00"),
    ("month 31", "UTC", "2028-02-28T23:59", "2028-01-31T00:00", "2028-02-29T00:00"),
    ("month 30", "UTC", "2026-03-29T12:00", "2026-02-28T00:00", "2026-03-30T00:00"),
]


@pytest.mark.parametrize(("unit", "zone", "at", "begin", "end"), SPANS)
def test_spans(unit: str, zone: str, at: str, begin: str, end: str) -> None:
    def seconds(text: str) -> float:
        return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()

    text, _, anchor = unit.partition(" ")
    window = parse_window(text, zone, anchor or None)
    assert isinstance(window, Fixed)
    assert span_of(window, seconds(at)) == (seconds(begin), seconds(end))
    assert span_of(window, seconds(begin)) == (seconds(begin), seconds(end))
    assert span_of(window, seconds(end))[0] == seconds(end)


def limit_of(**fields: Any) -> Limit:
    given: dict[str, Any] = {"kind": "requests", "amount": 1, "window": "1m"} | fields
    return Limit(**given)


# A limit, and which field is at fault, with a word of what is said.
FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"amount": -1}, "amount", "whole number"),
    ({"amount": 10**16}, "amount", "whole number"),
    ({"amount": "5"}, "amount", "whole number"),
    ({"kind": "cost", "amount": 5}, "amount", "as a text"),
    ({"kind": "cost", "amount": "5,00"}, "amount", "US dollars"),
    ({"kind": "cost", "amount": "-5"}, "amount", "US dollars"),
    ({"kind": "cost", "amount": "1e3"}, "amount", "US dollars"),
    ({"kind": "cost", "amount": "0.1234567"}, "amount", "six decimals"),
    ({"kind": "cost", "amount": "1000001"}, "amount", "at most"),
    ({"window": None}, "window", "required"),
    ({"window": "1 minute"}, "window", "expected a window"),
    ({"window": "0s"}, "window", "expected a window"),
    ({"window": "day", "zone": "Berlin"}, "zone", "no time zone"),
    ({"kind": "concurrent"}, "window", "have none"),
    ({"kind": "concurrent", "window": None, "anchor": 1}, "anchor", "nothing for concurrent"),
    ({"window": "1m", "anchor": 1}, "anchor", "nothing for 1m"),
    ({"window": "hour", "anchor": "06:00"}, "anchor", "nothing for hour"),
    ({"window": "total", "anchor": 1}, "anchor", "nothing for total"),
    ({"window": "day", "anchor": "24:00"}, "anchor", "time of the day"),
    ({"window": "day", "anchor": 6}, "anchor", "time of the day"),
    ({"window": "week", "anchor": "sun"}, "anchor", "day of the week"),
    ({"window": "month", "anchor": 32}, "anchor", "day of the month"),
    ({"window": "month", "anchor": 0}, "anchor", "day of the month"),
    ({"clamp": True}, "clamp", "nothing for requests"),
    ({"queue_s": 5.0}, "queue_s", "nothing for requests"),
    ({"unpriced": "allow"}, "unpriced", "nothing for requests"),
    ({"granted": 5}, "granted_until", "goes with"),
    ({"granted": -5, "granted_until": datetime.now(ZoneInfo("UTC"))}, "granted", "whole number"),
    ({"count_cached": True, "kind": "output_tokens"}, "count_cached", "nothing for output_tokens"),
    ({"weights": Weights(), "kind": "input_tokens"}, "weights", "nothing for input_tokens"),
    (
        {"weights": Weights(), "kind": "tokens", "count_cached": True},
        "count_cached",
        "nothing with weights",
    ),
    (
        {"weights": Weights(input=0, cache_write=0, output=0, reasoning=0), "kind": "tokens"},
        "weights",
        "no token counts",
    ),
]


@pytest.mark.parametrize(("fields", "field", "told"), FAULTS)
def test_a_limit_that_is_wrong_is_told(fields: dict[str, Any], field: str, told: str) -> None:
    ((path, message),) = limit_faults([limit_of(**fields)])
    assert path == ("limits", 0, field)
    assert told in message


def test_limits_that_are_sound() -> None:
    sound = [
        limit_of(),
        limit_of(window="hour"),
        limit_of(kind="cost", amount="12.50", window="month", zone="Europe/Berlin", clamp=True),
        limit_of(kind="cost", amount="0", window="total"),
        limit_of(kind="concurrent", window=None, amount=0, queue_s=1.0),
    ]
    assert list(limit_faults(sound)) == []
    assert sound[2].units == 12_500_000_000_000


def test_two_limits_that_count_the_same_are_told() -> None:
    """They would be one counter, counted twice."""
    twice = [limit_of(window="1m"), limit_of(window="1m", amount=7, zone="Europe/Berlin")]
    assert [path for path, _ in limit_faults(twice)] == [("limits", 1, "kind")]
    models = [limit_of(models=("a", "b")), limit_of(models=("b", "a"))]
    assert len(list(limit_faults(models))) == 1
    assert not list(limit_faults([limit_of(models=("a",)), limit_of()]))


def counter(seconds: float) -> RollingCounter:
    return RollingCounter(private_row(cells_of(Rolling(1))).cells, seconds)


@pytest.mark.parametrize("seed", range(40))
def test_no_rolling_window_has_more_than_the_limit_and_little_is_wasted(seed: int) -> None:
    chance = random.Random(seed)
    limit, seconds = chance.choice([20, 100, 1000]), 60.0
    counted, now = counter(seconds), NOW
    begin, taken = now, []
    exact: list[float] = []
    while now < begin + 20 * seconds:
        if counted.used(now) < limit:
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
    seconds = chance.choice([30.0, 3600.0])
    counted, now = counter(seconds), NOW
    told: list[tuple[int, int]] = []
    for _ in range(3000):
        now += chance.choice([0.0, 0.001, 0.3, seconds / 300, seconds / 3, seconds * 1.2])
        part = int(now * PARTS / seconds)
        told = [(at, amount) for at, amount in told if at >= part - PARTS]
        assert counted.used(now) == sum(amount for _, amount in told)
        ends = (max(told)[0] + PARTS + 1) * seconds / PARTS if told else now
        assert counted.resets_at(now) == pytest.approx(ends)
        if told:
            missing = chance.randrange(1, counted.used(now) + 1)
            sums = zip(sorted(told), accumulate(amount for _, amount in sorted(told)), strict=True)
            freeing = next(at for (at, _), so_far in sums if so_far >= missing)
            frees = max(now, (freeing + PARTS + 1) * seconds / PARTS)
            assert counted.frees_at(now, missing) == pytest.approx(frees)
        if chance.random() < 0.7:
            amount = chance.randrange(1, 1000)
            counted.add(now, amount)
            told.append((part, amount))
            if chance.random() < 0.2:
                counted.take_back(now, amount)
                told.pop()
        elif told and chance.random() < 0.2:
            counted.take_back_latest(told.pop()[1])


def test_it_is_told_when_there_is_room() -> None:
    for amount in (1, 5, 10):
        counted = counter(64.0)
        for second in range(10):
            counted.add(6400.0 + second, 1)
        at = counted.frees_at(6420.0, amount)
        assert counted.used(at - 0.01) > 10 - amount >= counted.used(at)
        assert at - (6400.0 + amount - 1) <= 64.0 * (1 + 2 / PARTS)
    counted = counter(64.0)
    counted.add(6400.0, 10)
    assert counted.frees_at(6420.0, 11) == inf
    reset = counted.resets_at(6420.0)
    assert counted.used(reset - 0.01) == 10
    assert counted.used(reset) == 0


def bound(amount: int, kind: str = "requests", **fields: Any) -> BoundLimit:
    """A limit by itself, in whole units: dollars for a cost."""
    given = str(amount) if kind == "cost" else amount
    window = None if kind == "concurrent" else "1m"
    limit = limit_of(**{"kind": kind, "amount": given, "window": window} | fields)
    return BoundLimit(limit, "k", private_row(cells_of(window_of(limit))))


def counts(tokens: int = 0, dollars: float = 0.0) -> Counts:
    """One request with so many tokens of output."""
    cost = int(dollars * 10**12)
    return 1, 0, tokens, tokens, cost, 1, 0, tokens, 0, 0, cost


def admitted(limits: Sequence[BoundLimit], wanted: Counts, now: float) -> Reservation | Refusal:
    """What `admit` says to a request that may come to so much."""
    return admit(limits, BoundLimits(limits).most(wanted), now)


def settled(
    found: Reservation, spent: Counts, now: float
) -> tuple[Sequence[Row], Sequence[Crossing]]:
    """A request has come to so much."""
    return settle(found, BoundLimits(found.limits).amounts(spent), now)


ONE = counts(100, 5)

# Limits, what is asked for, and which limit refuses.
ADMISSIONS: list[tuple[list[BoundLimit], Counts, int | None]] = [
    ([], ONE, None),
    ([bound(1)], ONE, None),
    ([bound(0)], ONE, 0),
    ([bound(1), bound(99, "tokens")], ONE, 1),
    ([bound(1), bound(100, "tokens")], ONE, None),
    ([bound(1), bound(4, "cost")], ONE, 1),
    ([bound(1), bound(5, "cost")], ONE, None),
    ([bound(0, mode="shadow"), bound(100, "tokens")], ONE, None),
    ([bound(0, mode="soft"), bound(99, "tokens")], ONE, 1),
    # Of several the one that refuses longest is told.
    ([bound(0, window="1m"), bound(99, "tokens", window="1h")], ONE, 0),
    ([bound(0, "cost"), bound(1, "concurrent")], counts(), None),
    ([bound(0, "concurrent"), bound(1)], ONE, 0),
]


@pytest.mark.parametrize(("limits", "wanted", "refusing"), ADMISSIONS)
def test_all_limits_or_none(limits: list[BoundLimit], wanted: Counts, refusing: int | None) -> None:
    before = [one.left(NOW) for one in limits]
    found = admitted(limits, wanted, NOW)
    after = [one.left(NOW) for one in limits]
    if refusing is None:
        assert isinstance(found, Reservation)
        taken = [wanted[one.kind] for one in limits]
        assert after == [left - amount for left, amount in zip(before, taken, strict=True)]
        assert list(found.exceeded) == [
            one for one, left in zip(limits, after, strict=True) if left < 0
        ]
    else:
        assert isinstance(found, Refusal)
        assert found.limit is limits[refusing]
        assert after == before, "nothing is reserved where one limit refuses"


def test_what_is_settled_is_what_was_used() -> None:
    limits = [bound(10), bound(1000, "tokens"), bound(50, "cost"), bound(3, "concurrent")]
    for spent in (counts(30, 2), counts(700, 0), (0,) * len(Kind)):
        before = [one.left(NOW) for one in limits]
        found = admitted(limits, ONE, NOW)
        assert isinstance(found, Reservation)
        settled(found, spent, NOW + 5)
        left = [one.left(NOW + 5) for one in limits]
        used = [spent[one.kind] for one in limits[:3]] + [0]
        assert left == [was - amount for was, amount in zip(before, used, strict=True)]
        assert [one.row.cells[RESERVED] for one in limits] == [0] * 4
        assert [one.row.own[OWN_RESERVED] for one in limits] == [0] * 4


def test_what_is_used_counts_when_it_is_over() -> None:
    """A request that runs for hours is reserved for so long; it counts in the window it ends in."""
    day, minute = bound(1000, "tokens", window="day"), bound(1000, "tokens")
    found = admitted([day, minute], ONE, NOW)
    assert isinstance(found, Reservation)
    later = NOW + 86_400
    assert [one.left(later) for one in (day, minute)] == [900, 900]
    settled(found, counts(1500), later)
    assert [one.left(later) for one in (day, minute)] == [-500, -500]
    refused = admitted([day], counts(1), later + 2)
    assert isinstance(refused, Refusal)
    assert refused.free_at == span_of(Fixed("day"), later)[1]


def test_when_to_come_again() -> None:
    requests = bound(1)
    assert isinstance(admitted([requests], ONE, NOW), Reservation)
    refused = admitted([requests], ONE, NOW + 10)
    assert isinstance(refused, Refusal)
    assert 49.5 < refused.free_at - (NOW + 10) < 51
    # Only what is under way stands in the way: it may be over soon.
    tokens = bound(150, "tokens")
    assert isinstance(admitted([tokens], ONE, NOW), Reservation)
    refused = admitted([tokens], ONE, NOW)
    assert isinstance(refused, Refusal)
    assert refused.free_at == NOW + 1
    # More than the limit has at all: never.
    refused = admitted([tokens], counts(151), NOW)
    assert isinstance(refused, Refusal)
    assert refused.free_at == inf
    total = bound(1, window="total")
    assert isinstance(admitted([total], ONE, NOW), Reservation)
    refused = admitted([total], ONE, NOW)
    assert isinstance(refused, Refusal)
    assert refused.free_at == inf


def test_a_rolling_budget_is_told_to_have_room_when_it_has() -> None:
    """And not when nothing of it is used any more, which may be hours later."""
    budget = bound(10, "cost", window="5h")
    for at, dollars in ((NOW, 4.0), (NOW + 7200, 6.0)):
        found = admitted([budget], counts(0, dollars), at)
        assert isinstance(found, Reservation)
        settled(found, counts(0, dollars), at)
    refused = admitted([budget], counts(0, 3.0), NOW + 7300)
    assert isinstance(refused, Refusal)
    error, headers = told_refused(refused, NOW + 7300, shows_amounts=True)
    found_at = re.search(r"There is room for this request at (\S+)\.$", error.fault.message)
    assert found_at is not None
    free_at = datetime.fromisoformat(found_at[1]).timestamp()
    assert NOW + 18_000 <= free_at <= NOW + 18_000 * (1 + 2 / PARTS) + 1
    assert error.fault.retry_after is None
    assert (b"x-dragoman-limit", b"key:cost:5h") in headers


def test_amounts_beyond_all_measure_break_nothing() -> None:
    for limits in (
        [bound(1, "tokens", mode="shadow")],
        [bound(1, "tokens", window="day", mode="soft")],
    ):
        for _ in range(1000):
            found = admitted(limits, counts(10**16), NOW)
            assert isinstance(found, Reservation)
            for row in settled(found, counts(10**30), NOW)[0]:
                written(row, row.settled)
                row.settled = 0
        assert limits[0].counter.used(NOW) > 10**18
        assert limits[0].row.cells[RESERVED] == 0


def test_shares_of_a_limit_are_told_once_each() -> None:
    tokens, requests = bound(1000, "tokens", mode="soft"), bound(4)
    told: list[tuple[str, int]] = []
    for spent in (400, 99, 1, 350):
        found = admitted([tokens, requests], counts(0), NOW)
        assert isinstance(found, Reservation)
        _, crossings = settled(found, counts(spent), NOW)
        told += [(one.limit.limit.kind, one.percent) for one in (*found.crossings, *crossings)]
    assert told == [
        ("requests", 50),
        ("tokens", 50),
        ("requests", 80),
        ("requests", 100),
        ("tokens", 80),
    ]


def test_what_is_gone_with_a_process_is_given_back() -> None:
    limits = [bound(10), bound(1000, "tokens")]
    over = admitted(limits, ONE, NOW)
    assert isinstance(over, Reservation)
    changed, _ = settled(over, counts(70), NOW)
    for row in changed:
        written(row, row.settled)
    # Settled, but in no row; and another under way.
    for spent in (counts(30), None):
        found = admitted(limits, ONE, NOW + 1)
        assert isinstance(found, Reservation)
        if spent is not None:
            settled(found, spent, NOW + 1)
    for one in limits:
        reclaim(one.counter, one.row, 0)
        assert not any(one.row.own)
        assert one.row.cells[RESERVED] == 0
    assert [one.counter.used(NOW + 1) for one in limits] == [1, 70]
    assert [one.row.own[OWN_UNWRITTEN] for one in limits] == [0, 0]


WEIGHTS = Weights(input=1, cached=0, cache_write=2, output=5, reasoning=4)
ONLY_INPUT = Weights(output=0, reasoning=0)

# Input, of it cached, of it written; output, of it reasoning; and what that comes to.
WEIGHED = [
    ((100, 0, 0, 0, 0), 100),
    ((100, 60, 0, 0, 0), 40),
    ((100, 60, 30, 0, 0), 10 + 2 * 30),
    ((0, 0, 0, 100, 0), 500),
    ((0, 0, 0, 100, 40), 5 * 60 + 4 * 40),
    ((100, 60, 30, 100, 40), 10 + 60 + 300 + 160),
]


@pytest.mark.parametrize(("told", "comes_to"), WEIGHED)
def test_tokens_are_weighed(told: tuple[int, int, int, int, int], comes_to: int) -> None:
    """As answers tell of them, and never more than was reserved."""
    given, cached, written_, output, thought = told
    record = Record(
        usage=Usage(
            input=given, cached=cached, cache_write=written_, output=output, reasoning=thought
        )
    )
    one = bound(10**6, "tokens", weights=WEIGHTS)
    spent = spent_by(record)
    assert one.amount_of(spent) == comes_to
    assert one.most_of(Wanted(given, output).counts()) >= comes_to
    # Sums of hours come to the sum.
    twice = [2 * count for count in spent]
    assert one.amount_of(twice) == 2 * comes_to
    # The usual weights are what a limit without any counts.
    plain = bound(10**6, "tokens")
    assert bound(10**6, "tokens", weights=Weights()).amount_of(spent) == plain.amount_of(spent)
    found = admitted([one, plain], Wanted(given, output).counts(), NOW)
    assert isinstance(found, Reservation)
    settled(found, spent, NOW)
    assert one.left(NOW) == 10**6 - comes_to
    assert one.row.cells[RESERVED] == 0


def test_other_weights_are_counted_apart() -> None:
    limits = [bound(1, "tokens", weights=one).limit for one in (None, Weights(), WEIGHTS)]
    assert len({one.counted_as for one in limits}) == 3
    assert not list(limit_faults(limits))


# Limits, what a request wants (input, output, dollars without and with output), and what fits.
CLAMPS: list[tuple[list[BoundLimit], tuple[int, int, float, float | None], int | None]] = [
    ([bound(1000, "tokens", clamp=True)], (100, 2000, 0, 0), 900),
    ([bound(1000, "tokens")], (100, 2000, 0, 0), None),
    ([bound(1000, "tokens", clamp=True, mode="soft")], (100, 2000, 0, 0), None),
    ([bound(1000, "tokens", clamp=True)], (100, 900, 0, 0), None),
    ([bound(300, "tokens", clamp=True)], (100, 900, 0, 0), None),
    ([bound(300, "output_tokens", clamp=True)], (100, 900, 0, 0), 300),
    ([bound(1000, "tokens", clamp=True, weights=WEIGHTS)], (10, 900, 0, 0), None),
    ([bound(4200, "tokens", clamp=True, weights=WEIGHTS)], (100, 900, 0, 0), 800),
    ([bound(4200, "tokens", clamp=True, weights=ONLY_INPUT)], (100, 900, 0, 0), None),
    ([bound(10, "cost", clamp=True)], (100, 1000, 5.0, 15.0), 500),
    ([bound(10, "cost", clamp=True)], (100, 1000, 8.0, 18.0), None),
    ([bound(10, "cost", clamp=True)], (100, 1000, 0.0, None), None),
    (
        [bound(10, "cost", clamp=True), bound(400, "output_tokens", clamp=True)],
        (100, 1000, 5.0, 15.0),
        400,
    ),
]


@pytest.mark.parametrize(("limits", "wants", "fits"), CLAMPS)
def test_the_output_that_fits(
    limits: list[BoundLimit], wants: tuple[int, int, float, float | None], fits: int | None
) -> None:
    given, output, plain, whole = wants
    cost = None if whole is None else int(whole * 10**12)
    wanted = Wanted(given, output, int(plain * 10**12), cost)
    found = fitting_output(limits, wanted, NOW)
    assert found == fits
    if found is not None:
        lowered = wanted.with_output(found).counts()
        assert isinstance(admitted(limits, lowered, NOW), Reservation), "it fits"


def test_models_are_counted_together() -> None:
    some = bound(1, models=("gpt-*", "o4"))
    assert some.concerns(["gpt-5.5"])
    assert some.concerns(["fast", "o4"])
    assert not some.concerns(["claude", "fast"])
    assert bound(1).concerns(["claude"])


def test_tokens_from_a_cache_count_where_that_is_wanted() -> None:
    kinds = [kind_of(limit_of(kind="tokens", count_cached=flag)) for flag in (False, True)]
    assert [kind.name for kind in kinds] == ["TOKENS", "ALL_TOKENS"]


PICTURE = random.Random(1).randbytes(60_000)


@pytest.mark.parametrize(
    "data",
    [
        base64.b64encode(PICTURE),
        base64.b64encode(PICTURE).replace(b"/", b"\\/"),
        base64.urlsafe_b64encode(PICTURE),
        base64.encodebytes(PICTURE).replace(b"\n", b"\\n"),
        base64.encodebytes(PICTURE).replace(b"\n", b"\\r\\n"),
    ],
    ids=["plain", "slashes escaped", "for URLs", "in lines", "in lines of Windows"],
)
def test_a_file_in_a_prompt_is_no_text(data: bytes) -> None:
    """However a client writes it: PHP escapes slashes."""
    body = b'{"messages":[{"type":"base64","data":"%b"},{"text":"what is this?"}]}' % data
    text, files = text_and_files(body)
    assert files == 1
    assert text <= len(body) - len(data) + 2


def test_what_is_too_short_for_a_file_is_text() -> None:
    body = b"base64" + b" %b" % (b"a" * 1999) * 120
    assert text_and_files(body) == (len(body), 0)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-1.0, "0ms"),
        (0.0845, "84ms"),
        (1.0, "1s"),
        (1.9, "2s"),
        (60.0000001, "1m0s"),
        (3599.2, "1h0m0s"),
    ],
)
def test_a_reset_is_told_no_earlier_than_it_is(seconds: float, told: str) -> None:
    lines = limit_lines(RateLimit("requests", 5, seconds, NOW + seconds))
    assert lines.endswith(f"x-ratelimit-reset-requests: {told}\r\n".encode())
