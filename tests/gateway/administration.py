"""Calls of `/admin`, and waiting for what they bring about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Admin, Probe, Secret, Storage
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.conftest import config_for
from tests.gateway.http import Answer, call
from tests.gateway.processes import until

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
    """What `check` gives as soon as that is anything."""
    found: Any = None

    def holds() -> bool:
        nonlocal found
        found = check()
        return bool(found)

    until(holds)
    return found
