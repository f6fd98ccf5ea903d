"""Prices of one's own in the configuration."""

from __future__ import annotations

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


def entry(**fields: str | int) -> str:
    given = {"input": "1", "output": "2"} | fields
    return "[[prices]]\n" + "".join(
        f"{name} = {value if isinstance(value, int) else repr(value)}\n"
        for name, value in given.items()
    )


def cost(text: str, upstream: str, model: str, usage: Usage) -> int | None:
    config = parse_config(BASE + text, environ={}).config
    return load_prices(config).charge(upstream, model, usage, 1.8e9).cost


def test_they_win_over_the_table_where_they_apply() -> None:
    text = entry(model="gpt-5.5", upstream="a") + entry(model="q-*", cached="0.25")
    one = Usage(input=1)
    assert cost(text, "a", "gpt-5.5", one) == 1_000_000
    assert cost("", "a", "gpt-5.5", one) == 5_000_000
    assert cost(text, "b", "gpt-5.5", one) is None, "nobody's list applies to an unknown service"
    assert cost(text, "b", "q-1", Usage(input=1, cached=1)) == 250_000
    assert cost(entry(model="*", input="0", output="0"), "b", "any", one) == 0


def test_tiers_and_long_prompts() -> None:
    text = (
        entry(model="m")
        + entry(model="m", tier="priority", input="3")
        + entry(model="m", above=100, input="5")
    )
    assert cost(text, "b", "m", Usage(input=100)) == 100_000_000
    assert cost(text, "b", "m", Usage(input=101)) == 505_000_000
    assert cost(text, "b", "m", Usage(input=101, tier="priority")) == 303_000_000


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


def test_the_version_names_own_prices_too() -> None:
    versions = {
        load_prices(parse_config(BASE + text, environ={}).config).version
        for text in ("", entry(model="m"), entry(model="m", input="3"))
    }
    assert len(versions) == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (entry(model="m", input="1.2345678"), "US dollars as a text"),
        (entry(model="m", input="-1"), "US dollars as a text"),
        (entry(model="m", input="free"), "US dollars as a text"),
        (entry(model="m", input=1), "expected a text"),
        (entry(model="m", upstream="c"), "no upstream named c"),
        (entry(model="m") * 2, r"prices\[0\] is the same price"),
        (entry(model="m", above=5), "the usual price of m"),
        (entry(model="m", tier="slow"), "expected one of batch"),
        (entry(model="m", above=-5), ">= 0"),
    ],
)
def test_faults_are_told(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parse_config(BASE + text, environ={})


def test_a_price_for_one_token_is_warned_of() -> None:
    (warning,) = parse_config(BASE + entry(model="m", output="2000"), environ={}).warnings
    assert "more than 1000 dollars" in warning.message
