"""The administration of a gateway with four workers, by many at once."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dragoman.simulator.accounts import KeyBehaviour
from dragoman.simulator.script import Failure, Fault
from dragoman.simulator.testing import RunningSimulator
from tests.gateway.http import call
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
