"""Accounts by columns, as a page of the dashboard asks for them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.accounts.store import LastError
from dragoman.operations.account_columns import columns
from dragoman.operations.account_views import AccountView, QuotaView, Reason

BLANK = AccountView(
    name="", upstream="chat", origin="store", secrets=("key",), credentials="", models=None,
    priority=0, weight=1.0, max_concurrent=None, balance=None,
    state="active", reasons=(), back_at=None, trial=False,
    in_flight=0, last_used=None, requests=0, errors=0, retries=0, errors_by_kind={},
    last_error=None, cost_usd="0", unpriced=0, quotas=(), problem="",
)  # fmt: skip
RESTING = replace(BLANK, state="cooling", reasons=(Reason("overloaded", until=9.0),), back_at=9.0)


def quota(name: str, used: float | None, seconds: float | None, model: str = "") -> QuotaView:
    return QuotaView(
        name=name, model=model, used=used, resets_at=50.0, told_at=20.0, seconds=seconds
    )


def table(*accounts: AccountView) -> Any:
    return msgspec.json.decode(msgspec.json.encode(columns(iter(accounts))))


def test_each_account_stands_at_one_place_of_every_column() -> None:
    told = table(
        replace(BLANK, name="a", requests=3, errors=2, retries=1, in_flight=4, last_used=7.5),
        replace(
            RESTING, name="b", cost_usd="1.25", unpriced=1, last_error=LastError(5.04, "overloaded")
        ),
        replace(RESTING, name="c", trial=True, problem="no upstream named chat"),
    )["columns"]
    assert told.pop("windows") == {}
    assert told == {
        "name": ["a", "b", "c"],
        "upstream": ["chat"] * 3,
        "state": ["active", "cooling", "trial"],
        "why": ["", "overloaded", "no upstream named chat"],
        "back_at": [None, 9.0, 9.0],
        "in_flight": [4, 0, 0],
        "last_used": [7.5, None, None],
        "requests": [3, 0, 0],
        "errors": [2, 0, 0],
        "retries": [1, 0, 0],
        "cost_usd": ["0", "1.25", "0"],
        "unpriced": [0, 1, 0],
        "last_error": [None, "overloaded", None],
        "failed_at": [None, 5.0, None],
    }


def test_a_window_is_unknown_of_accounts_that_have_told_nothing_of_it() -> None:
    week = quota("week", 0.5, 604800.0)
    found = table(
        BLANK,
        replace(BLANK, quotas=(week, quota("5h", None, 18000.0))),
        BLANK,
        # Two that have one name in the table are one there: no account moves to another's place.
        replace(BLANK, quotas=(quota("week opus", 0.7, None), quota("week", 0.9, None, "opus"))),
        BLANK,
    )["columns"]["windows"]
    assert list(found) == ["week opus", "5h", "week"]
    assert found["week"] == {
        "used": [None, 0.5, None, None, None],
        "resets_at": [None, 50.0, None, None, None],
        "told_at": [None, 20.0, None, None, None],
        "seconds": [None, 604800.0, None, None, None],
    }
    assert found["5h"]["told_at"] == [None, 20.0, None, None, None]
    assert {len(values) for window in found.values() for values in window.values()} == {5}


@pytest.mark.parametrize(
    ("changed", "is_another"),
    [
        (replace(BLANK, in_flight=1), True),
        (replace(BLANK, name="other"), True),
        (replace(BLANK, quotas=(quota("week", 0.1, None),)), False),
        (replace(BLANK, weight=2.0), False),
    ],
)
def test_a_version_is_of_what_is_shown_but_windows(changed: AccountView, is_another: bool) -> None:
    assert (table(changed)["version"] != table(BLANK)["version"]) is is_another
