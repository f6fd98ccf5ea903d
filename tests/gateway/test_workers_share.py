"""Processes that share a store: what they tell one another, and what is left when they die."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dragoman.accounts.decide.states import Disabled, Enabled, Transition
from dragoman.accounts.store import Batch, UsageCount
from dragoman.config import Account, Secret
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.storage.encryption import AesGcmCipher
from dragoman.storage.sqlite import SqliteStore
from tests.gateway.http import AUTH, Connection, call
from tests.gateway.processes import (
    ASKED,
    STORE_KEY,
    SYNC_S,
    GatewayProcess,
    ask,
    connection_of_each,
    gateway_process,
    until,
)

BAD, GOOD = "sk-sim-one", "sk-sim-two"
KEYS = {"bad": BAD, "good": GOOD}


def refuse_once(simulator: RunningSimulator, key: str) -> None:
    """The next request with `key`, and no other, is told that the key is refused: what follows is
    only known to whoever sent that request."""
    fault = Fault("error", failure=Failure(status=401), times=1)
    healthy = simulator.app.keys.requests[key]
    simulator.app.keys.behaviours[key] = KeyBehaviour(fault, healthy=healthy)


def uses(simulator: RunningSimulator, key: str = BAD) -> int:
    return simulator.app.keys.requests[key]


def ask_all(connections: list[Connection], seconds: float) -> None:
    """Ask every worker in turn, for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for connection in connections:
            assert ask(connection).status == 200
        time.sleep(0.01)


def until_unused(
    simulator: RunningSimulator, connections: list[Connection], key: str = BAD
) -> None:
    """Wait until no worker uses `key` any more: none in three requests, of which an account would
    have had one in two. From then on none may."""

    def is_unused() -> bool:
        used = uses(simulator, key)
        for connection in connections * 3:
            assert ask(connection).status == 200
        return uses(simulator, key) == used

    until(is_unused, 20.0)
    used = uses(simulator, key)
    ask_all(connections, 0.5)
    assert uses(simulator, key) == used


def total(path: Path) -> UsageCount:
    """All usage that is in a store."""
    sums = UsageCount()
    with closing(SqliteStore(path)) as store:
        for count in store.usage(0, time.time() + 1).values():
            sums.add(count)
    return sums


