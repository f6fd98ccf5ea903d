"""The administration of a gateway with four workers, by many at once."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dragoman.simulator.testing import RunningSimulator
from tests.gateway.http import call
from tests.gateway.processes import gateway_process

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
