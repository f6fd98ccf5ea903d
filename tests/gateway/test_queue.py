"""Clients that wait for an account: they are served in the end, told when, or leave; and what they
wait for may be in flight in another process."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.states import Decision, Failed, Transition
from dragoman.accounts.pool import LeaseRequest
from dragoman.accounts.store import Batch
from dragoman.config import Account, Config, Secret
from dragoman.failing import Verdict
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.storage.encryption import AesGcmCipher
from dragoman.storage.sqlite import SqliteStore
from tests.gateway.clients import APIS, PATHS, body, completed, error_of
from tests.gateway.conftest import config_for
from tests.gateway.http import AUTH, Connection, call
from tests.gateway.processes import (
    STORE,
    STORE_KEY,
    SYNC_S,
    connection_of_each,
    gateway_process,
    until,
)

SLOW = "chat/sim-text?head_ms=60&delay_ms=5&chunks=5"
SLOWER = "chat/sim-text?head_ms=800"


def capped(base_url: str, keys: tuple[str, ...], most: int, **upstream: Any) -> Config:
    """Accounts that serve `most` requests at once."""
    config = config_for(base_url, keys=keys)
    return replace(
        config,
        accounts=tuple(replace(one, max_concurrent=most) for one in config.accounts),
        upstreams=tuple(replace(one, **upstream) for one in config.upstreams),
    )


def nothing_is_left(gateway: RunningGateway) -> bool:
    pool = gateway.app.pool
    leased = sum(pool.in_flight(account.name) for account in pool.accounts())
    return not leased and not any(pool.waiting(name) for name in APIS)


@pytest.mark.parametrize("stream", [False, True])
def test_clients_that_leave_the_queue_take_nothing_with_them(
    simulator: RunningSimulator, stream: bool
) -> None:
    """Most leave, some of them while they are served; all others are served. req: 130"""
    config = capped(simulator.base_url, ("sk-sim-a", "sk-sim-b"), 2, queue_s=60.0, queue_size=1000)
    count, chance = 100, random.Random(stream)
    with running_gateway(config) as gateway, ExitStack() as stack:
        clients = []
        for number in range(count):
            api = APIS[number % 3]
            connection = stack.enter_context(Connection(gateway.base_url))
            connection.send("POST", PATHS[api], body(api, SLOW, stream=stream), AUTH)
            clients.append((api, connection))
        until(lambda: gateway.app.pool.waiting("chat") > count // 2)
        chance.shuffle(clients)
        for _, connection in clients[: count * 3 // 4]:
            connection.sock.close()
        for api, connection in clients[count * 3 // 4 :]:
            answer = connection.answer()
            assert answer.status == 200
            assert not stream or completed(api, answer.body)
        until(lambda: nothing_is_left(gateway))
        # Those who left while they waited were sent nowhere.
        assert simulator.app.keys.requests.total() < count * 3 // 4


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_a_queue_that_is_full_says_so(simulator: RunningSimulator, api: str, stream: bool) -> None:
    """One is served, one waits, one is refused, and who waited for too long is, too."""
    config = capped(simulator.base_url, ("sk-sim-a",), 1, queue_s=0.2, queue_size=1)
    with running_gateway(config) as gateway, ExitStack() as stack:
        connections = [stack.enter_context(Connection(gateway.base_url)) for _ in range(3)]
        pool = gateway.app.pool
        asked = body(api, SLOWER, stream=stream)
        connections[0].send("POST", PATHS[api], asked, AUTH)
        until(lambda: pool.in_flight("chat-0") == 1)
        connections[1].send("POST", PATHS[api], asked, AUTH)
        until(lambda: pool.waiting("chat") == 1)
        connections[2].send("POST", PATHS[api], asked, AUTH)
        for connection in reversed(connections[1:]):
            answer = connection.answer()
            assert answer.status == (529 if api == "messages" else 503)
            assert int(answer.headers["retry-after"]) >= 1
            assert "busy: 1" in error_of(api, answer)["message"]
        assert connections[0].answer().status == 200
        assert nothing_is_left(gateway)


def test_nobody_waits_for_another_account_once_the_time_for_attempts_is_over(
    simulator: RunningSimulator,
) -> None:
    """One account fails, the other is busy for longer. req: 138"""
    config = capped(
        simulator.base_url, ("sk-sim-a", "sk-sim-500"), 1, queue_s=60.0, attempts_within_s=1.0
    )
    with running_gateway(config) as gateway:
        pool = gateway.app.pool
        with asyncio.run(pool.acquire(LeaseRequest("chat"), ["chat-1"])):
            asked = body("chat", "chat/sim-text")
            answer = call(gateway.base_url, "POST", PATHS["chat"], asked)
            assert answer.status == 502
            assert pool.in_flight("chat-0") == 1


def test_an_account_that_is_removed_ends_its_requests_as_usual(
    simulator: RunningSimulator,
) -> None:
    config = capped(simulator.base_url, ("sk-sim-a", "sk-sim-b"), 1)
    with running_gateway(config) as gateway, ExitStack() as stack:
        pool = gateway.app.pool
        connections = [stack.enter_context(Connection(gateway.base_url)) for _ in range(4)]
        for connection in connections:
            connection.send("POST", PATHS["chat"], body("chat", SLOW, stream=True), AUTH)
        until(lambda: pool.waiting("chat") == 2)
        assert pool._loop is not None
        pool._loop.call_soon_threadsafe(pool.withdraw, ["chat-0"])
        for connection in connections:
            assert completed("chat", connection.answer().body)
        until(lambda: nothing_is_left(gateway))
        assert pool.in_flight("chat-0") == 0


@pytest.mark.parametrize("way", ["cap", "trial"])
def test_what_is_in_flight_in_another_process_counts(
    tmp_path: Path, simulator: RunningSimulator, way: str
) -> None:
    """The only account serves one at a time: as it may not serve more, or as it is to show first
    that it has quota again. The other worker's request waits for that of the first."""
    most = 1 if way == "cap" else None
    account = Account(name="a", upstream="chat", key=Secret("sk-sim-a"), max_concurrent=most)
    with closing(SqliteStore(tmp_path / STORE)) as store:
        store.define([AesGcmCipher(Secret(STORE_KEY)).seal(account)])
        if way == "trial":
            spent = Failed(Decision(Verdict.EXHAUST, "spent", rest=60.0))
            store.apply([Transition("a", spent, time.time() - 1000.0)])
        with (
            gateway_process(tmp_path, simulator.base_url, {}, workers=2) as gateway,
            connection_of_each(gateway) as connections,
        ):
            slow = body("chat", "chat/sim-text?head_ms=1500")
            connections[0].send("POST", PATHS["chat"], slow, AUTH)
            until(lambda: dict(store.exchange("test", Batch(), 0).leases) == {"a": 1})
            # As long as the other may take to learn of it.
            time.sleep(4 * SYNC_S)
            connections[1].send("POST", PATHS["chat"], slow, AUTH)
            until(lambda: len(simulator.requests) == 2)
            assert simulator.requests[0].finished
            for connection in connections:
                assert connection.answer().status == 200
            until(lambda: not store.exchange("test", Batch(), 0).leases)