def is_whole(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as other:
        return other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_disable_is_obeyed_by_all_workers(tmp_path: Path, simulator: RunningSimulator) -> None:
    """Only one of four has seen it. So is what an operator does."""
    with (
        gateway_process(tmp_path, simulator.base_url, KEYS, workers=4) as gateway,
        connection_of_each(gateway) as connections,
    ):
        before = uses(simulator)
        ask_all(connections, 0.3)
        assert uses(simulator) > before
        refuse_once(simulator, BAD)
        seen = uses(simulator)
        while uses(simulator) == seen:
            assert ask(connections[0]).status == 200
        until_unused(simulator, connections)
        with closing(SqliteStore(gateway.store)) as store:
            assert store.states()["bad"].disabled
            assert [entry.status for entry in store.history("bad")] == [401]
            store.apply([Transition("bad", Enabled(), time.time())])
        for connection in connections:
            used = uses(simulator)

            def comes_back(used: int = used, connection: Connection = connection) -> bool:
                return ask(connection).status == 200 and uses(simulator) > used

            until(comes_back)


def test_two_gateways_share_a_store(tmp_path: Path, simulator: RunningSimulator) -> None:
    base_url = simulator.base_url
    with (
        gateway_process(tmp_path, base_url, KEYS, name="one") as one,
        gateway_process(tmp_path, base_url, KEYS, name="two") as two,
        Connection(one.url) as first,
        Connection(two.url) as second,
    ):
        refuse_once(simulator, BAD)
        seen = uses(simulator)
        while uses(simulator) == seen:
            assert ask(first).status == 200
        until_unused(simulator, [first, second])


def test_accounts_of_the_store_reach_running_workers(
    tmp_path: Path, simulator: RunningSimulator
) -> None:
    """They are added, serve, and are removed, while the gateway runs; their keys are in no file."""
    secret = "sk-sim-three"
    added = Account(name="added", upstream="chat", key=Secret(secret))
    with (
        gateway_process(tmp_path, simulator.base_url, KEYS, workers=2) as gateway,
        connection_of_each(gateway) as connections,
    ):
        with closing(SqliteStore(gateway.store)) as store:
            store.define([AesGcmCipher(Secret(STORE_KEY)).seal(added)])
        for connection in connections:
            used = uses(simulator, secret)

            def served(used: int = used, connection: Connection = connection) -> bool:
                return ask(connection).status == 200 and uses(simulator, secret) > used

            until(served)
        for file in filter(Path.is_file, tmp_path.rglob("*")):
            assert secret.encode() not in file.read_bytes()
        with closing(SqliteStore(gateway.store)) as store:
            store.remove(["added"])
        until_unused(simulator, connections, secret)
    assert secret not in gateway.log


def test_what_is_known_survives_a_restart(tmp_path: Path, simulator: RunningSimulator) -> None:
    """And nothing is lost on a clean stop."""
    asked = 0
    with gateway_process(tmp_path, simulator.base_url, KEYS) as gateway:
        refuse_once(simulator, BAD)
        with Connection(gateway.url) as connection:
            for _ in range(6):
                assert ask(connection).status == 200
                asked += 1
        gateway.stop()
    used = uses(simulator)
    assert total(gateway.store).requests == asked
    with gateway_process(tmp_path, simulator.base_url, KEYS) as gateway:
        with Connection(gateway.url) as connection:
            for _ in range(6):
                assert ask(connection).status == 200
                asked += 1
        gateway.stop()
    assert uses(simulator) == used
    sums = total(gateway.store)
    assert (sums.requests, sums.errors) == (asked, 0)
    assert sums.input > 0
    assert sums.output > 0
    with closing(SqliteStore(gateway.store)) as store:
        (entry,) = store.history("bad")
        assert (entry.change, entry.status) == ("disabled", 401)
    assert is_whole(gateway.store)


def test_a_store_that_is_removed_stops_nothing(tmp_path: Path, simulator: RunningSimulator) -> None:
    """It is made again, and told what happens from then on."""
    with (
        gateway_process(tmp_path, simulator.base_url, KEYS, workers=2) as gateway,
        connection_of_each(gateway) as connections,
    ):
        ask_all(connections, 0.2)
        for file in tmp_path.glob(f"{gateway.store.name}*"):
            file.unlink()
        ask_all(connections, 0.5)
        until(gateway.store.exists)
        refuse_once(simulator, BAD)
        seen = uses(simulator)
        while uses(simulator) == seen:
            assert ask(connections[0]).status == 200
        until_unused(simulator, connections)
        gateway.stop()
    assert total(gateway.store).requests > 0
    assert 1 <= gateway.log.count("the file was removed or replaced") <= 2
    assert 1 <= gateway.log.count("the store can be used again") <= 2
    assert "Traceback" not in gateway.log


class Load:
    """Requests in a few threads until it is stopped. `answered` is when each was."""

    def __init__(self, url: str, threads: int = 3) -> None:
        self.url = url
        self.answered: list[float] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(threads)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        while not self._over.is_set():
            try:
                if call(self.url, "POST", "/v1/chat/completions", ASKED).status == 200:
                    self.answered.append(time.monotonic())
            except OSError:
                # A worker was killed with this connection.
                time.sleep(0.01)


def no_leases(path: Path) -> bool:
    with closing(SqliteStore(path)) as store:
        return not store.exchange("test", Batch(), 0).leases


def test_killed_workers_lose_no_more_than_is_said(
    tmp_path: Path, simulator: RunningSimulator
) -> None:
    """Each loses what it had not told: what was answered just before. Their leases vanish."""
    untold = kills = 0
    with gateway_process(tmp_path, simulator.base_url, KEYS, workers=3) as gateway:
        with Load(gateway.url) as load:
            for turn in range(4):
                time.sleep(1.2)
                told = total(gateway.store).requests
                os.kill(gateway.workers()[0], signal.SIGKILL)
                # What those that were killed before have lost is in it.
                untold = max(0, len(load.answered) - told)
                kills += 1
                until(lambda: len(gateway.workers()) == 3)
                with closing(SqliteStore(gateway.store)) as store:
                    outcome = Disabled("by me") if turn % 2 == 0 else Enabled()
                    store.apply([Transition("bad", outcome, time.time())])
            time.sleep(1.2)
        until(lambda: no_leases(gateway.store))
        assert is_whole(gateway.store)
        gateway.stop()
    counted, answered = total(gateway.store).requests, len(load.answered)
    # Requests that a kill cut short may have been counted and not answered, or the other way.
    assert answered - untold - 3 * kills <= counted <= answered + 3 * kills
    assert untold < answered
    assert "Traceback" not in gateway.log


def test_a_gateway_that_was_killed_whole_starts_again(
    tmp_path: Path, simulator: RunningSimulator
) -> None:
    rolls = random.Random(7)
    refuse_once(simulator, BAD)
    for _ in range(3):
        running = gateway_process(tmp_path, simulator.base_url, KEYS, workers=2)
        with running as gateway, Load(gateway.url):
            time.sleep(0.5 + 0.3 * rolls.random())
            gateway.kill_all()
        assert is_whole(gateway.store)
        with closing(SqliteStore(gateway.store)) as store:
            assert store.states()["bad"].disabled
    used = uses(simulator)
    with gateway_process(tmp_path, simulator.base_url, KEYS, workers=2) as gateway:
        for _ in range(8):
            assert call(gateway.url, "POST", "/v1/chat/completions", ASKED).status == 200
        # What those that were killed had in flight is forgotten, too.
        until(lambda: no_leases(gateway.store))
    assert uses(simulator) == used


def refused_start(folder: Path, gateway: GatewayProcess, key: str | None) -> str:
    """Start with another key for the store; returns what is said about it."""
    env = {name: value for name, value in os.environ.items() if name != "STORE_KEY"}
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "serve", "--config", str(folder / "one.toml")],
        env=env if key is None else {**env, "STORE_KEY": key},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("damage", ["another key", "no database"])
