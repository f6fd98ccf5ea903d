"""Limits of keys and teams: how they are written, their windows, and what requests count."""

from __future__ import annotations

import base64
import json
import random
import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dragoman.canonical.usage import Usage
from dragoman.config.limits import Limit, Weights, limit_faults
from dragoman.config.windows import Fixed, Rolling, Window, WindowError, parse_window, span_of
from dragoman.edge.record import Record
from dragoman.limits.counters import PARTS
from dragoman.limits.estimates import LEAST_TOKENS_PER_BYTE, TOKENS_PER_BYTE, Estimates
from dragoman.limits.messages import Admit, Refused
from dragoman.limits.owner import fitting_output
from dragoman.limits.rules import Expected, Rule, Rules, kind_of
from dragoman.protocols.base import RateLimit
from dragoman.protocols.openai_limits import limit_lines
from dragoman.serving.limits.responses import refused
from dragoman.serving.limits.use import spent_by
from dragoman.translation import ClientRequest
from dragoman.translation.estimate import Files

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


def test_hours_follow_one_another_where_clocks_change_by_half_an_hour() -> None:
    window = parse_window("hour", "Australia/Lord_Howe")
    assert isinstance(window, Fixed)
    for day in (datetime(2026, 4, 4, tzinfo=UTC), datetime(2026, 10, 3, tzinfo=UTC)):
        at = day.timestamp()
        while at < day.timestamp() + 86400:
            begin, end = span_of(window, at)
            assert begin <= at < end
            assert end - begin == 3600
            assert span_of(window, end)[0] == end
            at += 600


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
    ({"amount": 5.5}, "amount", "whole number"),
    ({"kind": "cost", "amount": -5}, "amount", "US dollars"),
    ({"kind": "cost", "amount": 0.0000001}, "amount", "six decimals"),
    ({"kind": "cost", "amount": "5,00"}, "amount", "US dollars"),
    ({"kind": "cost", "amount": "-5"}, "amount", "US dollars"),
    ({"kind": "cost", "amount": "1e3"}, "amount", "US dollars"),
    ({"kind": "cost", "amount": "0.1234567"}, "amount", "six decimals"),
    ({"kind": "cost", "amount": "1000001"}, "amount", "at most"),
    ({"window": None}, "window", "required"),
    ({"window": "1 minute"}, "window", "expected a window"),
    ({"window": "0s"}, "window", "expected a window"),
    ({"window": "day", "zone": "Berlin"}, "zone", "no time zone"),
    ({"kind": "concurrent"}, "window", "has no effect"),
    ({"kind": "concurrent", "window": None, "anchor": 1}, "anchor", "no effect for concurrent"),
    ({"window": "1m", "anchor": 1}, "anchor", "no effect for 1m"),
    ({"window": "hour", "anchor": "06:00"}, "anchor", "no effect for hour"),
    ({"window": "total", "anchor": 1}, "anchor", "no effect for total"),
    ({"window": "day", "anchor": "24:00"}, "anchor", "time of the day"),
    ({"window": "day", "anchor": 6}, "anchor", "time of the day"),
    ({"window": "week", "anchor": "sun"}, "anchor", "day of the week"),
    ({"window": "month", "anchor": 32}, "anchor", "day of the month"),
    ({"window": "month", "anchor": 0}, "anchor", "day of the month"),
    ({"clamp": True}, "clamp", "no effect for requests"),
    ({"queue_s": 5.0}, "queue_s", "no effect for requests"),
    ({"unpriced": "allow"}, "unpriced", "no effect for requests"),
    ({"granted": 5}, "granted_until", "is needed with"),
    ({"granted": -5, "granted_until": datetime.now(ZoneInfo("UTC"))}, "granted", "whole number"),
    (
        {"count_cached": True, "kind": "output_tokens"},
        "count_cached",
        "no effect for output_tokens",
    ),
    ({"weights": Weights(), "kind": "input_tokens"}, "weights", "no effect for input_tokens"),
    (
        {"weights": Weights(), "kind": "tokens", "count_cached": True},
        "count_cached",
        "no effect with weights",
    ),
    (
        {"weights": Weights(input=0, cache_write=0, output=0, reasoning=0), "kind": "tokens"},
        "weights",
        "no token would count",
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
        limit_of(kind="cost", amount=12.5, window="month"),
        limit_of(kind="cost", amount=3, window="day"),
        limit_of(kind="concurrent", window=None, amount=0, queue_s=1.0),
    ]
    assert list(limit_faults(sound)) == []
    assert sound[2].units == sound[4].units == 12_500_000_000_000


