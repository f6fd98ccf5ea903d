"""The administration of a gateway with four workers, by many at once."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.http import Answer, call
from tests.gateway.processes import ASKED, gateway_process

TOKEN = "admin-token-of-the-test"


def test_a_name_is_added_once_and_removed_once(tmp_path: Path, simulator: RunningSimulator) -> None:
    with (
        gateway_process(
            tmp_path,
            simulator.base_url,
            {"first": "sk-sim-org-a"},
            workers=4,
            server=f'[admin]\nkey = "{TOKEN}"',
        ) as gateway,
        ThreadPoolExecutor(40) as people,
    ):

        def add(number: int) -> int:
            draft = {"name": "new", "upstream": "chat", "key": f"sk-sim-org-{number}"}
            data = json.dumps(draft).encode()
            return call(gateway.url, "POST", "/admin/accounts", data, key=TOKEN).status

        def remove(_: int) -> int:
            return call(gateway.url, "DELETE", "/admin/accounts/new", key=TOKEN).status

        for _ in range(3):
            assert Counter(people.map(add, range(40))) == {201: 1, 409: 39}
            assert Counter(people.map(remove, range(40))) == {200: 1, 404: 39}


def test_of_many_who_read_the_same_one_changes_it(
    tmp_path: Path, simulator: RunningSimulator
) -> None:
    with (
        gateway_process(
            tmp_path,
            simulator.base_url,
            {"first": "sk-sim-org-a"},
            workers=2,
            server=f'[admin]\nkey = "{TOKEN}"',
        ) as gateway,
        ThreadPoolExecutor(8) as people,
    ):

        def ask(method: str, path: str, value: object = None, **headers: str) -> Answer:
            data = None if value is None else json.dumps(value).encode()
            given = {name.replace("_", "-"): text for name, text in headers.items()}
            return call(gateway.url, method, f"/admin/{path}", data, given, key=TOKEN)

        ask("POST", "accounts", {"name": "a", "upstream": "chat", "key": "sk-sim-org-b"})
        for path, field in (
            ("keys/k", "note"),
            ("teams/t", "note"),
            ("admins/m", "note"),
            ("accounts/a", "weight"),
        ):
            place, name = path.split("/")
            more = {"role": "viewer"} if place == "admins" else {}
            if place != "accounts":
                assert ask("POST", place, {"name": name, **more}).status == 201
            for turn in range(4):
                tag = ask("GET", path).headers["etag"]

                def change(number: int, path: str = path, field: str = field, tag: str = tag,
                           turn: int = turn) -> int:  # fmt: skip
                    mark = 10 * turn + number + 2
                    value = mark if field == "weight" else str(mark)
                    return ask("PATCH", path, {field: value}, if_match=tag).status

                assert Counter(people.map(change, range(8))) == {200: 1, 412: 7}, path
            assert ask("DELETE", path, if_match='"old"').status == 412


def test_an_account_enabled_right_after_failures_is_used(
    tmp_path: Path, simulator: RunningSimulator
) -> None:
    """Whatever the workers had still to tell of its failures: none of that takes it out again."""
    key = "sk-sim-org-enabled"
    refused = KeyBehaviour(Fault("error", failure=Failure(status=401)))
    with (
        gateway_process(
            tmp_path, simulator.base_url, {"a": key}, workers=4, server=f'[admin]\nkey = "{TOKEN}"'
        ) as gateway,
        ThreadPoolExecutor(16) as clients,
    ):

        def ask(_: int) -> int:
            return call(gateway.url, "POST", "/v1/chat/completions", ASKED).status

        for _ in range(5):
            simulator.app.keys.behaviours[key] = refused
            assert set(clients.map(ask, range(32))) == {403}
            simulator.app.keys.behaviours.clear()
            enabled = call(gateway.url, "POST", "/admin/accounts/a/enable", b"", key=TOKEN)
            assert enabled.json["state"] == "active"
            end = time.monotonic() + 1.0  # as long as workers may take to hear of it
            while set(clients.map(ask, range(32))) != {200}:
                assert time.monotonic() < end
            time.sleep(0.15)  # several exchanges
            assert set(clients.map(ask, range(32))) == {200}