def test_a_store_that_cannot_be_used_is_told_at_the_start(
    tmp_path: Path, simulator: RunningSimulator, damage: str
) -> None:
    """Loudly, and before anything is served."""
    secret = "sk-sim-hidden"
    with gateway_process(tmp_path, simulator.base_url, KEYS) as gateway:
        gateway.stop()
    with closing(SqliteStore(gateway.store)) as store:
        kept = Account(name="kept", upstream="chat", key=Secret(secret))
        store.define([AesGcmCipher(Secret(STORE_KEY)).seal(kept)])
    if damage == "another key":
        told = refused_start(tmp_path, gateway, "another horse entirely")
        assert "encrypted with another [storage] key" in told
        assert "horse" not in told
        assert secret not in told
    else:
        gateway.store.write_bytes(b"this was a database" * 500)
        assert "is not a database" in refused_start(tmp_path, gateway, STORE_KEY)


def test_a_conversation_stays_with_its_account_whichever_worker_it_comes_to(
    tmp_path: Path, simulator: RunningSimulator
) -> None:
    """By its session, and by its beginning."""
    keys = {f"a{number}": f"sk-sim-a{number}" for number in range(8)}
    with (
        gateway_process(tmp_path, simulator.base_url, keys, workers=3) as gateway,
        connection_of_each(gateway) as connections,
    ):
        for turn in range(4):
            for headers in ({"x-session-id": f"s-{turn}"}, {}):
                text = f"How is {turn} by {'session' if headers else 'its beginning'}?"
                said = [("user", text), ("assistant", "Well."), ("user", "Why?")]
                messages = [{"role": role, "content": content} for role, content in said]
                asked = {"model": "chat/sim-text", "messages": messages}

                def accounts(
                    sent: dict[str, Any] = asked, own: dict[str, str] = headers
                ) -> set[str]:
                    used = set()
                    for connection in connections:
                        connection.send("POST", "/v1/chat/completions", sent, {**AUTH, **own})
                        assert connection.answer().status == 200
                        used.add(str(simulator.last.key))
                        time.sleep(2 * SYNC_S)
                    return used

                def is_with_one(ask_each: Callable[[], set[str]] = accounts) -> bool:
                    return len(ask_each()) == 1

                # The first ones may come before the workers have told one another.
                until(is_with_one, 20.0)
                assert len(accounts() | accounts()) == 1
