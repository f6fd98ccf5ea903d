"""Finding the price of an answer, and what it comes to."""

from __future__ import annotations

import pytest

from dragoman.canonical.usage import Usage, consistent
from dragoman.prices.lookup import MOST_MODELS, Basis, Charge, PriceList, Prices
from dragoman.prices.rates import Price, dollars
from dragoman.prices.table import ModelPrices, PriceError, make_table, read_table, write_table

DAY = 86_400


def price(rate: int = 1, tier: str = "", above: int = 0, since: int = 0, **more: int) -> Price:
    """A price at which every token costs `rate`."""
    rates = dict.fromkeys(
        ("input", "cached", "cache_write", "cache_write_1h", "output", "reasoning"), rate
    )
    day = {"begins": 0, "ends": 0}
    return Price(since=since, tier=tier, above=above, **(day | rates | more))


def prices(*rows: Price, names: tuple[str, ...] = ("m",)) -> Prices:
    model = ModelPrices("vendor", names, rows)
    return Prices({"up": PriceList((), [[model]])}, "v1")


def charged(found: Prices, usage: Usage, at: float = DAY, model: str = "m") -> int | None:
    return found.charge("up", model, usage, at).cost


def test_each_kind_of_token_has_its_rate() -> None:
    rates = Price(0, "", 0, 0, 0, 1, 10, 100, 1000, 10_000, 100_000, 10**6, 10**7)
    usage = Usage(
        input=10, cached=2, cache_write=5, cache_write_1h=1, output=7, reasoning=3, searches=4
    )
    # 3 plain, 2 cached, 4 written, 1 for an hour, 4 of output, 3 of reasoning, 4 searches
    assert rates.cost_of(usage) == 14_341_423


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(input=5, cached=9, cache_write=9, cache_write_1h=9), 50),
        (Usage(input=5, cached=2, cache_write=9, cache_write_1h=9), 20 + 3 * 1000),
        (Usage(output=5, reasoning=9), 5 * 100_000),
        (Usage(), 0),
    ],
)
def test_a_part_is_never_more_than_the_whole(usage: Usage, cost: int) -> None:
    rates = Price(0, "", 0, 0, 0, 1, 10, 100, 1000, 10_000, 100_000)
    assert rates.cost_of(consistent(usage)) == cost


def test_a_step_holds_for_prompts_that_are_longer() -> None:
    found = prices(price(1), price(2, above=100), price(3, above=1000))
    for tokens, rate in ((100, 1), (101, 2), (1000, 2), (1001, 3)):
        assert charged(found, Usage(input=tokens)) == tokens * rate
        above = found.charge("up", "m", Usage(input=tokens), DAY).basis.above
        assert above == {1: 0, 2: 100, 3: 1000}[rate]


def test_a_tier_without_a_price_of_its_own_is_charged_as_usual_and_told_apart() -> None:
    found = prices(price(1), price(5, tier="priority"))
    assert charged(found, Usage(input=1, tier="priority")) == 5
    flex = found.charge("up", "m", Usage(input=1, tier="flex"), DAY)
    assert flex == Charge(Basis("up", "m", "flex", 0, "v1"), 1)
    # An upstream's own words are not kept: they could be any.
    odd = found.charge("up", "m", Usage(input=1, tier="made-up"), DAY)
    assert odd == Charge(Basis("up", "m", "", 0, "v1"), 1)


def test_a_price_holds_from_its_day_on_with_all_of_its_steps() -> None:
    found = prices(price(1), price(9, above=100), price(2, since=2 * DAY))
    assert charged(found, Usage(input=200), DAY) == 200 * 9
    assert charged(found, Usage(input=200), 2 * DAY - 1) == 200 * 9
    # The later price has no steps: those of the earlier one are over with it.
    assert charged(found, Usage(input=200), 2 * DAY) == 200 * 2
    assert charged(found, Usage(input=200), DAY) == 200 * 2, "prices do not go back in time"


