"""Prices of one's own in the configuration."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dragoman.canonical.usage import Usage
from dragoman.config import ConfigError, parse_config
from dragoman.prices.loading import load_prices

BASE = """
[[upstreams]]
name = "a"
protocol = "openai_chat"
base_url = "https://api.openai.com/v1"
[[upstreams]]
name = "b"
protocol = "openai_chat"
base_url = "https://other.example"
[[accounts]]
name = "a"
upstream = "a"
[[accounts]]
name = "b"
upstream = "b"
"""


def entry(**fields: str | float) -> str:
    given = {"input": "1", "output": "2"} | fields
    return "[[prices]]\n" + "".join(
        f"{name} = {str(value).lower() if isinstance(value, int) else repr(value)}\n"
        for name, value in given.items()
    )


def cost(text: str, upstream: str, model: str, usage: Usage, at: float = 1.8e9) -> int | None:
    config = parse_config(BASE + text, environ={}).config
    return load_prices(config).charge(upstream, model, usage, at).cost


def test_they_win_over_the_table_where_they_apply() -> None:
    text = entry(model="gpt-5.5", upstream="a") + entry(model="q-*", cached="0.25")
    one = Usage(input=1)
    assert cost(text, "a", "gpt-5.5", one) == 1_000_000
    assert cost("", "a", "gpt-5.5", one) == 5_000_000
    assert cost(text, "b", "gpt-5.5", one) is None, "nobody's list applies to an unknown service"
    assert cost(text, "b", "q-1", Usage(input=1, cached=1)) == 250_000
    assert cost(entry(model="*", input="0", output="0"), "b", "any", one) == 0


def test_a_price_of_all_others_is_that_of_what_is_unknown() -> None:
    text = entry(model="q-*", input="3") + entry(model="*", input="7") + entry(model="r")
    one = Usage(input=1)
    for upstream, model, rate in (
        ("a", "gpt-5.5", 5),
        ("a", "gpt-0", 7),
        ("b", "gpt-5.5", 7),
        ("b", "q-1", 3),
        ("b", "r", 7),
    ):
        assert cost(text, upstream, model, one) == rate * 10**6, (upstream, model)
    listed = load_prices(parse_config(BASE + text, environ={}).config).lists["a"]
    assert [listed.listed_as(name) for name in ("gpt-5.5", "gpt-0", "q-1")] == [
        "gpt-5.5",
        "*",
        "q-*",
    ]
    names = [(name, own) for name, _, own in listed.listed()]
    assert names[:2] == [("q-*", True), ("*", True)]
    assert ("gpt-5.5", False) in names


def test_tiers_and_long_prompts() -> None:
    text = (
        entry(model="m")
        + entry(model="m", tier="priority", input="3")
        + entry(model="m", above=100, input="5")
    )
    assert cost(text, "b", "m", Usage(input=100)) == 100_000_000
    assert cost(text, "b", "m", Usage(input=101)) == 505_000_000
    assert cost(text, "b", "m", Usage(input=101, tier="priority")) == 303_000_000


def test_days_and_hours() -> None:
    # As they come in the file is no matter: what began last counts, and hours over all day.
    text = (
        entry(model="m", since="2027-01-01", input="5")
        + entry(model="m", hours="23:30-01:00", input="2")
        + entry(model="m", hours="09:00-17:00", tier="flex", input="9")
        + entry(model="m", tier="flex", input="8")
        + entry(model="m")
        + entry(model="m", since="2027-01-01", hours="12:00-13:00", input="6")
        + entry(model="m", since="2027-01-01", above=100, input="7")
    )
    for day, clock, tier, size, rate in (
        ("2026-12-31", "23:29", None, 1, 1),
        ("2026-12-31", "23:30", None, 1, 2),
        ("2026-12-31", "00:59", None, 101, 2),
        ("2026-12-31", "01:00", "fast", 101, 1),
        ("2026-12-31", "09:00", "flex", 1, 9),
        ("2026-12-31", "17:00", "flex", 1, 8),
        ("2027-01-01", "00:00", None, 100, 5),
        ("2027-01-01", "00:00", None, 101, 7),
        ("2027-01-01", "12:59", None, 1, 6),
        ("2027-01-01", "13:00", None, 1, 5),
    ):
        at = datetime.fromisoformat(f"{day}T{clock}:00Z").timestamp()
        usage = Usage(input=size, tier=tier)
        assert cost(text, "b", "m", usage, at) == size * rate * 10**6, (day, clock, tier, size)


def test_a_price_that_is_kept_in_mind_is_that_of_the_day() -> None:
    config = parse_config(BASE + entry(model="m") + entry(model="m", since="2027-01-01", input="5"))
    prices = load_prices(config.config)
    begin = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
    costs = [prices.charge("b", "m", Usage(input=1), begin + at).cost for at in (-1, 0, 1)]
    assert costs == [10**6, 5 * 10**6, 5 * 10**6]


def test_a_list_is_chosen_by_the_address_or_by_name() -> None:
    named = BASE.replace(
        'base_url = "https://other.example"', 'base_url = "https://o"\nprices="openai"'
    )
    none = BASE.replace(
        'base_url = "https://api.openai.com/v1"',
        'base_url = "https://api.openai.com"\nprices="none"',
    )
    for text, upstream, expected in (
        (named, "b", 5_000_000),
        (none, "a", None),
        (BASE, "a", 5_000_000),
    ):
        found = load_prices(parse_config(text, environ={}).config)
        assert found.charge(upstream, "gpt-5.5", Usage(input=1), 1.8e9).cost == expected


def test_dollars_may_be_numbers() -> None:
    for text in (entry(model="m", input=0.25, output=3), entry(model="m", input="0.25")):
        assert cost(text, "b", "m", Usage(input=4)) == 10**6


def test_the_version_names_own_prices_too() -> None:
    versions = {
        load_prices(parse_config(BASE + text, environ={}).config).version
        for text in ("", entry(model="m"), entry(model="m", input="3"))
    }
    assert len(versions) == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (entry(model="m", input="1.2345678"), "US dollars such as"),
        (entry(model="m", input="-1"), "US dollars such as"),
        (entry(model="m", input="free"), "US dollars such as"),
        (entry(model="m", input=True), "expected a text"),
        (entry(model="m", input=0.0000001), "six decimals"),
        (entry(model="m", upstream="c"), "no upstream named c"),
        (entry(model="m") * 2, r"prices\[0\] is the same price"),
        (entry(model="m", above=5), "the usual price of m"),
        (entry(model="m", tier="slow"), "expected one of batch"),
        (entry(model="m", cached="free"), "US dollars such as"),
        (entry(model="m", since="2027-01-01"), "the usual price of m"),
        (entry(model="m") + entry(model="m", tier="flex", above=5), "without above is missing"),
        (entry(model="m") + entry(model="m", since="soon"), "expected a day such as 2027-01-31"),
        (entry(model="m") + entry(model="m", hours="9-17"), "hours of the day such as"),
        (entry(model="m") + entry(model="m", hours="09:00-09:00"), "end when they begin"),
        (entry(model="m", above=-5), ">= 0"),
    ],
)
def test_faults_are_told(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parse_config(BASE + text, environ={})


def test_a_price_for_one_token_is_warned_of() -> None:
    (warning,) = parse_config(BASE + entry(model="m", output="2000"), environ={}).warnings
    assert "more than 1000 dollars" in warning.message
