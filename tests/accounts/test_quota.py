"""What upstreams tell of quotas: every form of header, what is merged, and what ends."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.decide.alerts import of_change, of_pool, of_quota
from dragoman.accounts.decide.quota import (
    MOST_WINDOWS,
    Quotas,
    QuotaWindow,
    Windows,
    merged,
    next_reset,
    used_of,
    windows_of,
)
from dragoman.accounts.decide.states import AccountState, Rest

NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86400.0
UNIFIED = "anthropic-ratelimit-unified-"


def at(seconds: float) -> str:
    return f"{NOW + seconds:.0f}"


def told(headers: dict[str, str], model: str = "m") -> dict[tuple[str, str], QuotaWindow]:
    found = windows_of(headers, model, NOW)
    assert len({(window.name, window.model) for window in found}) == len(found)
    return {(window.name, window.model): window for window in found}


def test_windows_of_an_anthropic_subscription() -> None:
    headers = {
        f"{UNIFIED}status": "allowed_warning",
        f"{UNIFIED}representative-claim": "five_hour",
        f"{UNIFIED}overage-status": "rejected",
        f"{UNIFIED}5h-status": "allowed",
        f"{UNIFIED}5h-utilization": "0.42",
        f"{UNIFIED}5h-reset": at(HOUR),
        f"{UNIFIED}7d-status": "allowed_warning",
        f"{UNIFIED}7d-utilization": "0.875",
        f"{UNIFIED}7d-reset": at(3 * DAY),
        f"{UNIFIED}7d_opus-status": "rejected",
        f"{UNIFIED}7d_opus-reset": at(2 * DAY),
    }
    assert told(headers) == {
        ("5h", ""): QuotaWindow("5h", 0.42, NOW, NOW + HOUR, 5 * HOUR),
        ("7d", ""): QuotaWindow("7d", 0.875, NOW, NOW + 3 * DAY, 7 * DAY),
        ("7d", "opus"): QuotaWindow("7d", 1.0, NOW, NOW + 2 * DAY, 7 * DAY, "opus"),
    }


def test_a_status_alone_tells_nothing_but_the_end() -> None:
    assert not told({f"{UNIFIED}5h-status": "allowed", f"{UNIFIED}5h-reset": at(HOUR)})


def test_windows_of_a_chatgpt_subscription() -> None:
    headers = {
        "x-codex-plan-type": "pro",
        "x-codex-primary-used-percent": "12.5",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-after-seconds": "600",
        "x-codex-secondary-used-percent": "100",
        "x-codex-secondary-window-minutes": "10080",
        "x-codex-secondary-reset-at": at(DAY),
        "x-codex-spark-primary-used-percent": "3",
    }
    assert told(headers) == {
        ("5h", ""): QuotaWindow("5h", 0.125, NOW, NOW + 600, 5 * HOUR),
        ("7d", ""): QuotaWindow("7d", 1.0, NOW, NOW + DAY, 7 * DAY),
        ("primary", "spark"): QuotaWindow("primary", 0.03, NOW, None, None, "spark"),
    }


def test_limits_of_api_keys() -> None:
    openai = {
        "x-ratelimit-limit-requests": "1000",
        "x-ratelimit-remaining-requests": "750",
        "x-ratelimit-reset-requests": "1m30s",
        "x-ratelimit-limit-tokens": "40000",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "500ms",
    }
    assert told(openai, "gpt") == {
        ("requests", "gpt"): QuotaWindow("requests", 0.25, NOW, NOW + 90, None, "gpt"),
        ("tokens", "gpt"): QuotaWindow("tokens", 1.0, NOW, NOW + 0.5, None, "gpt"),
    }
    anthropic = {
        "anthropic-ratelimit-input-tokens-limit": "100",
        "anthropic-ratelimit-input-tokens-remaining": "99",
        "anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:01:00Z",
    }
    (window,) = told(anthropic).values()
    assert (window.name, window.used, window.resets_at) == ("input-tokens", 0.01, NOW + 60)
    plain = {"ratelimit-limit": "10", "ratelimit-remaining": "5", "ratelimit-reset": "30"}
    assert told(plain) == {
        ("requests", "m"): QuotaWindow("requests", 0.5, NOW, NOW + 30, None, "m")
    }


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"x-ratelimit-limit-tokens": "-1", "x-ratelimit-remaining-tokens": "-1"},
        {"x-ratelimit-limit-tokens": "0", "x-ratelimit-remaining-tokens": "0"},
        {"x-ratelimit-limit-tokens": "5", "x-ratelimit-remaining-tokens": "6"},
        {"x-ratelimit-remaining-tokens": "6"},
        {"x-codex-primary-used-percent": "nan"},
        {"x-codex-primary-used-percent": "-3"},
        {"x-codex-primary-used-percent": "1e308"},
        {"x-codex-primary-used-percent": "126"},
        {"x-codex-primary-used-percent": "1_0"},
        {"x-codex-primary-used-percent": "\u0661\u0662"},
        {"x-codex-primary-used-percent": "0x10"},
        {"x-codex-primary-used-percent": "Infinity"},
        {f"{UNIFIED}5h-utilization": "99"},
        {f"{UNIFIED}5h-utilization": "1e308"},
        {f"{UNIFIED}5h-utilization": "-0.1"},
        {f"{UNIFIED}5h-utilization": "0_1"},
        {f"{UNIFIED}9999d-utilization": "0.5"},
        {f"{UNIFIED}0h-utilization": "0.5"},
        {"x-ratelimit-limit-tokens": "1_000", "x-ratelimit-remaining-tokens": "1"},
        {"x-ratelimit-limit-tokens": "1e308", "x-ratelimit-remaining-tokens": "1"},
        {"x-ratelimit-limit-tokens": "1000", "x-ratelimit-remaining-tokens": "NaN"},
        {f"{UNIFIED}5h-utilization": "much"},
        {f"{UNIFIED}overage-utilization": "0.5"},
    ],
)
def test_what_makes_no_sense_is_unknown(headers: dict[str, str]) -> None:
    assert not told(headers)


def test_what_makes_no_sense_of_a_window_leaves_the_rest() -> None:
    used = {"x-codex-primary-used-percent": "12"}
    for minutes in ("1e15", "1e308", "-5", "0", "nan"):
        (window,) = told({**used, "x-codex-primary-window-minutes": minutes}).values()
        assert (window.name, window.seconds) == ("primary", None)
    (window,) = told({**used, "x-codex-primary-reset-after-seconds": "1e14"}).values()
    assert window.resets_at is None
    spent = {f"{UNIFIED}5h-status": "rejected", f"{UNIFIED}5h-utilization": "99"}
    (window,) = told(spent).values()
    assert window.used == 1.0
    over = {f"{UNIFIED}5h-utilization": " 1.02 ", "x-codex-primary-used-percent": "1e2"}
    assert [window.used for window in told(over).values()] == [1.02, 1.0]


_NAMES = [
    f"{UNIFIED}5h-utilization",
    f"{UNIFIED}5h-status",
    f"{UNIFIED}5h-reset",
    f"{UNIFIED}7d_x-utilization",
    "x-codex-primary-used-percent",
    "x-codex-primary-window-minutes",
    "x-codex-primary-reset-after-seconds",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-tokens-limit",
    "anthropic-ratelimit-tokens-remaining",
]
_VALUES = st.one_of(
    st.text(max_size=12),
    st.floats().map(str),
    st.integers().map(str),
    st.sampled_from(["rejected", "1m", at(5), "2027-01-15T08:01:00Z", "-1", "1e999"]),
)


@given(st.dictionaries(st.sampled_from(_NAMES), _VALUES))
def test_nothing_that_an_upstream_says_breaks_it(headers: dict[str, str]) -> None:
    for window in windows_of(headers, "m", NOW):
        assert 0 <= window.used <= 1.25
        assert window.seconds is None or 0 < window.seconds <= 400 * DAY
        assert window.resets_at is None or NOW <= window.resets_at < NOW + 500 * DAY


def window(name: str, used: float, ends: float | None = HOUR, since: float = 0.0) -> QuotaWindow:
    return QuotaWindow(name, used, NOW + since, None if ends is None else NOW + ends, 5 * HOUR)


def test_the_last_word_counts_in_any_order() -> None:
    new = [window(str(n % 5), n / 100, since=n) for n in range(50)]
    random.Random(1).shuffle(new)
    one: Windows = ()
    for each in new:
        one = merged(one, [each], NOW)
    assert one == merged((), new, NOW)
    assert {each.name: each.used for each in one} == {str(n % 5): n / 100 for n in range(45, 50)}


def test_clients_cannot_pile_windows_up() -> None:
    quotas = Quotas()
    for number in range(500):
        headers = {"ratelimit-limit": "2", "ratelimit-remaining": "1"}
        quotas.received["a"] = f"model-{number}", headers
        quotas.settle(NOW + number)
    assert len(quotas.windows["a"]) == MOST_WINDOWS


def test_a_window_that_ended_is_unknown_and_used_by_nobody() -> None:
    windows = (window("5h", 0.9, 60), window("7d", 0.5, DAY))
    assert used_of(windows, NOW) == 0.9
    assert used_of(windows, NOW + 60) == 0.5
    assert windows[0].known(NOW + 60) is None
    assert next_reset(windows, NOW) == NOW + 60
    quotas = Quotas()
    assert quotas.learn("a", windows, NOW) == 0.9
    assert quotas.settle(NOW + 59) == {}
    assert quotas.settle(NOW + 60) == {"a": 0.5}
    assert quotas.settle(NOW + 61) == {}


def test_a_window_whose_end_nobody_told_is_not_held_against_an_account_for_long() -> None:
    """It is asked no more while others have more left, so nothing else would be told."""
    assert window("5h", 1.0, None).known(NOW + 5 * HOUR - 1) == 1.0
    assert window("5h", 1.0, None).known(NOW + 5 * HOUR) is None
    quotas = Quotas()
    headers = {"x-ratelimit-limit-tokens": "5", "x-ratelimit-remaining-tokens": "0"}
    quotas.received["a"] = "m", headers
    assert quotas.settle(NOW) == {"a": 1.0}
    assert quotas.settle(NOW + HOUR) == {"a": 0.0}


def test_others_hear_of_what_matters_only() -> None:
    quotas = Quotas()

    def heard(percent: str, since: float) -> bool:
        quotas.received["a"] = "m", {"x-codex-primary-used-percent": percent}
        quotas.settle(NOW + since)
        return bool(quotas.take())

    assert heard("10", 0)
    assert not heard("10.2", 1)
    assert not heard("10.4", 2)
    assert heard("11.5", 3)
    assert heard("11.5", 60)
    assert not quotas.take()


def test_alerts_of_thresholds() -> None:
    thresholds = (0.8, 0.95, 1.0)

    def found(*windows: QuotaWindow) -> list[tuple[str, float | None, int]]:
        alerts = of_quota("a", "up", windows, thresholds, NOW)
        return [(alert.window, alert.threshold, len(alert.also)) for alert in alerts]

    assert found(window("5h", 0.79)) == []
    assert found(window("5h", 0.8), window("7d", 1.2)) == [("5h", 0.8, 0), ("7d", 1.0, 2)]
    minute = QuotaWindow("tokens", 1.0, NOW, NOW + 60, None, "m")
    assert found(minute) == []
    assert found(QuotaWindow("tokens", 1.0, NOW, NOW + DAY, None, "m")) == [("tokens", 1.0, 2)]


def test_alerts_of_accounts_that_fall_out() -> None:
    fine = AccountState("a")
    refused = AccountState("a", disabled="its key was refused")
    by_hand = AccountState("a", disabled="holiday", by_hand=True)
    spent = AccountState("a", exhausted=Rest(NOW + HOUR, "out of quota"))
    longer = AccountState("a", exhausted=Rest(NOW + DAY, "out of quota"))
    over = AccountState("a", exhausted=Rest(NOW - 1, "out of quota"))
    cooled = AccountState("a", cooling={"": Rest(NOW + 5, "rate limited")})
    out = [(fine, refused, "disabled"), (spent, refused, "disabled"), (over, spent, "exhausted")]
    for before, after, state in out:
        alert = of_change(before, after, "up", NOW)
        assert alert is not None
        assert alert.state == state
    for before, after in ((fine, by_hand), (fine, cooled), (spent, longer), (refused, fine)):
        assert of_change(before, after, "up", NOW) is None


@pytest.mark.parametrize(
    ("usable", "accounts", "kind"),
    [
        (0, 0, None),
        (1, 1, None),
        (0, 1, "pool.empty"),
        (2, 3, None),
        (1, 3, "pool.low"),
        (0, 3, "pool.empty"),
        (11, 100, None),
        (10, 100, "pool.low"),
    ],
)
def test_alerts_of_pools(usable: int, accounts: int, kind: str | None) -> None:
    alert = of_pool("up", usable, accounts, 0.1, NOW)
    assert (None if alert is None else alert.type) == kind
