"""Counting what was used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from dragoman.accounts import usage
from dragoman.accounts.store import ChargeKey, UsageCount, UsageKey
from dragoman.accounts.usage import MOST_MODELS, MOST_TAGS, MOST_USERS, OTHER, Attribution, Meter
from dragoman.canonical.usage import Usage
from dragoman.prices.lookup import Basis, Charge

HOUR = 1_800_000_000 // 3600 * 3600


def count(meter: Meter, model: str = "m", **more: Any) -> None:
    settings: dict[str, Any] = {
        "model": model,
        "now": HOUR + 7.5,
        "account": "a",
        "client": "c",
        "route": "/v1/messages",
        "usage": Usage(input=10, output=4, cached=3, cache_write=2, reasoning=1),
        "milliseconds": 5.0,
        **more,
    }
    names = {name: settings.pop(name) for name in Attribution.__struct_fields__ if name in settings}
    meter.count(whose=Attribution(**names), **settings)


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


def requests_by(taken: Mapping[UsageKey, UsageCount], name: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for key, sums in taken.items():
        found[getattr(key, name)] += sums.requests
    return found


@pytest.mark.parametrize(
    ("name", "most"), [("model", MOST_MODELS), ("user", MOST_USERS), ("tags", MOST_TAGS)]
)
def test_names_that_clients_choose_do_not_pile_up(name: str, most: int) -> None:
    meter = Meter(known=["mine"])
    for number in range(most + 50):
        count(meter, **{name: f"invented-{number}"})
    count(meter, "mine")
    count(meter, **{name: "x" * 500})
    found = requests_by(meter.take(), name)
    assert len(found) == most + 2
    assert found[OTHER] == 51
    assert found["mine" if name == "model" else ""] == 1
    count(meter, **{name: "x" * 500}, now=HOUR + 3600.0)
    (told,) = requests_by(meter.take(), name)
    assert len(told) == (200 if name == "model" else 500)


def test_sums_that_no_store_takes_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MOST_COUNTS", 10)
    meter = Meter()
    who = {"upstream": "up", "team": "t", "user": "u", "tags": "x"}
    for number in range(100):
        count(meter, account=f"account-{number}", **who)
    meter.restore(meter.take())
    for number in range(100):
        count(meter, account=f"another-{number}", **who)
    taken = meter.take()
    assert len(taken) == 11
    assert sum(sums.requests for sums in taken.values()) == 200
    assert requests_by(taken, "account")[OTHER] == 190
    assert requests_by(taken, "team") == {"t": 200}


def test_whom_a_request_is_for_is_told_apart_and_survives_a_store_that_fails() -> None:
    meter = Meter()
    who = {"team": "t", "user": "u", "tags": "a,b"}
    basis = Basis("up", "priced", "flex", 5, "v")
    for _ in range(2):
        count(meter, upstream="up", charge=Charge(basis, 7), **who)
        counts, charges = meter.take(), meter.take_charges()
        meter.restore(counts)
        meter.restore_charges(charges)
    assert meter.take() == {
        UsageKey(HOUR, "a", "c", "m", "/v1/messages", "up", "t", "u", "a,b"): next(
            iter(counts.values())
        )
    }
    (key,) = charges
    assert key == ChargeKey(
        HOUR, "a", "c", "m", "/v1/messages", *basis, team="t", user="u", tags="a,b"
    )
    assert meter.take_charges()[key].cost == 14


def test_an_answer_of_a_model_with_the_name_of_the_rest_is_charged() -> None:
    meter = Meter()
    basis = Basis("up", OTHER, prices="v")
    count(meter, OTHER, upstream="up", charge=Charge(basis, 7))
    (charged,) = meter.take_charges().values()
    assert (charged.requests, charged.cost, charged.input, charged.output) == (1, 7, 10, 4)
