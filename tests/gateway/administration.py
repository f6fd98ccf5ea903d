"""Calls of `/admin`, and waiting for what they bring about."""

from __future__ import annotations

import json
import time
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
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if found := check():
            return found
        time.sleep(0.02)
    pytest.fail("it never came true")
