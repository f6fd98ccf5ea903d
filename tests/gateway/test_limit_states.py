"""How limits stand, when they will be used up if use goes on, and whether a request would be
admitted, as `/admin` and the holder of a key are told."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import OwnPrice
from dragoman.config.settings import Pricing
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.administration import eventually
from tests.gateway.http import call
from tests.gateway.stored_keys import admin, ask, becomes, made, settings

PRICE = OwnPrice(model="sim-*", input="1000", output="1000")


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    with running_gateway(settings(simulator.base_url, tmp_path, prices=(PRICE,))) as running:
        yield running


def test_the_operator_sees_how_limits_stand(gateway: RunningGateway) -> None:
    admin(gateway, "POST", "/teams", {"name": "t"})
    team = admin(
        gateway, "POST", "/teams/t/limits", {"kind": "cost", "amount": "5", "window": "month"}
    )
    assert team.status == 201
    secret = made(gateway, "ci", team="t")
    admin(gateway, "POST", "/keys/ci/limits", {"kind": "requests", "amount": 3, "window": "day"})
    becomes(gateway, secret, {429})
    (own,) = admin(gateway, "GET", "/keys/ci/limits").json["limits"]
    state = own["state"]
    assert (state["used"], state["reserved"], state["remaining"]) == (3, 0, 0)
    assert state["resets_at"].endswith("T00:00:00Z")
    assert datetime.fromisoformat(state["exhausted_at"]) <= datetime.now(UTC) + timedelta(1 / 24)
    (teams,) = admin(gateway, "GET", "/teams/t/limits").json["limits"]
    used = float(teams["state"]["used"])
    assert used > 0
    assert float(teams["state"]["remaining"]) == pytest.approx(5 - used)
    told = call(gateway.base_url, "GET", "/v1/key", key=secret).json["limits"]
    assert told[0]["exhausted_at"] >= state["exhausted_at"], "nothing is left at any time"
    assert admin(gateway, "GET", "/keys/ci").json["name"] == "ci"


def test_a_zone_that_this_machine_does_not_know(
    gateway: RunningGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a move to a machine with less."""
    secret = made(gateway, "ci")
    limit = {"kind": "requests", "amount": 50, "window": "day", "zone": "Europe/Berlin"}
    assert admin(gateway, "POST", "/keys/ci/limits", limit).status == 201
    with sqlite3.connect(tmp_path / "store.db") as store:
        store.execute(
            "UPDATE client_keys SET rules = replace(rules, 'Europe/Berlin', 'Europe/Nowhere'),"
            " version = version + 1000"
        )
    with running_gateway(gateway.app.config) as beside:
        answer = eventually(lambda: (found := ask(beside, secret)).status == 503 and found)
        assert "time zone Europe/Nowhere" in answer.json["error"]["message"]
        assert "the time zone Europe/Nowhere of a limit is not known here" in caplog.text
        (shown,) = admin(beside, "GET", "/keys/ci/limits").json["limits"]
        assert shown["limit"]["zone"] == "Europe/Nowhere"
        zone = {"zone": "UTC"}
        assert admin(beside, "PATCH", "/keys/ci/limits/1", zone).status == 200
        assert ask(beside, secret).status == 200