def test_two_limits_that_count_the_same_are_told() -> None:
    """They would be one counter, counted twice."""
    twice = [limit_of(window="1m"), limit_of(window="1m", amount=7, zone="Europe/Berlin")]
    assert [path for path, _ in limit_faults(twice)] == [("limits", 1, "kind")]
    models = [limit_of(models=("a", "b")), limit_of(models=("b", "a"))]
    assert len(list(limit_faults(models))) == 1
    assert not list(limit_faults([limit_of(models=("a",)), limit_of()]))


def rule(amount: int, kind: str = "requests", **fields: Any) -> Rule:
    """A limit by itself, in whole units: dollars for a cost."""
    given = str(amount) if kind == "cost" else amount
    window = None if kind == "concurrent" else "1m"
    return Rule(limit_of(**{"kind": kind, "amount": given, "window": window} | fields), "k")


def test_a_budget_that_rolls_is_said_to_have_room_when_it_has() -> None:
    """Not when nothing of it is used any more, which may be hours later."""
    budget = rule(10, "cost", window="5h")
    free_at = NOW + 18_000 * (1 + 1 / PARTS)
    refusal = Refused(0, 3 * 10**12, 0, 10**13, free_at, free_at + 7200)
    error, headers = refused(budget, refusal, NOW + 7300, shows_amounts=True)
    found_at = re.search(r"There is room for this request at (\S+)\.$", error.fault.message)
    assert found_at is not None
    assert datetime.fromisoformat(found_at[1]).timestamp() == pytest.approx(free_at, abs=1)
    assert error.fault.retry_after is None
    assert (b"x-dragoman-limit", b"key:cost:5h") in headers


def test_a_limit_with_a_grant_has_both() -> None:
    until = datetime.fromisoformat("2026-03-28T12:00:00Z")
    granted = rule(2, granted=3, granted_until=until)
    assert granted.amount(until.timestamp() - 1) == 5
    assert granted.amount(until.timestamp()) == 2


def test_limits_of_one_owner_have_ledgers_of_their_own() -> None:
    """Which belong to what is counted, and not to how much of it there is."""
    one = rule(5, window="day", zone="Europe/Berlin")
    assert one.ledger == rule(9, window="day", zone="Europe/Berlin", mode="soft").ledger
    others = [
        rule(5, window="day"),
        rule(5, window="month", zone="Europe/Berlin"),
        rule(5, "tokens", window="day", zone="Europe/Berlin"),
        Rule(one.limit, "other"),
        Rule(one.limit, "k", is_team=True),
    ]
    assert len({one.ledger, *(other.ledger for other in others)}) == 1 + len(others)


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
    one = rule(10**6, "tokens", weights=WEIGHTS)
    spent = spent_by(record)
    assert one.amount_of(spent) == comes_to
    assert one.most_of(Expected(given, output).counts()) >= comes_to
    # Sums of hours come to the sum.
    twice = [2 * count for count in spent]
    assert one.amount_of(twice) == 2 * comes_to
    # The usual weights are what a limit without any counts.
    plain = rule(10**6, "tokens")
    assert rule(10**6, "tokens", weights=Weights()).amount_of(spent) == plain.amount_of(spent)


def test_other_weights_are_counted_apart() -> None:
    limits = [rule(1, "tokens", weights=one).limit for one in (None, Weights(), WEIGHTS)]
    assert len({one.counted_as for one in limits}) == 3
    assert not list(limit_faults(limits))


# Limits, what a request wants (input, output, dollars without and with output), and what fits.
CLAMPS: list[tuple[list[Rule], tuple[int, int, float, float | None], int | None]] = [
    ([rule(1000, "tokens", clamp=True)], (100, 2000, 0, 0), 900),
    ([rule(1000, "tokens")], (100, 2000, 0, 0), None),
    ([rule(1000, "tokens", clamp=True, mode="soft")], (100, 2000, 0, 0), None),
    ([rule(1000, "tokens", clamp=True)], (100, 900, 0, 0), None),
    ([rule(300, "tokens", clamp=True)], (100, 900, 0, 0), None),
    ([rule(300, "output_tokens", clamp=True)], (100, 900, 0, 0), 300),
    ([rule(1000, "tokens", clamp=True, weights=WEIGHTS)], (10, 900, 0, 0), None),
    ([rule(4200, "tokens", clamp=True, weights=WEIGHTS)], (100, 900, 0, 0), 800),
    ([rule(4200, "tokens", clamp=True, weights=ONLY_INPUT)], (100, 900, 0, 0), None),
    ([rule(10, "cost", clamp=True)], (100, 1000, 5.0, 15.0), 500),
    ([rule(10, "cost", clamp=True)], (100, 1000, 8.0, 18.0), None),
    ([rule(10, "cost", clamp=True)], (100, 1000, 0.0, None), None),
    (
        [rule(10, "cost", clamp=True), rule(400, "output_tokens", clamp=True)],
        (100, 1000, 5.0, 15.0),
        400,
    ),
]


