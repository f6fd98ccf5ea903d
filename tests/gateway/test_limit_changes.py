"""Limits that are changed, and what they would have done before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.config.windows import Fixed, Rolling, Window
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.serving.past_use import HOUR_S, PastUse, past_use
from tests.gateway.test_keys import admin, becomes, made, settings

DAY = 20_000 * 24
"""The first hour of a day, in hours."""


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    with running_gateway(settings(simulator.base_url, tmp_path)) as running:
        yield running


def test_a_limit_is_changed_and_goes_on_counting(gateway: RunningGateway) -> None:
    secret = made(gateway, "ci")
    limit = {"kind": "requests", "amount": 1, "window": "day", "mode": "soft"}
    admin(gateway, "POST", "/keys/ci/limits", limit)
    becomes(gateway, secret, {200})
    changed = admin(gateway, "PATCH", "/keys/ci/limits/1", {"mode": None})
    assert changed.status == 200, changed.body
    assert changed.json["limits"][0]["limit"] == {"kind": "requests", "amount": 1, "window": "day"}
    becomes(gateway, secret, {429, 402})
    admin(gateway, "PATCH", "/keys/ci/limits/1", {"amount": 1_000_000})
    becomes(gateway, secret, {200})
    (told,) = admin(gateway, "GET", "/keys/ci/limits").json["limits"]
    assert told["state"]["used"] >= 2
    assert admin(gateway, "PATCH", "/keys/ci/limits/1", {"amount": -1}).status == 400
    assert admin(gateway, "PATCH", "/keys/ci/limits/2", {"amount": 1}).status == 404
    changes: Any = admin(gateway, "GET", "/audit").json["changes"]
    assert [one["action"] for one in changes if one["name"] == "ci"][:2] == ["change", "change"]


@pytest.mark.parametrize(
    ("fields", "tells"),
    [
        ({"kind": "requests", "amount": 5, "window": "day"}, True),
        ({"kind": "cost", "amount": "2.50", "window": "5h"}, True),
        ({"kind": "requests", "amount": 5, "window": "1m"}, False),
        ({"kind": "concurrent", "amount": 5}, False),
    ],
)
def test_what_a_limit_would_have_done_is_asked(
    gateway: RunningGateway, fields: dict[str, object], tells: bool
) -> None:
    made(gateway, "ci")
    before = admin(gateway, "GET", "/audit").json["changes"]
    told = admin(gateway, "POST", "/keys/ci/limits/simulate", fields)
    assert told.status == 200, told.body
    assert (told.json["over"] == 0) is tells
    assert admin(gateway, "GET", "/audit").json["changes"] == before
    assert admin(gateway, "GET", "/keys/ci/limits").json["limits"] == []
    assert admin(gateway, "POST", "/keys/none/limits/simulate", fields).status == 404
    wrong = fields | {"amount": -1}
    assert admin(gateway, "POST", "/keys/ci/limits/simulate", wrong).status == 400


@pytest.mark.parametrize(
    ("window", "used", "expected"),
    [
        (Fixed("day"), [], (0, 0, None, 0)),
        (Fixed("day"), [(0, 6), (5, 6), (24, 6)], (3, 1, 5, 12)),
        (Fixed("hour"), [(0, 6), (1, 6), (2, 11)], (3, 1, 2, 11)),
        (Fixed("day"), [(-2, 9), (0, 9)], (1, 0, None, 9)),
        (Rolling(5 * HOUR_S), [(-2, 9), (0, 9)], (1, 1, 0, 18)),
        (Rolling(5 * HOUR_S), [(0, 9), (5, 9)], (2, 0, None, 9)),
        (Fixed(None), [(-48, 9), (0, 1), (9, 1)], (2, 1, 9, 11)),
    ],
)
def test_a_limit_of_ten_in_the_past(
    window: Window, used: list[tuple[int, int]], expected: tuple[int, int, int | None, int]
) -> None:
    hours = [((DAY + hour) * HOUR_S, units) for hour, units in used]
    first = None if expected[2] is None else (DAY + expected[2]) * HOUR_S
    wanted = PastUse(expected[0], expected[1], first, expected[3])
    assert past_use(window, 10, hours, DAY * HOUR_S) == wanted
