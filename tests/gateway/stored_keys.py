"""Gateways whose client keys are in the store."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dragoman.config import Admin, Config, Secret, Storage
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import Answer, call

TOKEN = "admin-token-of-the-test"
PROMISE_S = 1.0
"""Within which every worker obeys (keys are in force within a second)."""


def settings(base_url: str, path: Path, **more: Any) -> Config:
    config = replace(
        config_for(base_url),
        storage=Storage(path=str(path / "store.db"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
    )
    return replace(config, **more)


def admin(gateway: RunningGateway, method: str, path: str, value: Any = None) -> Answer:
    data = None if value is None else json.dumps(value).encode()
    return call(gateway.base_url, method, f"/admin{path}", data, key=TOKEN)


def made(gateway: RunningGateway, name: str, **fields: Any) -> str:
    """A new key's secret, once the gateway knows it."""
    answer = admin(gateway, "POST", "/keys", {"name": name, **fields})
    assert answer.status == 201, answer.body
    secret: str = answer.json["secret"]
    if fields.get("enabled", True):
        becomes(gateway, secret, {200, 401, 403, 404}, told_not="not valid for")
    return secret


def ask(gateway: RunningGateway, key: str | None, model: str = "chat/sim-text", api: str = "chat",
        **headers: str) -> Answer:  # fmt: skip
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return call(gateway.base_url, "POST", PATHS[api], body(api, model), given, key=key)


def becomes(
    gateway: RunningGateway,
    key: str | None,
    statuses: set[int],
    told: str = "",
    told_not: str = "\0",
) -> Answer:
    """The first answer of one of these statuses, in the time that is promised."""
    deadline = time.monotonic() + PROMISE_S
    while True:
        answer = ask(gateway, key)
        text = answer.body.decode()
        if answer.status in statuses and told in text and told_not not in text:
            return answer
        assert time.monotonic() < deadline, (answer.status, text)
        time.sleep(0.02)
