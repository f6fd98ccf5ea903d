"""What is granted beside a limit for a time: by `/admin` and the command line, in force within a
second, told, audited, and over when it was said."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Config
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.operations.inputs import InvalidInput, read_input
from dragoman.operations.key_service import KeyService
from dragoman.operations.limit_service import LimitService, NumberedLimit
from dragoman.operations.limits import GrantLimit
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.storage.sqlite import SqliteStore
from tests.gateway.http import call
from tests.gateway.stored_keys import admin, becomes, made, settings

DAY = datetime(2026, 3, 28, 12, tzinfo=UTC)
"""The day before Berlin's clocks are put forward."""


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    with running_gateway(settings(simulator.base_url, tmp_path)) as running:
        yield running


def test_a_grant_lets_more_in_until_it_ends(gateway: RunningGateway) -> None:
    secret = made(gateway, "ci")
    limit = {"kind": "requests", "amount": 1, "window": "total"}
    admin(gateway, "POST", "/keys/ci/limits", limit)
    becomes(gateway, secret, {429})
    until = (datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)).isoformat()
    granted = admin(
        gateway, "POST", "/keys/ci/limits/1/grant", {"amount": 1_000_000, "until": until}
    )
    assert granted.status == 200, granted.body
    assert granted.json["limits"][0]["limit"]["granted"] == 1_000_000
    becomes(gateway, secret, {200})
    told = call(gateway.base_url, "GET", "/v1/key", key=secret).json["limits"][0]
    assert told["amount"] == 1_000_001
    assert told["granted"] == 1_000_000
    assert told["granted_until"] == until.replace("+00:00", "Z")
    time.sleep(max(0.0, datetime.fromisoformat(until).timestamp() - time.time()))
    becomes(gateway, secret, {429})
    told = call(gateway.base_url, "GET", "/v1/key", key=secret).json["limits"][0]
    assert told["amount"] == 1
    assert "granted" not in told
    (entry,) = [
        one
        for one in admin(gateway, "GET", "/audit").json["changes"]
        if "granted" in json.dumps(one.get("after"))
    ]
    assert (entry["kind"], entry["name"]) == ("key", "ci")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"amount": -1}, "granted"),
        ({"amount": "5"}, "granted"),
        ({}, "amount"),
        ({"amount": 5, "windows": 0}, "windows"),
        ({"amount": 5, "until": "2020-01-01T00:00:00Z"}, "past"),
        ({"amount": 5, "until": "2099-01-01T00:00:00Z", "windows": 1}, "windows"),
        ({"amount": 5, "until": "soon"}, "until"),
        ({"amount": 5, "for": 3}, "for"),
    ],
)
def test_a_grant_that_cannot_be_changes_nothing(tmp_path: Path, fields: Any, told: str) -> None:
    with_limits = administration(tmp_path, window="day")
    with pytest.raises(InvalidInput) as caught:
        grant(with_limits, fields)
    (fault,) = caught.value.faults
    assert told in f"{fault.field} {fault.message}"
    assert with_limits.limits("ci")[0].limit.granted is None


@pytest.mark.parametrize(
    ("window", "zone", "windows", "until"),
    [
        ("day", "UTC", None, "2026-03-29T00:00:00Z"),
        ("day", "Europe/Berlin", 2, "2026-03-29T22:00:00Z"),
        ("month", "UTC", 1, "2026-04-01T00:00:00Z"),
        ("week", "UTC", 1, "2026-03-30T00:00:00Z"),
        ("5h", "UTC", 2, "2026-03-28T22:00:00Z"),
    ],
)
def test_a_grant_lasts_for_so_many_windows(
    tmp_path: Path, window: str, zone: str, windows: int | None, until: str
) -> None:
    with_limits = administration(tmp_path, window=window, zone=zone)
    granted = grant(with_limits, {"amount": 5, "windows": windows})
    assert granted[0].limit.granted_until == datetime.fromisoformat(until)
    assert grant(with_limits, {"amount": None})[0].limit.granted_until is None


def test_what_never_begins_anew_needs_an_end(tmp_path: Path) -> None:
    for window, kind in (("total", "requests"), (None, "concurrent")):
        with_limits = administration(tmp_path / kind, window=window, kind=kind)
        with pytest.raises(InvalidInput, match="until"):
            grant(with_limits, {"amount": 5})


def administration(folder: Path, **fields: Any) -> LimitService:
    """That of a new store with one key, `ci`, which has one limit, at `DAY`."""
    folder.mkdir(exist_ok=True)
    store = SqliteStore(str(folder / "store.db"))
    keys = KeyService(Config(), store.client_keys)
    keys.add("ci", {})
    limits = LimitService(keys, clock=DAY.timestamp)
    limits.add("ci", {"kind": "requests", "amount": 1} | fields)
    return limits


def grant(limits: LimitService, fields: dict[str, Any]) -> tuple[NumberedLimit, ...]:
    """What an operator asks for with these fields."""
    asked = read_input(GrantLimit, {"name": "ci", "number": 1} | fields)
    return limits.grant("ci", 1, asked.amount, asked.windows, asked.until)