def test_prices_of_the_day_change_with_the_clock() -> None:
    night = price(7, begins=23 * 60, ends=60)
    noon = price(3, begins=11 * 60 + 30, ends=13 * 60)
    found = prices(price(1), night, noon)
    for minute, rate in ((0, 7), (59, 7), (60, 1), (690, 3), (779, 3), (780, 1), (1380, 7)):
        assert charged(found, Usage(input=1), 5 * DAY + minute * 60) == rate, minute


def test_names_win_over_patterns_and_long_patterns_over_short_ones() -> None:
    models = [
        ModelPrices("vendor", ("gpt-*",), (price(1),)),
        ModelPrices("vendor", ("*-mini", "gpt-5-*"), (price(2),)),
        ModelPrices("vendor", ("gpt-5-mini", "Big"), (price(3),)),
        ModelPrices("vendor", ("gpt-5-####",), (price(4),)),
    ]
    found = Prices({"up": PriceList((), [models])}, "v")
    for model, rate in (
        ("gpt-4", 1),
        ("gpt-5-x", 2),
        ("gpt-5-mini", 3),
        ("GPT-5-MINI", 3),
        ("big", 3),
        ("gpt-5-2026", 4),
        ("gpt-5-20261", 2),
        ("claude", None),
    ):
        assert charged(found, Usage(input=1), model=model) == rate, model


def test_own_prices_win_and_other_lists_come_last() -> None:
    first = [ModelPrices("a", ("m",), (price(1),))]
    second = [ModelPrices("b", ("m", "n"), (price(2),))]
    listed = PriceList([("own-*", (price(8),)), ("*-m", (price(9),))], [first, second])
    found = Prices({"up": listed}, "v")
    for model, rate in (("m", 1), ("n", 2), ("own-m", 8), ("x-m", 9), ("x", None)):
        assert charged(found, Usage(input=1), model=model) == rate, model


def test_what_has_no_price_is_told_once_and_counted_apart_by_its_length() -> None:
    told: list[tuple[str, str]] = []
    found = Prices({"up": PriceList((), [])}, "v", lambda *names: told.append(names))
    for _ in range(3):
        found.charge("up", "m", Usage(input=5), DAY)
        found.charge("elsewhere", "m", Usage(input=5), DAY)
    assert told == [("up", "m"), ("elsewhere", "m")]
    charge = found.charge("up", "m", Usage(input=272_001, tier="batch"), DAY)
    assert (charge.basis, charge.cost) == (Basis("up", "m", "batch", 272_000, ""), None)


def test_names_that_clients_choose_do_not_pile_up() -> None:
    found = prices(price(1))
    for number in range(3 * MOST_MODELS):
        found.charge("up", f"m{number}", Usage(input=1), DAY)
    assert len(found._quotes) <= MOST_MODELS


def test_a_basis_is_priced_anew_by_what_it_was_told_apart_by() -> None:
    found = prices(price(1), price(2, above=100), price(5, tier="batch"))
    for basis, rate in (
        (Basis("up", "m", "", 0, "old"), 1),
        (Basis("up", "m", "", 100, "old"), 2),
        (Basis("up", "m", "batch", 100, ""), 5),
    ):
        made = found.price(basis, DAY, DAY)
        assert made is not None
        assert (made[1].input, made[0].prices) == (rate, "v1")
    assert found.price(Basis("up", "unknown"), DAY, DAY) is None


@pytest.mark.parametrize(
    ("pico", "text"),
    [
        (0, "0"),
        (1, "0.000000000001"),
        (10**12, "1"),
        (1_250_000_000_000, "1.25"),
        (-5, "-0.000000000005"),
    ],
)
def test_amounts_are_exact(pico: int, text: str) -> None:
    assert dollars(pico) == text


def test_a_table_is_read_as_it_was_written_and_a_changed_one_is_refused() -> None:
    model = ModelPrices("vendor", ("m",), (price(1), price(2, above=100)))
    table = make_table("2026-11-22", (), (), [model])
    text = write_table(table)
    assert read_table(text) == table
    assert text.count(b"\n") > 3
    for wrong in (text.replace(b"100", b"101"), b"{}", b"[", b'{"version": 5}', text[:-5]):
        with pytest.raises(PriceError):
            read_table(wrong)
