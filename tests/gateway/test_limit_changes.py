"""Limits that are changed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.stored_keys import admin, becomes, made, settings


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


def test_what_was_removed_says_what_to_do(gateway: RunningGateway, tmp_path: Path) -> None:
    secret = made(gateway, "ci")
    share = {"kind": "cost", "share": "25%", "upstream": "chat", "window": "5h", "amount": "1"}
    refused = admin(gateway, "POST", "/keys/ci/limits", share)
    assert refused.status == 400
    assert "set an amount in US dollars" in refused.body.decode()
    gone = admin(gateway, "POST", "/keys/ci/limits/simulate", {})
    assert (gone.status, "mode shadow" in gone.body.decode()) == (410, True)
    # One that a former version has stored is left out.
    becomes(gateway, secret, {200})
    with closing(sqlite3.connect(tmp_path / "store.db")) as store, store:
        rules = {"limits": [share, {"kind": "requests", "amount": 0, "window": "day"}]}
        store.execute(
            "UPDATE client_keys SET rules = ?, version = version + 1000 WHERE name = 'ci'",
            (json.dumps(rules),),
        )
    (left,) = admin(gateway, "GET", "/keys/ci/limits").json["limits"]
    assert left["limit"]["kind"] == "requests"
