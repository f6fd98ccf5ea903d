"""An answer is given again only to who may still ask for it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import running_gateway
from tests.gateway.clients import APIS, PATHS, body, error_of
from tests.gateway.http import Answer, call
from tests.gateway.processes import until
from tests.gateway.test_keys import TOKEN, admin, made, settings


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


def test_the_administration_does_once_what_it_is_asked_again(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """Also where nobody was there to take the answer."""
    with running_gateway(settings(simulator.base_url, tmp_path)) as gateway:

        def post(path: str, value: object = None, key: str = "one") -> Answer:
            data = b"" if value is None else json.dumps(value).encode()
            given = {"idempotency-key": key}
            return call(gateway.base_url, "POST", f"/admin{path}", data, given, key=TOKEN)

        first = post("/keys", {"name": "k"})
        again = post("/keys", {"name": "k"})
        assert (first.status, again.status, again.body) == (201, 201, first.body)
        assert again.headers["idempotent-replayed"] == "true"
        assert post("/keys", {"name": "other"}).status == 422
        for wanted in (None, {"grace_s": 60}):
            rotated = [post("/keys/k/rotate", wanted, f"r{wanted}") for _ in range(2)]
            assert rotated[0].body == rotated[1].body
        assert len(admin(gateway, "GET", "/keys/k").json["secrets"]) == 3
        # What went wrong is done anew.
        assert [post("/keys/none/rotate", None, "n").status for _ in range(2)] == [404, 404]
        assert post("/keys", {"name": "none"}, "m").status == 201
        assert post("/keys/none/rotate", None, "n").status == 201
        # Another operator's keys are others.
        other = post("/admins", {"name": "ann", "role": "admin"}, "a").json["secret"]
        data, given = b'{"name": "k"}', {"idempotency-key": "one"}
        refused = call(gateway.base_url, "POST", "/admin/keys", data, given, key=other)
        assert refused.status == 409
        host, port = gateway.base_url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as gone:
            lines = (
                "POST /admin/keys HTTP/1.1",
                f"host: {host}",
                f"authorization: Bearer {TOKEN}",
                "idempotency-key: gone",
                "content-length: 15",
            )
            gone.sendall("\r\n".join([*lines, "", '{"name":"lost"}']).encode())
        until(lambda: admin(gateway, "GET", "/keys/lost").status == 200)
        asked = post("/keys", None, "gone")
        assert asked.status == 422
        given = {"idempotency-key": "gone"}
        found = call(gateway.base_url, "POST", "/admin/keys", b'{"name":"lost"}', given, key=TOKEN)
        assert (found.status, found.json["name"]) == (201, "lost")
