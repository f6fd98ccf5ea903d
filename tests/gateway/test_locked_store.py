"""Another process has the store locked: requests go on, whatever they want kept."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.clients import APIS, PATHS, body, completed
from tests.gateway.http import AUTH, Answer, Connection
from tests.gateway.processes import GatewayProcess, gateway_process, until

KEYS = {"one": "sk-sim-one", "two": "sk-sim-two"}
AT_ONCE = 25


def ask_at_once(gateway: GatewayProcess, api: str, count: int, stream: bool) -> list[Answer]:
    """So many requests at the same time, each on a connection of its own that gives up after 20
    seconds."""
    asked = body(api, "chat/sim-text", stream=stream)
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(gateway.url)) for _ in range(count)]
        for connection in connections:
            connection.send("POST", PATHS[api], asked, AUTH)
        return [connection.answer() for connection in connections]


def test_a_locked_store_holds_nobody_up(tmp_path: Path, simulator: RunningSimulator) -> None:
    """All are answered before the lock ends. Responses that cannot be kept say so, and are kept
    again afterwards."""
    with gateway_process(tmp_path, simulator.base_url, KEYS, workers=2) as gateway:
        with closing(sqlite3.connect(gateway.store, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            for api in APIS:
                for stream in (False, True):
                    answers = ask_at_once(gateway, api, AT_ONCE, stream)
                    assert {answer.status for answer in answers} == {200}
                    if stream:
                        assert all(completed(api, answer.body) for answer in answers)
                    elif api == "responses":
                        assert not any(answer.json["store"] for answer in answers)
            other.execute("ROLLBACK")

        def kept() -> bool:
            return bool(ask_at_once(gateway, "responses", 1, False)[0].json["store"])

        until(kept)