def test_usage_of_a_clock_far_ahead_refuses_nobody(
    simulator: RunningSimulator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = settings(simulator.base_url, tmp_path, prices=(PRICE,))
    with running_gateway(config) as gateway:
        secret = made(gateway, "ci")
        for window in ("month", "7d"):
            limit = {"kind": "requests", "amount": 5, "window": window}
            assert admin(gateway, "POST", "/keys/ci/limits", limit).status == 201
        becomes(gateway, secret, {429})
    with sqlite3.connect(tmp_path / "store.db") as store:
        store.execute("UPDATE usage SET hour = hour + 90 * 86400")
    with running_gateway(config) as gateway:
        assert [ask(gateway, secret).status for _ in range(6)] == [200] * 5 + [429]
    assert "usage of the key ci is of a clock ahead" in caplog.text


def test_a_simulated_request_meets_what_a_real_one_meets(gateway: RunningGateway) -> None:
    secret = made(gateway, "ci", max_output_tokens=4000, addresses=["127.0.0.0/8"])
    for limit in (
        {"kind": "requests", "amount": 50, "window": "1h"},
        {"kind": "cost", "amount": "1.5", "window": "month", "clamp": True},
        {"kind": "tokens", "amount": 1, "window": "day", "models": ["other-*"]},
    ):
        assert admin(gateway, "POST", "/keys/ci/limits", limit).status == 201

    def simulate(**fields: object) -> dict[str, object]:
        answer = admin(gateway, "POST", "/keys/ci/simulate", {"model": "chat/sim-text", **fields})
        assert answer.status == 200, answer.body
        found: dict[str, object] = answer.json
        return found

    def counted() -> list[tuple[object, object]]:
        limits = admin(gateway, "GET", "/keys/ci/limits").json["limits"]
        return [(one["state"]["used"], one["state"]["reserved"]) for one in limits]

    def concerned() -> int:
        limits = simulate()["limits"]
        assert isinstance(limits, list)
        return len(limits)

    eventually(lambda: concerned() == 2)
    assert ask(gateway, secret).status == 200
    before = counted()
    whole = simulate(input_tokens=100, output_tokens=400)
    assert (whole["admitted"], whole["clamped_to"], whole["cost_usd"]) == (True, None, "0.5")
    assert [one["limit"] for one in whole["limits"]] == ["key:requests:1h", "key:cost:month"]  # type: ignore[attr-defined]
    long = simulate(input_tokens=100, output_tokens=9000)
    assert long["admitted"] is True
    assert isinstance(long["clamped_to"], int)
    assert 256 <= long["clamped_to"] <= 1400
    assert long["output_tokens"] == long["clamped_to"]
    # Where the key has an output limit, that is what a request has which sets none.
    usual = simulate()
    assert isinstance(usual["clamped_to"], int)
    assert usual["output_tokens"] == usual["clamped_to"] > 1024
    much = simulate(input_tokens=3000)
    assert much["admitted"] is False
    assert "key:cost:month" in str(much["reason"])
    assert "elsewhere" not in str(simulate()["reason"])
    assert "not be used from this address" in str(simulate(address="192.0.2.1")["reason"])
    assert "does not exist" in str(simulate(model="none")["reason"])
    assert counted() == before, "nothing is counted"
    real = ask(gateway, secret)
    assert real.status == 200
    for path, fields, status in (
        ("/keys/none/simulate", {"model": "m"}, 404),
        ("/keys/ci/simulate", {}, 400),
        ("/keys/ci/simulate", {"model": "m", "input_tokens": -1}, 400),
        ("/keys/ci/simulate", {"model": "m", "x": 1}, 400),
    ):
        assert admin(gateway, "POST", path, fields).status == status, path


def test_an_answer_tells_what_is_left_of_the_tightest_budget(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    pricing = Pricing(header=True)
    made_of = settings(simulator.base_url, tmp_path, prices=(PRICE,), pricing=pricing)
    with running_gateway(made_of) as gateway:
        secret = made(gateway, "ci")
        for amount, window in (("100", "month"), ("3", "day")):
            limit = {"kind": "cost", "amount": amount, "window": window}
            admin(gateway, "POST", "/keys/ci/limits", limit)
        name = "x-dragoman-budget-remaining-usd"
        # Until both are in force.
        while Decimal((answer := ask(gateway, secret)).headers.get(name, "100")) > 3:
            assert answer.status == 200
        left = Decimal(answer.headers[name])
        again = ask(gateway, secret).headers
        assert Decimal(again[name]) == left - Decimal(again["x-dragoman-cost-usd"])
        limits = call(gateway.base_url, "GET", "/v1/key", key=secret).json["limits"]
        assert limits[1]["remaining"] == again[name]
        admin(gateway, "PATCH", "/keys/ci", {"show_amounts": False})
        while name in (answer := ask(gateway, secret)).headers:
            assert answer.status == 200
        assert "x-dragoman-cost-usd" in answer.headers


def test_whoever_looks_makes_no_ledgers(simulator: RunningSimulator, tmp_path: Path) -> None:
    config = settings(simulator.base_url, tmp_path, prices=(PRICE,))
    limits: list[dict[str, Any]] = [
        {"kind": "requests", "amount": 3, "window": "1h"},
        {"kind": "cost", "amount": "5", "window": "month"},
    ]
    with running_gateway(config) as gateway:
        assert gateway.app.common is not None
        owner = gateway.app.common.limits.owner
        for name in ("a", "b", "c"):
            admin(gateway, "POST", "/keys", {"name": name, "limits": limits})
        admin(gateway, "POST", "/teams", {"name": "t", "limits": limits})
        for path in (
            "/keys?state=true",
            "/teams?state=true",
            "/keys/a/limits",
            "/keys?ending=true",
        ):
            assert admin(gateway, "GET", path).status == 200
        told = admin(gateway, "GET", "/keys?state=true&limit=2").json
        assert told["total"] == 4
        state = told["keys"][0]["limits"][0]["state"]
        assert (state["used"], state["remaining"], state["exhausted_at"]) == (0, 3, None)
        assert not owner.balances
        secret = made(gateway, "d", limits=limits)
        assert ask(gateway, secret).status == 200
        assert len(owner.balances) == 2


def test_what_was_used_is_told_after_a_restart(simulator: RunningSimulator, tmp_path: Path) -> None:
    config = settings(simulator.base_url, tmp_path, prices=(PRICE,))
    limits = [{"kind": "requests", "amount": 9, "window": "day"}]
    with running_gateway(config) as gateway:
        admin(gateway, "POST", "/teams", {"name": "t", "limits": limits})
        secret = made(gateway, "ci", team="t", limits=limits)
        admin(gateway, "POST", "/keys", {"name": "idle", "limits": limits})
        becomes(gateway, secret, {429})
    with running_gateway(config) as gateway:
        for _ in range(2):
            keys = admin(gateway, "GET", "/keys?state=true").json["keys"]
            used = {one["name"]: [each["state"]["used"] for each in one["limits"]] for one in keys}
            assert used == {"ci": [9], "idle": [0], "tester": []}
            (team,) = admin(gateway, "GET", "/teams?state=true").json["teams"]
            assert team["limits"][0]["state"]["used"] == 9
        assert [one["name"] for one in admin(gateway, "GET", "/keys?ending=true").json["keys"]] == [
            "ci"
        ]


def test_keys_are_found_by_their_names_and_teams(gateway: RunningGateway) -> None:
    admin(gateway, "POST", "/teams", {"name": "Ops-1"})
    admin(gateway, "POST", "/keys", {"name": "one", "team": "Ops-1"})
    admin(gateway, "POST", "/keys", {"name": "two"})

    def found(query: str) -> list[str]:
        return [one["name"] for one in admin(gateway, "GET", f"/keys?{query}").json["keys"]]

    assert found("q=OPS") == ["one"]
    assert found("q=%20tw") == ["two"]
    assert found("q=") == ["one", "tester", "two"]
    assert admin(gateway, "GET", "/keys?q=e&limit=1").json["total"] == 2
    assert admin(gateway, "GET", "/keys?find=e").status == 400
