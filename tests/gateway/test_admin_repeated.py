"""POST requests below `/admin` that are repeated with the same `Idempotency-Key`."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from dragoman.admin import repeated
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import running_gateway
from tests.gateway.http import Answer, call
from tests.gateway.processes import until
from tests.gateway.stored_keys import TOKEN, admin, settings


def test_a_post_that_is_repeated_is_given_the_first_answer(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """Also where its client had left before the answer."""
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
        data, given = b'{"name":"lost"}', {"idempotency-key": "gone"}

        def repeated() -> Answer:
            return call(gateway.base_url, "POST", "/admin/keys", data, given, key=TOKEN)

        # Until then the first one is still being answered.
        until(lambda: repeated().status == 201)
        asked = post("/keys", None, "gone")
        assert asked.status == 422
        found = repeated()
        assert (found.status, found.json["name"]) == (201, "lost")


def test_what_is_remembered_is_bounded(
    simulator: RunningSimulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated, "_MOST_ANSWERS", 2)
    with running_gateway(settings(simulator.base_url, tmp_path)) as gateway:

        def post(name: str) -> Answer:
            data = json.dumps({"name": name}).encode()
            given = {"idempotency-key": f"for {name}"}
            return call(gateway.base_url, "POST", "/admin/keys", data, given, key=TOKEN)

        with monkeypatch.context() as patch:
            patch.setattr(repeated, "_REMEMBERED_S", 0.0)
            assert [post("short").status for _ in range(2)] == [201, 409]
        names = ("a", "b", "c")
        assert [post(name).status for name in names] == [201, 201, 201]
        # The oldest is forgotten: its name is taken.
        assert [post(name).status for name in reversed(names)] == [201, 201, 409]
        monkeypatch.setattr(repeated, "_LARGEST_ANSWER", 1)
        assert [post("d").status for _ in range(2)] == [201, 422]