@pytest.mark.parametrize(("limits", "wants", "fits"), CLAMPS)
def test_the_output_that_fits(
    limits: list[Rule], wants: tuple[int, int, float, float | None], fits: int | None
) -> None:
    given, output, plain, whole = wants
    cost = None if whole is None else int(whole * 10**12)
    expected = Expected(given, output, int(plain * 10**12), cost)
    claims = Rules(limits).claims(expected, NOW)
    left = [one.amount(NOW) for one in limits]
    reserved, clamped = fitting_output(Admit("k", claims, output, output), left)
    assert (clamped or None) == fits
    assert reserved == (fits or output)
    if fits is not None:
        lowered = Rules(limits).claims(expected.with_output(fits), NOW)
        assert all(one.amount <= room for one, room in zip(lowered, left, strict=True)), "it fits"


def test_models_are_counted_together() -> None:
    some = rule(1, models=("gpt-*", "o4"))
    assert some.concerns(["gpt-5.5"])
    assert some.concerns(["fast", "o4"])
    assert not some.concerns(["claude", "fast"])
    assert rule(1).concerns(["claude"])


def test_tokens_from_a_cache_count_where_that_is_wanted() -> None:
    kinds = [kind_of(limit_of(kind="tokens", count_cached=flag)) for flag in (False, True)]
    assert [kind.name for kind in kinds] == ["TOKENS", "ALL_TOKENS"]


PICTURE = random.Random(1).randbytes(60_000)


DATA = base64.b64encode(PICTURE)
MEDIA = [
    ("openai_chat", {"type": "image_url", "image_url": {"url": "http://a/b.png"}}, 3000, False),
    ("openai_chat", {"type": "file", "file": {"file_id": "file-1"}}, 40_000, False),
    (
        "openai_chat",
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA.decode()}"}},
        3000,
        True,
    ),
    (
        "anthropic_messages",
        {
            "type": "tool_result",
            "tool_use_id": "t",
            "content": [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": DATA.decode()},
                }
            ],
        },
        3000,
        True,
    ),
    (
        "anthropic_messages",
        {"type": "document", "source": {"type": "url", "url": "http://a/b.pdf"}},
        40_000,
        False,
    ),
    ("openai_responses", {"type": "input_image", "image_url": "http://a/b.png"}, 3000, False),
]


@pytest.mark.parametrize(("protocol", "part", "tokens", "inline"), MEDIA)
@pytest.mark.parametrize("slashes", [b"/", b"\\/"])
def test_a_file_in_a_prompt_is_no_text(
    protocol: str, part: dict[str, Any], tokens: int, inline: bool, slashes: bytes
) -> None:
    """However a client writes it, and wherever its bytes are: PHP escapes slashes."""
    member = "input" if protocol == "openai_responses" else "messages"
    asked = {"model": "m", "max_tokens": 9, member: [{"role": "user", "content": [part]}]}
    if protocol == "openai_responses":
        del asked["max_tokens"]
    files = ClientRequest(protocol, json.dumps(asked).encode().replace(b"/", slashes)).files()
    assert files.tokens == tokens
    assert files.bytes == (len(DATA) if inline else 0)


LETTERS = b"abcdefgh" * 5000
ELSEWHERE = [
    (b'{"role":"user","content":"base64 %b"}', "text"),
    (b'{"role":"user","content":[{"type":"text","text":"data:image/png;base64,%b"}]}', "a URL"),
    (
        b'{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":'
        b'{"name":"f","arguments":"{\\"type\\":\\"base64\\",\\"data\\":\\"%b\\"}"}}]}',
        "arguments",
    ),
]


@pytest.mark.parametrize("message", [one for one, _ in ELSEWHERE], ids=[it for _, it in ELSEWHERE])
def test_what_only_looks_like_a_file_is_text(message: bytes) -> None:
    body = b'{"model":"m","messages":[%b]}' % (message % LETTERS)
    assert ClientRequest("openai_chat", body).files() == Files()


def test_estimates_are_learned_for_each_key_and_have_a_floor() -> None:
    estimates = Estimates()
    for _ in range(200):
        estimates.learn_input("dense", "u", "m", 10_000, 15_000)
        estimates.learn_input("thin", "u", "m", 10_000, 1)
    assert estimates.input("dense", "u", "m", 1000) > 1400
    assert estimates.input("thin", "u", "m", 1000) == int(1000 * LEAST_TOKENS_PER_BYTE)
    assert estimates.input("other", "u", "m", 1000) == int(1000 * TOKENS_PER_BYTE)


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
