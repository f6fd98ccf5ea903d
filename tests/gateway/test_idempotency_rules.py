"""An answer is given again only to who may still ask for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.testing import running_gateway
from dragoman.simulator.testing import RunningSimulator
from tests.gateway.clients import APIS, PATHS, body, error_of
from tests.gateway.http import Answer, call
from tests.gateway.processes import until
from tests.gateway.test_keys import admin, made, settings


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("rules", "status"),
    [
        ({"models": ["other-*"]}, 404),
        ({"upstreams": ["messages"]}, 404),
        ({"models": ["chat/sim-*"], "upstreams": ["chat"]}, 200),
    ],
)
def test_a_tightened_rule_holds_for_answers_that_are_given_again(
    simulator: RunningSimulator, tmp_path: Path, api: str, rules: dict[str, list[str]], status: int
) -> None:
    with running_gateway(settings(simulator.base_url, tmp_path)) as gateway:
        secret = made(gateway, "k")

        def ask(key: str = "one") -> Answer:
            asked = body(api, "chat/sim-text")
            headers = {"idempotency-key": key}
            return call(gateway.base_url, "POST", PATHS[api], asked, headers, key=secret)

        before = ask()
        assert before.status == 200
        asked = len(simulator.requests)
        assert ask().body == before.body
        assert admin(gateway, "PATCH", "/keys/k", rules).status == 200
        known = gateway.app._services.keys
        until(lambda: known._keys["k"].rules.upstreams == _tuple(rules.get("upstreams")))
        until(lambda: known._keys["k"].rules.models == _tuple(rules.get("models")))
        answer = ask()
        assert answer.status == status, answer.body
        assert answer.headers.get("idempotent-replayed") == ("true" if status == 200 else None)
        assert len(simulator.requests) == asked
        if status == 200:
            assert answer.body == before.body
        else:
            error_of(api, answer)
            assert b"sim-text" in answer.body
            # It is not kept, either: once the rule is gone, the answer is there again.
            assert admin(gateway, "PATCH", "/keys/k", dict.fromkeys(rules)).status == 200
            until(lambda: ask().status == 200)
            assert ask().body == before.body


def _tuple(value: list[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)
