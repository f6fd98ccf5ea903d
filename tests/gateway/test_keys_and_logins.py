"""What counts as a login that failed: a key that may be guessed, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Client, Secret
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import SERVER, Start
from tests.gateway.http import KEY, call

ELSEWHERE = {"x-forwarded-for": "203.0.113.9"}
SERVED = replace(SERVER, trusted_proxies=("127.0.0.1",), failed_logins=3)


def test_a_key_used_from_elsewhere_is_no_guess(start: Start) -> None:
    clients = (
        Client(name="bound", key=Secret("sk-bound-client"), addresses=("10.0.0.0/8",)),
        Client(name="free", key=Secret(KEY)),
    )
    gateway = start(server=SERVED, clients=clients)

    def status(key: str) -> int:
        made = body("chat", "chat/sim-text")
        return call(gateway.base_url, "POST", PATHS["chat"], made, ELSEWHERE, key=key).status

    assert [status("sk-bound-client") for _ in range(5)] == [403] * 5
    assert status(KEY) == 200


@pytest.mark.parametrize(
    "rules",
    [
        {"enabled": False},
        {"expires": datetime(2020, 1, 1, tzinfo=UTC)},
        {"not_before": datetime(2200, 1, 1, tzinfo=UTC)},
    ],
)
def test_a_key_whose_time_is_over_is_no_guess(start: Start, rules: dict[str, Any]) -> None:
    """Whoever goes on with it is told that, and shuts nobody out at its address."""
    clients = (
        Client(name="former", key=Secret("sk-former-client"), **rules),
        Client(name="free", key=Secret(KEY)),
    )
    gateway = start(server=SERVED, clients=clients)

    def status(key: str) -> int:
        return call(gateway.base_url, "GET", "/v1/models", None, ELSEWHERE, key=key).status

    assert [status("sk-former-client") for _ in range(5)] == [401] * 5
    assert [status("sk-guess") for _ in range(4)] == [401, 401, 401, 429]


def test_a_store_that_cannot_be_read_is_no_guess(start: Start) -> None:
    gateway = start(server=SERVED)
    gateway.app._services.keys.is_loaded = False
    for expected in (503, 503, 503, 503, 503):
        answer = call(gateway.base_url, "GET", "/v1/models", None, ELSEWHERE, key="sk-not-yet")
        assert answer.status == expected, answer.body
    gateway.app._services.keys.is_loaded = True
    answers = [
        call(gateway.base_url, "GET", "/v1/models", None, ELSEWHERE, key="sk-guess").status
        for _ in range(4)
    ]
    assert answers == [401, 401, 401, 429]
