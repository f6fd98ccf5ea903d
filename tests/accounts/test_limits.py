"""What upstreams say of their limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.accounts.decide.limits import WINDOW_SPENT, duration, limits_of
from dragoman.protocols.error_body import report_of

AT_LEISURE = settings(deadline=None)
"""Machines that are busy with other things are slow."""
NOW = 1_795_219_200.0
"""2026-11-21T00:00:00Z."""
UNIFIED = "anthropic-ratelimit-unified-"


def rest(
    headers: dict[str, str] | None = None,
    *members: dict[str, Any],
    text: str = "",
    now: float | None = NOW,
    status: int = 429,
) -> float | None:
    resets = [reset for member in members for reset in report_of(member).resets]
    return limits_of(status, headers or {}, resets, text, now).rest


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360.0),
        ("1s", 1.0),
        ("20ms", 0.02),
        ("1h2m3.5s", 3723.5),
        ("1d", 86400.0),
        ("26 seconds", 26.0),
        ("1 minute 30 seconds", 90.0),
        ("", None),
        ("12", None),
        ("soon", None),
        ("5 parsecs", None),
        ("1m2", None),
        ("1.5s.", None),
        ("s", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert duration(text) == seconds


def unified(overall: str = "rejected", **more: str) -> dict[str, str]:
    named = {UNIFIED + name.replace("__", "-").lstrip("_"): value for name, value in more.items()}
    return {UNIFIED + "status": overall, **named}


def at(seconds: float) -> str:
    return str(int(NOW + seconds))


def test_a_window_at_its_end_comes_before_retry_after() -> None:
    headers = unified(_5h__status="rejected", _5h__reset=at(7200)) | {"retry-after": "3"}
    found = limits_of(429, headers, (), "", NOW)
    assert found.rest == 7200.0
    assert found.words == {WINDOW_SPENT}


def test_a_window_that_is_not_at_its_end_says_nothing() -> None:
    """A burst is no spent quota, whenever the windows reset."""
    headers = unified("allowed", _5h__status="allowed", _5h__reset=at(7200), reset=at(7200))
    assert limits_of(429, headers, (), "", NOW).words == frozenset()
    assert rest(headers) is None
    assert rest(headers | {"retry-after": "3"}) == 3.0
    other_model = unified("allowed", _7d_opus__status="rejected", _7d_opus__reset=at(7200))
    assert rest(other_model) is None
    assert rest({UNIFIED + "reset": at(7200)}) is None


def test_of_several_windows_the_last_counts() -> None:
    headers = unified(
        _5h__status="rejected",
        _5h__reset=at(100),
        _7d__status="rejected",
        _7d__reset=at(9000),
        _7d_opus__status="rejected",
        _7d_opus__reset=at(50_000),
        overage__status="rejected",
        overage__reset=at(90_000),
    )
    assert rest(headers) == 9000.0


def test_the_window_of_one_model_is_not_that_of_the_account() -> None:
    headers = unified(_7d_opus__status="rejected", _7d_opus__reset=at(7200))
    assert limits_of(429, headers, (), "", NOW).words == frozenset()
    assert rest(headers) == 7200.0
    claimed = unified(reset=at(7200), representative__claim="seven_day_opus")
    assert limits_of(429, claimed, (), "", NOW).words == frozenset()


def test_a_window_whose_reset_is_over_or_missing_is_at_its_end_still() -> None:
    for headers in (
        unified(_5h__status="rejected"),
        unified(_5h__status="rejected", _5h__reset=at(-5)),
        unified(),
    ):
        found = limits_of(429, headers, (), "", NOW)
        assert found.rest is None
        assert found.words == {WINDOW_SPENT}
        assert rest({**headers, "retry-after": "9"}) == 9.0


def test_windows_of_chatgpt() -> None:
    used = {
        "x-codex-primary-used-percent": "100",
        "x-codex-primary-reset-after-seconds": "60",
        "x-codex-secondary-used-percent": "100.0",
        "x-codex-secondary-reset-at": at(600),
    }
    assert limits_of(429, used, (), "", NOW).words == {WINDOW_SPENT}
    assert rest(used) == 600.0
    assert rest({**used, "x-codex-secondary-used-percent": "99"}) == 60.0
    assert limits_of(500, used, (), "", NOW).words == frozenset()


@pytest.mark.parametrize(
    ("remaining", "seconds"),
    [("0", 60.0), ("0.0", 60.0), ("1", None), ("-1", None), ("", None), ("none", None)],
)
def test_only_limits_of_which_nothing_remains(remaining: str, seconds: float | None) -> None:
    headers = {"x-ratelimit-remaining-tokens": remaining, "x-ratelimit-reset-tokens": "1m0s"}
    assert rest(headers) == seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30", 30.0),
        ("30s", 30.0),
        (at(30), 30.0),
        (at(30) + "000", 30.0),
        ("2026-11-21T00:00:30Z", 30.0),
        ("2026-11-21T01:00:30+01:00", 30.0),
        ("2026-11-21T00:00:30", 30.0),
        ("0", None),
        (at(-30), None),
        ("2026-11-20T00:00:30Z", None),
        ("9999-12-31T23:59:59Z", None),
        ("99999999999999999999999999", None),
        ("nan", None),
        ("-5", None),
        ("tomorrow", None),
    ],
)
def test_every_form_of_a_reset(value: str, seconds: float | None) -> None:
    assert rest({"x-ratelimit-remaining": "0", "x-ratelimit-reset": value}) == seconds


def test_the_upstreams_own_clock_is_believed() -> None:
    """Ours may be an hour ahead."""
    headers = {
        "date": "Fri, 20 Nov 2026 23:00:00 GMT",
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2026-11-20T23:00:20Z",
    }
    assert rest(headers) == 20.0


def test_without_a_clock_only_lengths_are_understood() -> None:
    assert rest(text="you will regain access on 2026-12-01", now=None) is None
    assert rest(None, {"resets_at": NOW + 5, "resets_in_seconds": 7}, now=None) == 7.0
    assert rest({"x-ratelimit-remaining": "0", "x-ratelimit-reset": at(5)}, now=None) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("please try again in 1.5s. visit ...", 1.5),
        ("please try again in 644ms.", 0.644),
        ("please try again in 7m12.48s.", 432.48),
        ("please retry after 26 seconds.", 26.0),
        ("please retry in 34.07s", 34.07),
        ("please try again in 2 days, or contact us", 2 * 86400.0),
        ("you will regain access on 2026-11-22 at 06:00 utc.", 30 * 3600.0),
        ("you will regain access on 2026-11-22.", 24 * 3600.0),
        ("you will regain access on 2026-99-99.", None),
        ("try again in a while", None),
        ("try again in 5 parsecs", None),
        ("try again later", None),
        ("try again in 99999999999d", None),
    ],
)
def test_texts(text: str, seconds: float | None) -> None:
    assert rest(text=text) == pytest.approx(seconds)


@pytest.mark.parametrize("value", [True, "5", None, -1, 1e300, float("inf"), 10**400, [], {}])
def test_members_of_another_type_say_nothing(value: Any) -> None:
    assert rest(None, {"resets_in_seconds": value, "resets_at": value}) is None


def test_headers_come_before_the_body() -> None:
    assert rest({"retry-after": "3"}, {"resets_in_seconds": 9}, text="try again in 7s") == 3.0
    assert rest(None, {"retryDelay": "34s"}, text="try again in 7s") == 34.0
    assert rest(None, {"retryDelay": "999999999999s"}, text="try again in 7s") == 7.0


NAMES = st.sampled_from(
    [
        *("retry-after", "retry-after-ms", "date", UNIFIED + "status", UNIFIED + "5h-status"),
        *(UNIFIED + "5h-reset", "x-codex-primary-used-percent", "x-codex-primary-reset-at"),
        *("x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-reset-tokens"),
        *("x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-reset"),
    ]
)
VALUES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["0", "rejected", "100", at(50), "1e400", "6m0s", "2026-11-21T00:00:30Z"]),
    st.integers().map(str),
)


@AT_LEISURE
@given(
    st.dictionaries(NAMES, VALUES),
    st.text(max_size=60).map("try again in ".__add__),
    st.dictionaries(st.sampled_from(["resets_at", "resets_in_seconds"]), st.integers()),
)
def test_whatever_is_said_is_a_sane_length_or_nothing(
    headers: dict[str, str], text: str, member: dict[str, Any]
) -> None:
    found = rest(headers, member, text=text)
    assert found is None or 0 <= found < float("inf")
