"""The table that is shipped says what the vendors' own pages say.

Each row is read off a page, not off the sources of the table; the page stands above it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from dragoman.canonical.usage import Usage
from dragoman.prices.loading import load_table
from dragoman.prices.lookup import PriceList, Prices
from dragoman.prices.rates import PICO
from dragoman.prices.table import Table

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()
MILLION = 1_000_000

# https://platform.claude.com/docs/en/about-claude/pricing, "Model pricing": base input, 5-minute
# cache writes, 1-hour cache writes, cache hits, output. The 5.5 models: the pages of each model
# below https://platform.claude.com/docs/about-claude/models. Fable 5.2: input and output by
# https://platform.claude.com/docs/en/models/overview, the cache by a tool that reads the page.
CLAUDE = """
claude-fable-5-2   8     10     16    0.2   40
claude-fable-5-1   10    12.5   20    0.25  50
claude-fable-5     10    12.5   20    1     50
claude-mythos-5-1  10    12.5   20    0.25  50
claude-mythos-5    10    12.5   20    1     50
claude-opus-5-5    4     5      8     0.2   20
claude-opus-5      5     6.25   10    0.5   25
claude-opus-4-8    5     6.25   10    0.5   25
claude-opus-4-7    5     6.25   10    0.5   25
claude-opus-4-6    5     6.25   10    0.5   25
claude-opus-4-5    5     6.25   10    0.5   25
claude-opus-4-1    15    18.75  30    1.5   75
claude-opus-4      15    18.75  30    1.5   75
claude-sonnet-5-5  2     2.5    4     0.1   10
claude-sonnet-5    2     2.5    4     0.2   10
claude-sonnet-4-6  3     3.75   6     0.3   15
claude-sonnet-4-5  3     3.75   6     0.3   15
claude-sonnet-4    3     3.75   6     0.3   15
claude-haiku-5-5   0.1   0.125  0.2   0.01  0.5
claude-haiku-4-5   1     1.25   2     0.1   5
claude-3-5-haiku   0.8   1      1.6   0.08  4
"""

# https://developers.openai.com/api/docs/pricing and the page of each model below
# https://developers.openai.com/api/docs/models: input, cached input, output; the usual tier, short
# prompts.
GPT = """
gpt-6-astra        10    1      50
gpt-6-sol          2     0.2    10
gpt-6-luna         0.1   0.01   0.5
gpt-6.2-astra      8     0.4    40
gpt-6.2-sol        2     0.1    10
gpt-6.1-sol        2     0.1    10
gpt-6.1-terra      1     0.05   5
gpt-5.6-sol        4     0.4    20
gpt-5.6-terra      2     0.2    12
gpt-5.6-luna       0.2   0.02   1.2
gpt-5.5-pro        30    30     180
gpt-5.5            5     0.5    30
gpt-5.4-pro        30    30     180
gpt-5.4            2.5   0.25   15
gpt-5.4-mini       0.75  0.075  4.5
gpt-5.4-nano       0.2   0.02   1.25
gpt-5.2            1.75  0.175  14
gpt-5.1            1.25  0.125  10
gpt-5              1.25  0.125  10
gpt-5-mini         0.25  0.025  2
gpt-5-nano         0.05  0.005  0.4
gpt-4.1            2     0.5    8
gpt-4.1-mini       0.4   0.1    1.6
gpt-4.1-nano       0.1   0.025  0.4
gpt-4o             2.5   1.25   10
gpt-4o-mini        0.15  0.075  0.6
o3                 2     0.5    8
o4-mini            1.1   0.275  4.4
"""


def rows(text: str) -> list[tuple[str, ...]]:
    return [tuple(line.split()) for line in text.strip().splitlines()]


@pytest.fixture(scope="module")
def table() -> Table:
    return load_table()


@pytest.fixture
def prices(table: Table) -> Prices:
    lists = {
        provider: PriceList((), [[one for one in table.models if one.provider == provider]])
        for provider in ("openai", "anthropic")
    }
    return Prices(lists, table.version)


def cost(prices: Prices, provider: str, model: str, at: float = NOW, **counts: object) -> Decimal:
    """Dollars for an answer, which must have a price."""
    usage = Usage(**counts)  # type: ignore[arg-type]
    found = prices.charge(provider, model, usage, at).cost
    assert found is not None
    return Decimal(found) / PICO


@pytest.mark.parametrize("row", rows(CLAUDE), ids=lambda row: row[0])
def test_claude_models_cost_what_their_page_says(prices: Prices, row: tuple[str, ...]) -> None:
    model, read, written, written_1h, cached, made = row
    # A prompt of a tenth of a million, so that no price of long prompts applies.
    part = MILLION // 10
    for rate, counts in (
        (read, {"input": part}),
        (written, {"input": part, "cache_write": part}),
        (written_1h, {"input": part, "cache_write": part, "cache_write_1h": part}),
        (cached, {"input": part, "cached": part}),
        (made, {"output": part}),
        (made, {"output": part, "reasoning": part}),
    ):
        assert cost(prices, "anthropic", model, **counts) == Decimal(rate) / 10, counts


@pytest.mark.parametrize("row", rows(GPT), ids=lambda row: row[0])
def test_gpt_models_cost_what_their_page_says(prices: Prices, row: tuple[str, ...]) -> None:
    model, read, cached, made = row
    part = MILLION // 10
    assert cost(prices, "openai", model, input=part) == Decimal(read) / 10
    assert cost(prices, "openai", model, input=part, cached=part) == Decimal(cached) / 10
    assert cost(prices, "openai", model, output=part, reasoning=part) == Decimal(made) / 10


GPT_WRITES = (
    ("gpt-6-astra", "12.5"),
    ("gpt-6-sol", "2.5"),
    ("gpt-6.2-astra", "10"),
    ("gpt-6.2-sol", "2.5"),
    ("gpt-6-luna", "0.125"),
)


def test_cache_writes_of_gpt_5_6_and_6_cost_a_quarter_more_than_input(prices: Prices) -> None:
    # https://developers.openai.com/api/docs/guides/prompt-caching
    for model, rate in GPT_WRITES:
        counts = {"input": 1000, "cache_write": 1000}
        assert cost(prices, "openai", model, **counts) == Decimal(rate) / 1000


def test_long_prompts_cost_more_for_all_of_their_tokens(prices: Prices) -> None:
    # https://developers.openai.com/api/docs/models/gpt-6.1-sol and .../gpt-6.2-sol: above 272,000
    # tokens 4, 0.20, 15.
    for model in ("gpt-6.1-sol", "gpt-6.2-sol"):
        short = cost(prices, "openai", model, input=272_000, cached=72_000, output=1000)
        total = 200_000 * Decimal(2) + 72_000 * Decimal("0.1") + 1000 * Decimal(10)
        assert short == total / MILLION
        long = cost(prices, "openai", model, input=272_001, cached=72_001, output=1000)
        total = 200_000 * Decimal(4) + 72_001 * Decimal("0.2") + 1000 * Decimal(15)
        assert long == total / MILLION
    # https://platform.claude.com/docs/en/about-claude/pricing: Haiku 5.5 above 100,000 tokens, what
    # is read from a cache and written to one included.
    counts = {"input": 100_001, "cached": 50_000, "cache_write": 40_000, "output": 1000}
    assert (
        cost(prices, "anthropic", "claude-haiku-5-5", **counts)
        == (
            10_001 * Decimal("0.5")
            + 50_000 * Decimal("0.05")
            + 40_000 * Decimal("0.625")
            + 1000 * Decimal("2.5")
        )
        / MILLION
    )


@pytest.mark.parametrize(
    ("provider", "model", "tier", "factor"),
    [
        # https://developers.openai.com/api/docs/pricing, tables "Batch", "Flex" and "Priority"
        ("openai", "gpt-6.2-astra", "batch", "0.5"),
        ("openai", "gpt-6.2-astra", "priority", "2"),
        ("openai", "gpt-6.2-sol", "batch", "0.5"),
        ("openai", "gpt-6.2-sol", "fast", "2"),
        ("openai", "gpt-6.1-sol", "batch", "0.5"),
        ("openai", "gpt-6.1-sol", "flex", "0.5"),
        ("openai", "gpt-6.1-sol", "priority", "2"),
        ("openai", "gpt-5.5", "priority", "2.5"),
        ("openai", "gpt-5.5", "batch", "0.5"),
        ("openai", "gpt-6-astra", "flex", "0.5"),
        # https://developers.openai.com/api/docs/guides/ultrafast-mode: 60, 6, 75 and 300 dollars
        ("openai", "gpt-6-astra", "ultrafast", "6"),
        ("openai", "gpt-6.1-sol", "ultrafast", "6"),
        ("openai", "gpt-6-astra", "priority", "2"),
        ("openai", "gpt-6.1-terra", "batch", "0.5"),
        ("openai", "gpt-6.1-terra", "fast", "2"),
        ("openai", "gpt-6-luna", "batch", "0.5"),
        ("openai", "gpt-5.6-sol", "flex", "0.5"),
        ("openai", "gpt-5.4", "priority", "2"),
        # https://platform.claude.com/docs/en/build-with-claude/batch-processing and
        # https://platform.claude.com/docs/en/build-with-claude/fast-mode
        ("anthropic", "claude-opus-5-5", "batch", "0.5"),
        ("anthropic", "claude-opus-5-5", "fast", "2"),
        ("anthropic", "claude-opus-5", "batch", "0.5"),
        ("anthropic", "claude-opus-5", "fast", "2"),
        ("anthropic", "claude-fable-5-1", "batch", "0.5"),
        ("anthropic", "claude-sonnet-5-5", "batch", "0.5"),
        ("anthropic", "claude-sonnet-5", "batch", "0.5"),
        ("anthropic", "claude-haiku-5-5", "batch", "0.5"),
        ("anthropic", "claude-haiku-4-5", "batch", "0.5"),
    ],
)
def test_service_tiers_have_prices_of_their_own(
    prices: Prices, provider: str, model: str, tier: str, factor: str
) -> None:
    counts = {"input": 5000, "cached": 2000, "output": 700}
    usual = cost(prices, provider, model, **counts)
    assert cost(prices, provider, model, tier=tier, **counts) == usual * Decimal(factor)


# https://openai.com/api-priority-processing/: input, cached input, output.
PRIORITY = """
gpt-5.5       12.5  1.25   75
gpt-5.4-mini  1.5   0.15   9
gpt-5.4       5     0.5    30
gpt-5.2       3.5   0.35   28
gpt-5.1       2.5   0.25   20
gpt-5         2.5   0.25   20
gpt-5-mini    0.45  0.045  3.6
gpt-5.1-codex 2.5   0.25   20
gpt-5-codex   2.5   0.25   20
gpt-4.1       3.5   0.875  14
gpt-4.1-mini  0.7   0.175  2.8
gpt-4.1-nano  0.2   0.05   0.8
gpt-4o        4.25  2.125  17
gpt-4o-mini   0.25  0.125  1
o3            3.5   0.875  14
o4-mini       2     0.5    8
"""


def test_priority_costs_what_its_page_says(prices: Prices) -> None:
    found = {}
    for line in PRIORITY.split("\n")[1:-1]:
        model, *rates = line.split()
        counts = ({"input": 1000}, {"input": 1000, "cached": 1000}, {"output": 1000})
        made = [1000 * cost(prices, "openai", model, tier="priority", **one) for one in counts]
        if made != [Decimal(rate) for rate in rates]:
            found[model] = (made, rates)
    assert not found


@pytest.mark.parametrize(
    "model",
    ["gpt-6.2-astra", "gpt-6-astra", "gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-luna", "gpt-5.6-sol",
     "gpt-5.6-terra", "gpt-5.6-luna", "gpt-5.5", "gpt-5.5-pro", "gpt-5.4"],
)  # fmt: skip
def test_above_272_000_tokens_gpt_costs_twice_for_input_and_half_more_for_output(
    prices: Prices, model: str
) -> None:
    # https://developers.openai.com/api/docs/pricing: columns "Short context" and "Long context".
    short = {"input": 272_000, "cached": 100_000}
    long = {"input": 272_001, "cached": 100_001}
    read = cost(prices, "openai", model, **short)
    read_more = cost(prices, "openai", model, **long)
    one_cached = cost(prices, "openai", model, input=1, cached=1)
    assert read_more == 2 * (read + one_cached)
    made = cost(prices, "openai", model, output=1000, **short) - read
    assert cost(prices, "openai", model, output=1000, **long) - read_more == made * Decimal("1.5")


def test_searches_cost_ten_dollars_a_thousand(prices: Prices) -> None:
    # Both vendors' pages say so.
    for provider, model in (("anthropic", "claude-opus-5-5"), ("openai", "gpt-6.1-sol")):
        assert cost(prices, provider, model, searches=3) == Decimal("0.03")


def test_prices_of_the_past_are_known(prices: Prices) -> None:
    # GPT-5.6 Luna came at 1 and 6 dollars, and has cost 0.2 and 1.2 since 30 July 2026.
    july = datetime(2026, 7, 15, tzinfo=UTC).timestamp()
    assert cost(prices, "openai", "gpt-5.6-luna", july, input=1000, output=1000) == Decimal("0.007")
    assert cost(prices, "openai", "gpt-5.6-luna", input=1000, output=1000) == Decimal("0.0014")


def test_names_with_a_date_or_in_capitals_are_the_same_model(prices: Prices) -> None:
    for provider, model, same in (
        ("anthropic", "claude-opus-5-5", "claude-opus-5-5-20261007"),
        ("anthropic", "claude-opus-5", "claude-opus-5-20260724"),
        ("openai", "gpt-6-sol", "gpt-6-sol-2026-09-22"),
        ("openai", "gpt-4o", "GPT-4o"),
    ):
        counts = {"input": 1000, "output": 100}
        assert cost(prices, provider, same, **counts) == cost(prices, provider, model, **counts)


def test_what_a_name_only_resembles_has_no_price(prices: Prices) -> None:
    for model in ("gpt-7", "gpt-6-sol-turbo", "my-gpt-5.5", "claude-opus-5-7"):
        for provider in ("openai", "anthropic"):
            assert prices.charge(provider, model, Usage(input=1), NOW).cost is None, model
