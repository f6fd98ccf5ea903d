"""Reading what a table is made from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.lab.prices.genai import read_genai
from dragoman.lab.prices.making import Text, changes, make_from
from dragoman.lab.prices.pages import PAGES
from dragoman.prices.rates import Price
from dragoman.prices.table import PriceError

NOW = 1_795_000_000.0  # 18 November 2026


def source(*models: dict[str, Any], provider: str = "openai") -> bytes:
    found = {"id": provider, "name": "V", "api_pattern": "https://v\\.example", "models": models}
    return json.dumps([found]).encode()


def model(prices: Any, match: Any = None, **more: Any) -> dict[str, Any]:
    return {"id": "m", "match": match or {"equals": "m"}, "prices": prices, **more}


def read(prices: Any, **more: Any) -> tuple[Price, ...]:
    (found,) = read_genai(source(model(prices, **more))).models
    return found.prices


def test_rates_that_are_not_told_are_those_of_plain_tokens() -> None:
    (price,) = read({"input_mtok": 0.07, "output_mtok": 1.1})
    assert price == Price(0, "", 0, 0, 0, *[70_000] * 4, *[1_100_000] * 2)
    (price,) = read({"input_mtok": 2, "cache_write_mtok": 3, "web_searches_kcount": 10})
    assert (price.cached, price.cache_write, price.cache_write_1h) == (
        2 * 10**6,
        3 * 10**6,
        3 * 10**6,
    )
    assert price.search == 10**10


def test_steps_days_hours_and_tiers() -> None:
    stepped = {"base": 1, "tiers": [{"start": 100, "price": 2}]}
    found = read(
        [
            {"prices": {"input_mtok": stepped, "output_mtok": 5}},
            {"constraint": {"start_date": "2026-01-01"}, "prices": {"input_mtok": 3}},
            {
                "constraint": {"start_time": "01:00:00Z", "end_time": "04:30:00Z"},
                "prices": {"input_mtok": 4},
            },
        ],
        price_variants=[
            {
                "when": {"service_tier": "flex"},
                "prices": {"input_mtok": 0.5},
                "constraint": {"start_date": "2026-02-01"},
            }
        ],
    )
    january, february = 1_767_225_600, 1_769_904_000
    assert [(p.since, p.tier, p.above, p.begins, p.ends, p.input, p.output) for p in found] == [
        (0, "", 0, 0, 0, 10**6, 5 * 10**6),
        (0, "", 100, 0, 0, 2 * 10**6, 5 * 10**6),
        (january, "", 0, 0, 0, 3 * 10**6, 0),
        (0, "", 0, 60, 270, 4 * 10**6, 0),
        (february, "flex", 0, 0, 0, 500_000, 0),
        (february, "flex", 0, 60, 270, 500_000, 0),
    ]


@pytest.mark.parametrize(
    ("match", "names"),
    [
        ({"equals": "a.b"}, ("a.b",)),
        ({"starts_with": "a"}, ("a*",)),
        ({"ends_with": "a"}, ("*a",)),
        ({"contains": "a"}, ("*a*",)),
        ({"or": [{"equals": "a"}, {"starts_with": "b"}, {"equals": "a"}]}, ("a", "b*")),
        ({"regex": "^gpt-6\\.1-sol-\\d{4}-\\d{2}-\\d{2}$"}, ("gpt-6.1-sol-####-##-##",)),
        ({"regex": "^a[-@]\\d$"}, ("a-#", "a@#")),
        ({"regex": "^a-\\d"}, ("a-#*",)),
        ({"and": [{"starts_with": "a"}, {"regex": "^(?!.*tts)"}]}, ("a*",)),
    ],
)
def test_rules_become_patterns(match: Any, names: tuple[str, ...]) -> None:
    (found,) = read_genai(source(model({"input_mtok": 1}, match))).models
    assert found.names == names


def test_what_a_table_cannot_say_is_told() -> None:
    reading = read_genai(
        source(
            model({"input_mtok": 1, "input_audio_mtok": 9}),
            model({"input_mtok": 1}, {"regex": "^(a|b)$"}),
            model({"audio_hours": 1}),
            model({"input_mtok": 1}, price_variants=[{"when": {"route": "eu"}, "prices": {}}]),
        )
    )
    assert len(reading.models) == 2
    told = "\n".join(reading.left_out)
    assert "input_audio_mtok" in told
    assert "^(a|b)$" in told
    assert "'route': 'eu'" in told


@pytest.mark.parametrize(
    "text", [b"", b"{}", b'[{"id": 1}]', source(model({"input_mtok": "x"})), source({"id": "m"})]
)
def test_other_files_are_refused(text: bytes) -> None:
    with pytest.raises(PriceError):
        read_genai(text)
    with pytest.raises(PriceError):
        make_from(Text("a", source(model({"input_mtok": 1}))), Text("b", b"[]"), NOW)


@pytest.mark.parametrize(
    "match",
    [5, {}, {"equals": 5}, {"regex": 5}, {"and": []}, {"or": "ab"}, {"or": [{"equals": None}]},
     {"unheard": "of"}],
)  # fmt: skip
def test_a_rule_of_another_form_is_left_out(match: Any) -> None:
    one = model({"input_mtok": 1}, {"equals": "fine"})
    reading = read_genai(source({**one, "match": match}, one))
    assert [found.names for found in reading.models] == [("fine",)]
    assert "openai/m: names that match" in reading.left_out[0]


@pytest.mark.parametrize(
    "prices", [{"input_mtok": -1}, {"input_mtok": 1, "cache_read_mtok": -0.1}, {"input_mtok": 1e20}]
)
def test_a_rate_that_cannot_be_is_left_out(prices: Any) -> None:
    reading = read_genai(source(model(prices), model({"input_mtok": 1}, {"equals": "fine"})))
    assert [found.names for found in reading.models] == [("fine",)]
    assert reading.left_out == ("openai/m: an impossible rate",)


def other(**entries: dict[str, Any]) -> Text:
    shared = {"litellm_provider": "openai", "mode": "chat"}
    return Text("other", json.dumps({name: shared | one for name, one in entries.items()}).encode())


def test_the_second_source_is_compared_and_fills_in() -> None:
    first = Text("first", source(model({"input_mtok": 2, "output_mtok": 10})))
    second = other(
        m={"input_cost_per_token": 2.01e-6, "output_cost_per_token": 11e-6},
        n={"input_cost_per_token": 5e-7, "output_cost_per_token": 1e-6},
        picture={"mode": "image_generation", "input_cost_per_token": 1e-6},
        free={"input_cost_per_token": 0, "output_cost_per_token": 0},
        word={"input_cost_per_token": "free", "output_cost_per_token": [1]},
        infinite={"input_cost_per_token": "inf"},
        below={"input_cost_per_token": -1e-6},
        beyond={"input_cost_per_token": 1e20},
        nobody={"litellm_provider": None, "input_cost_per_token": 1e-6},
        several={"litellm_provider": ["openai"], "input_cost_per_token": 1e-6},
        modes={"mode": ["chat"], "input_cost_per_token": 1e-6},
    )
    entries = json.loads(second.body) | {"number": 5, "nothing": None}
    second = Text("other", json.dumps(entries).encode())
    made = make_from(first, second, NOW)
    assert made.check is not None
    assert made.check.equal == 1
    (difference,) = made.check.different
    assert (difference.model, difference.rate) == ("m", "output")
    assert (difference.ours, difference.theirs) == ("10", "11")
    assert [(one.names, one.prices[0].input) for one in made.check.missing] == [(("n",), 500_000)]
    assert [source.name for source in made.table.sources[:2]] == ["genai-prices", "litellm"]
    assert made.table.version.startswith("2026-11-18.")


def test_what_only_a_page_has_is_added_until_a_source_has_it() -> None:
    made = make_from(Text("", source(model({"input_mtok": 1}))), None, NOW)
    whole = [page for page in PAGES if not page.model.prices[0].tier]
    assert {page.model for page in whole} == set(made.table.models[1:])
    assert {page.address for page in whole} == {one.address for one in made.table.sources[1:]}
    assert not made.known
    page = PAGES[0]
    name = page.model.names[0]
    made = make_from(Text("", source(model({"input_mtok": 9}, {"equals": name}))), None, NOW)
    assert page.model not in made.table.models
    assert page.address not in {one.address for one in made.table.sources}
    assert made.known == (f"openai/{name}",)


def test_service_tiers_that_only_a_page_has_are_added_to_a_model() -> None:
    page = next(page for page in PAGES if page.model.prices[0].tier)
    tier, name = page.model.prices[0].tier, page.model.names[0]
    known = model({"input_mtok": 9}, {"equals": name})
    made = make_from(Text("", source(known)), None, NOW)
    assert made.table.models[0].prices[1:] == page.model.prices
    assert page.address in {one.address for one in made.table.sources}
    assert not made.known
    variants = [{"when": {"service_tier": tier}, "prices": {"input_mtok": 7}}]
    made = make_from(Text("", source(known | {"price_variants": variants})), None, NOW)
    assert [price.input for price in made.table.models[0].prices] == [9 * 10**6, 7 * 10**6]
    assert made.known == (f"openai/{name}",)


def test_a_rate_of_another_unit_is_pointed_out() -> None:
    assert make_from(Text("", source(model({"input_mtok": 1001}))), None, NOW).high
    assert not make_from(Text("", source(model({"input_mtok": 1000}))), None, NOW).high
    cached = model({"input_mtok": 1, "cache_read_mtok": 1001})
    assert make_from(Text("", source(cached)), None, NOW).high == ("openai/m: 1001",)


def test_changes_between_tables_are_told() -> None:
    old = make_from(
        Text("", source(model({"input_mtok": 1}), model({"input_mtok": 1}, {"equals": "gone"}))),
        None,
        NOW,
    )
    new = make_from(
        Text("", source(model({"input_mtok": 2}), model({"input_mtok": 1}, {"equals": "new"}))),
        None,
        NOW,
    )
    assert list(changes(old.table, new.table)) == [
        "- openai/gone",
        "~ openai/m: 1/1/0 -> 2/2/0",
        "+ openai/new: 1/1/0",
    ]
    assert not list(changes(old.table, old.table))
