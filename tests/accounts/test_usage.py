"""Counting what was used."""

from __future__ import annotations

import pytest

from dragoman.accounts import usage
from dragoman.accounts.store import UsageCount, UsageKey
from dragoman.accounts.usage import MOST_MODELS, OTHER, Meter, totals
from dragoman.canonical.usage import Usage

HOUR = 1_800_000_000 // 3600 * 3600


def count(meter: Meter, model: str = "m", **more: object) -> None:
    settings: dict[str, object] = {
        "now": HOUR + 7.5,
        "account": "a",
        "client": "c",
        "route": "/v1/messages",
        "usage": Usage(input=10, output=4, cached=3, cache_write=2, reasoning=1),
        "milliseconds": 5.0,
        **more,
    }
    meter.count(model=model, **settings)  # type: ignore[arg-type]


def test_sums_by_account_client_model_route_and_hour() -> None:
    meter = Meter()
    count(meter)
    count(meter)
    count(meter, now=HOUR + 3600.0)
    count(meter, account="b", usage=None, failed=True)
    assert meter.take() == {
        UsageKey(HOUR, "a", "c", "m", "/v1/messages"): UsageCount(
            requests=2,
            input=20,
            output=8,
            cached=6,
            cache_write=4,
            reasoning=2,
            milliseconds=10.0,
        ),
        UsageKey(HOUR + 3600, "a", "c", "m", "/v1/messages"): UsageCount(
            requests=1, input=10, output=4, cached=3, cache_write=2, reasoning=1, milliseconds=5.0
        ),
        UsageKey(HOUR, "b", "c", "m", "/v1/messages"): UsageCount(
            requests=1, errors=1, milliseconds=5.0
        ),
    }
    assert meter.take() == {}


def test_a_good_answer_without_usage_is_unmetered() -> None:
    meter = Meter()
    count(meter, usage=None)
    (sums,) = meter.take().values()
    assert (sums.requests, sums.unmetered, sums.errors) == (1, 1, 0)


def test_a_count_of_tokens_costs_none() -> None:
    meter = Meter()
    count(meter, metered=False)
    (sums,) = meter.take().values()
    assert (sums.requests, sums.unmetered, sums.input) == (1, 0, 0)


def test_what_could_not_be_told_is_counted_again() -> None:
    meter = Meter()
    count(meter)
    taken = meter.take()
    count(meter)
    meter.restore(taken)
    (sums,) = meter.take().values()
    assert (sums.requests, sums.input) == (2, 20)


def test_names_that_clients_choose_do_not_pile_up() -> None:
    meter = Meter(known=["mine"])
    for number in range(MOST_MODELS + 50):
        count(meter, f"invented-{number}")
    count(meter, "mine")
    count(meter, "x" * 10_000)
    found = totals(meter.take(), ["model"])
    assert len(found) == MOST_MODELS + 2
    assert found[(OTHER,)].requests == 51
    assert found[("mine",)].requests == 1
    count(meter, "x" * 10_000, now=HOUR + 3600.0)
    ((model,),) = totals(meter.take(), ["model"])
    assert len(model) == 200


def test_sums_that_no_store_takes_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MOST_COUNTS", 10)
    meter = Meter()
    for number in range(100):
        count(meter, account=f"account-{number}")
    meter.restore(meter.take())
    for number in range(100):
        count(meter, account=f"another-{number}")
    taken = meter.take()
    assert len(taken) == 11
    assert totals(taken)[()].requests == 200
    assert totals(taken, ["account"])[(OTHER,)].requests == 190


def test_totals_by_any_dimension() -> None:
    meter = Meter()
    count(meter, account="b")
    count(meter, account="a", client="d")
    count(meter, account="a", client="c")
    taken = meter.take()
    assert [(key, sums.requests) for key, sums in totals(taken, ["account"]).items()] == [
        (("a",), 2),
        (("b",), 1),
    ]
    assert list(totals(taken, ["client", "account"])) == [("c", "a"), ("c", "b"), ("d", "a")]
    assert totals({}) == {}
