"""The administration over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Admin, Client, Probe, Secret, Storage
from dragoman.gateway.testing import RunningGateway, running_gateway
from dragoman.simulator.testing import RunningSimulator
from tests.gateway.clients import body
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY, Answer, Connection, call

TOKEN = "admin-token-of-the-test"
STORE_KEY = "a store key for tests"
SECRET = "sk-sim-zebra-quagga"


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway with a store, and `chat-0` as an account of the configuration."""
    config = config_for(simulator.base_url)
    config = replace(
        config,
        upstreams=tuple(
            replace(one, probe=Probe(model="sim-text", every_s=1.0)) for one in config.upstreams
        ),
        storage=Storage(path=str(tmp_path / "store.db"), key=Secret(STORE_KEY), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
    )
    with running_gateway(config) as running:
        yield running


def admin(
    gateway: RunningGateway,
    method: str,
    path: str,
    value: Any = None,
    headers: dict[str, str] | None = None,
    key: str | None = TOKEN,
) -> Answer:
    data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return call(gateway.base_url, method, f"/admin{path}", data, headers, key=key)


def error(answer: Answer, status: int, kind: str, param: str | None = None) -> dict[str, Any]:
    assert answer.status == status, answer.body
    found: dict[str, Any] = answer.json["error"]
    assert (found["type"], found["param"]) == (kind, param)
    assert found["message"]
    assert answer.headers["content-type"] == "application/json"
    return found


def eventually(check: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if found := check():
            return found
        time.sleep(0.02)
    pytest.fail("it never came true")


def ask(gateway: RunningGateway, model: str = "chat/sim-text") -> Answer:
    return call(gateway.base_url, "POST", "/v1/chat/completions", body("chat", model))


def test_the_life_of_an_account(gateway: RunningGateway, simulator: RunningSimulator) -> None:
    added = admin(
        gateway,
        "POST",
        "/accounts",
        {"name": "new", "upstream": "chat", "key": SECRET, "priority": -1, "balance": 5e5},
    )
    assert added.status == 201
    assert added.json["secrets"] == ["key"]
    assert eventually(lambda: ask(gateway).status == 200 and simulator.last.key == SECRET)
    shown = eventually(
        lambda: (
            (found := admin(gateway, "GET", "/accounts/new").json["account"])["requests"] and found
        )
    )
    assert shown["state"] == "active"
    assert shown["last_used"] <= time.time()
    assert shown["balance"] < 5e5

    changed = admin(gateway, "PATCH", "/accounts/new", {"priority": 7, "models": ["sim-*"]})
    assert (changed.status, changed.json["priority"]) == (200, 7)
    assert changed.json["secrets"] == ["key"]
    assert eventually(lambda: ask(gateway).status == 200 and simulator.last.key != SECRET)

    disabled = admin(gateway, "POST", "/accounts/chat-0/disable", {"reason": "a  holiday\n"})
    assert disabled.json["state"] == "disabled"
    assert disabled.json["reasons"] == [{"why": "a holiday"}]
    assert eventually(lambda: ask(gateway).status == 200 and simulator.last.key == SECRET)
    history = admin(gateway, "GET", "/accounts/chat-0").json["history"]
    assert [(entry["change"], entry["source"]) for entry in history] == [("disabled", "operator")]
    enabled = admin(gateway, "POST", "/accounts/chat-0/enable")
    assert enabled.json["state"] == "active"
    assert eventually(lambda: ask(gateway).status == 200 and simulator.last.key != SECRET)

    assert admin(gateway, "DELETE", "/accounts/new").json == {"removed": 1}
    error(admin(gateway, "GET", "/accounts/new"), 404, "not_found", "name")
    error(admin(gateway, "DELETE", "/accounts/new"), 404, "not_found", "name")
