"""Whom usage is counted for, and what the holder of a key is told of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Admin, Client, OwnPrice, Secret, Storage, Team, UsageSettings
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import Answer, call

TOKEN = "admin-token-of-the-test"
MINE, OTHER = "sk-key-of-mine", "sk-key-of-another"


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    config = replace(
        config_for(simulator.base_url),
        clients=(
            Client(name="mine", key=Secret(MINE), team="builds"),
            Client(name="other", key=Secret(OTHER)),
        ),
        teams=(Team(name="builds"),),
        storage=Storage(path=str(tmp_path / "store.db"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
        prices=(OwnPrice(model="*", input="1", output="10"),),
        usage=UsageSettings(user_headers=("X-End-User", "x-second")),
    )
    with running_gateway(config) as running:
        yield running


def ask(
    gateway: RunningGateway,
    api: str,
    headers: dict[str, str] | None = None,
    key: str = MINE,
    **more: Any,
) -> None:
    if api == "responses":
        more["store"] = False
    made = body(api, f"{api}/sim-text", **more)
    answer = call(gateway.base_url, "POST", PATHS[api], made, headers, key=key)
    assert answer.status == 200, answer.body


def told(gateway: RunningGateway, requests: int, query: str) -> list[dict[str, Any]]:
    """What the administration tells, once as many requests are in the store."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        answer = call(gateway.base_url, "GET", f"/admin/usage?since=1h&{query}", key=TOKEN)
        assert answer.status == 200, answer.body
        if answer.json["total"]["requests"] == requests:
            return list(answer.json["rows"])
        time.sleep(0.02)
    pytest.fail("not all was counted")


def own(gateway: RunningGateway, query: str = "", key: str | None = MINE) -> Answer:
    return call(gateway.base_url, "GET", f"/v1/usage{query}", key=key)


NAMED: list[tuple[str, str, dict[str, str], dict[str, Any]]] = [
    ("chat", "", {}, {}),
    ("chat", "u1", {}, {"user": "u1"}),
    ("chat", "s1", {}, {"user": "u1", "safety_identifier": "s1"}),
    ("responses", "s1", {}, {"safety_identifier": "s1"}),
    ("messages", "user_ab_account_cd", {}, {
        "metadata": {"user_id": "user_ab_account_cd_session_ef"}}),
    ("messages", "acc", {}, {"metadata": {
        "user_id": '{"device_id":"dev","account_uuid":"acc","session_id":"ses"}'}}),
    ("messages", "dev", {}, {"metadata": {
        "user_id": '{"device_id":"dev","account_uuid":"","session_id":"ses"}'}}),
    ("chat", "h1", {"X-End-User": " h1 ", "X-Second": "h2"}, {"user": "u1"}),
    ("messages", "h2", {"X-End-User": "", "X-Second": "h2"}, {"metadata": {"user_id": "u1"}}),
    ("chat", "a" * 128, {"x-end-user": "a" * 500}, {}),
    ("chat", "Zoë", {"x-end-user": "Zoë".encode().decode("latin-1")}, {}),  # as UTF-8
    ("chat", "Zoë", {"x-end-user": "Zoë"}, {}),
    ("chat", "b?c", {}, {"user": "b\u001bc"}),
]  # fmt: skip


@pytest.mark.parametrize(("api", "user", "headers", "more"), NAMED)
def test_the_end_user_of_a_request(
    gateway: RunningGateway, api: str, user: str, headers: dict[str, str], more: dict[str, Any]
) -> None:
    ask(gateway, api, headers, **more)
    [row] = told(gateway, 1, "by=user,team,upstream,key")
    assert row["by"] == {"user": user, "team": "builds", "upstream": api, "key": "mine"}
    assert row["cost_usd"] != "0"


def test_tags_come_from_a_header_and_from_metadata(gateway: RunningGateway) -> None:
    ask(gateway, "chat", {"X-Dragoman-Tags": "b, a ,,b"}, metadata={"tags": "c", "other": "d"})
    many = ",".join(f"t{number}" for number in range(20))
    ask(gateway, "messages", {"x-dragoman-tags": f"{'x' * 100},{many}"})
    rows = told(gateway, 2, "by=tag")
    tags = {row["by"]["tag"] for row in rows}
    assert tags == {"a", "b", "c", "x" * 64, *(f"t{number}" for number in range(7))}
    assert all(row["requests"] == 1 for row in rows)
    [row] = told(gateway, 1, "tag=a&by=key")
    assert row["requests"] == 1


def test_the_holder_of_a_key_sees_its_own_usage_alone(gateway: RunningGateway) -> None:
    ask(gateway, "chat", user="u1")
    ask(gateway, "messages")
    ask(gateway, "chat", key=OTHER)
    told(gateway, 3, "")
    answer = own(gateway, "?group_by=model,user,day")
    assert answer.status == 200
    found = answer.json
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert [(row["model"], row["user"], row["day"]) for row in found["data"]] == [
        ("chat/sim-text", "u1", today),
        ("messages/sim-text", "", today),
    ]
    assert found["total"]["requests"] == 2
    assert found["total"]["input_tokens"] == sum(row["input_tokens"] for row in found["data"]) > 0
    assert float(found["total"]["cost_usd"]) > 0
    assert own(gateway, key=OTHER).json["total"]["requests"] == 1
    assert own(gateway, "?to=2020-01-01").json["data"] == []
    assert own(gateway, "?to=0001-01-15T00:00:00Z&from=0001-01-15T00:00:00Z").json["data"] == []
    assert own(gateway, "?to=1970-01-02").json["from"] == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("?group_by=account", "group_by"),
        ("?group_by=key", "group_by"),
        ("?group_by=model,model", "group_by"),
        ("?client=other", "client"),
        ("?from=yesterdayish", "from"),
        ("?to=9999999999999", "to"),
        ("?to=999999999999", "to"),
        ("?from=999999999d", "from"),
        ("?from=2026-02-02&to=2026-02-01", "from"),
    ],
)
def test_what_a_holder_cannot_ask(gateway: RunningGateway, query: str, param: str) -> None:
    answer = own(gateway, query)
    assert answer.status == 400
    assert answer.json["error"]["param"] == param


def test_nobody_asks_without_a_key(gateway: RunningGateway) -> None:
    assert own(gateway, key=None).status == 401


def test_where_nothing_is_kept_there_is_nothing(simulator: RunningSimulator) -> None:
    with running_gateway(config_for(simulator.base_url)) as gateway:
        assert call(gateway.base_url, "GET", "/v1/usage").status == 404


def test_tags_are_read_from_the_headers_that_are_set(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """For clients that name them by a header of their own."""
    config = replace(
        config_for(simulator.base_url),
        storage=Storage(path=str(tmp_path / "store.db"), sync_s=0.05),
        clients=(Client(name="mine", key=Secret(MINE)),),
        admin=Admin(key=Secret(TOKEN)),
        usage=UsageSettings(tag_headers=("x-labels",)),
    )
    with running_gateway(config) as gateway:
        ask(gateway, "chat", {"x-labels": "nightly, ci", "x-dragoman-tags": "other"})
        rows = told(gateway, 1, "by=tag")
        assert sorted(row["by"]["tag"] for row in rows) == ["ci", "nightly"]
