"""Probes of accounts that are out, over real sockets."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.states import Decision, Disabled, Failed, Transition
from dragoman.config import Config, Probe, Storage
from dragoman.failing import Verdict
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.link.messages import Handlers
from dragoman.observability.metrics.scrape import WorkerSlot
from dragoman.processes.table import WorkerTable
from dragoman.server.app import Gateway
from dragoman.server.common import Common
from dragoman.storage.sqlite import SqliteStore
from tests.gateway.conftest import config_for

KEYS = tuple(f"sk-sim-probed-{number}" for number in range(6))


def probing(simulator: RunningSimulator, path: Path) -> Config:
    """`chat` with six accounts and a probe about every second."""
    config = config_for(simulator.base_url, keys=KEYS)
    upstreams = tuple(
        replace(one, probe=Probe(model="sim-text", every_s=1.0)) if one.name == "chat" else one
        for one in config.upstreams
    )
    return replace(config, upstreams=upstreams, storage=Storage(path=str(path), sync_s=0.05))


def exhaust(app: Gateway) -> None:
    decision = Decision(Verdict.EXHAUST, "out of quota", rest=3600.0)
    for number in range(len(KEYS)):
        app.pool.observe(Transition(f"chat-{number}", Failed(decision), time.time()))


def active(app: Gateway) -> int:
    names = [f"chat-{number}" for number in range(len(KEYS))]
    return sum(app.pool.state(name).exhausted is None for name in names)


async def until(check: Callable[[], bool]) -> None:
    for _ in range(1000):
        if check():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it never came true")


async def test_of_two_workers_each_probes_accounts_of_its_own(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    config, table = probing(simulator, tmp_path / "store.db"), WorkerTable(2)
    common = Common(config)
    workers = [
        Gateway(
            config,
            None,
            WorkerSlot(number, 2, table),
            link=common.owner.join(Handlers(), number),
        )
        for number in range(2)
    ]
    for worker in workers:
        await worker.start()
    try:
        exhaust(workers[0])
        await until(lambda: active(workers[1]) == 0)
        await until(lambda: active(workers[0]) == active(workers[1]) == len(KEYS))
    finally:
        for worker in workers:
            await worker.close()
    asked = Counter(request.key for request in simulator.requests)
    assert asked == Counter(KEYS)
    counts = [common.board.of(number) for number in range(2)]
    probes = [found.probes.get("chat passed", 0) for found in counts if found is not None]
    assert sum(probes) == len(KEYS)
    assert 0 < probes[0] < len(KEYS)


async def test_what_another_instance_probes_is_left_to_it(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    config = probing(simulator, tmp_path / "store.db")
    app = Gateway(config, None)
    await app.start()
    try:
        with closing(SqliteStore(tmp_path / "store.db")) as other:
            now = time.time()
            assert other.claim({"probe chat-0": now + 600}, now)
            exhaust(app)
            await until(lambda: active(app) == len(KEYS) - 1)
            await asyncio.sleep(1.6)  # its time has come again
            assert active(app) == len(KEYS) - 1
            other.release(["probe chat-0"])
            await until(lambda: active(app) == len(KEYS))
    finally:
        await app.close()


async def test_probes_under_way_end_with_the_gateway(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    for key in KEYS:
        simulator.app.keys.behaviours[key] = KeyBehaviour(Fault("silence", ms=60_000))
    app = Gateway(probing(simulator, tmp_path / "store.db"), None)
    await app.start()
    exhaust(app)
    await until(lambda: len(simulator.requests) == len(KEYS))
    assert [app.pool.in_flight(f"chat-{number}") for number in range(len(KEYS))] == [1] * len(KEYS)
    async with asyncio.timeout(30):
        await app.close()
    assert not any(app.pool.in_flight(f"chat-{number}") for number in range(len(KEYS)))
    simulator.wait_for(lambda: all(request.disconnected for request in simulator.requests))


async def test_only_what_is_out_by_itself_is_probed(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    app = Gateway(probing(simulator, tmp_path / "store.db"), None)
    await app.start()
    try:
        exhaust(app)
        for name in ("chat-0", "chat-1"):
            app.pool.observe(Transition(name, Disabled("by hand"), time.time()))
        refused = Failed(Decision(Verdict.DISABLE, "the upstream refused its key"), status=401)
        app.pool.observe(Transition("chat-2", refused, time.time()))
        await until(lambda: active(app) == 3)
        await asyncio.sleep(1.5)
    finally:
        await app.close()
    assert {request.key for request in simulator.requests} == set(KEYS[3:])
    assert app.pool.state("chat-0").disabled == "by hand"
