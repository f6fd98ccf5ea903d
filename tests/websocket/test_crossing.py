"""What a client sends while the gateway closes the connection. A peer that has sent a close frame
discards what comes after it (RFC 6455, 1.4), so nobody is told of a single request: the client sees
the code on which it dials again, no event of an answer, and no upstream was asked."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from msgspec.structs import replace
from websockets.exceptions import ConnectionClosedOK

from dragoman.config import Config
from dragoman.config.settings import WebSocket
from dragoman.edge import websockets as edge_websockets
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY
from tests.websocket.client import CLOSE, ENDS, PONG, Closed, Socket, answer_id, frame, opened

IDLE = WebSocket(idle_timeout_s=0.3)
CLIENTS = 32


@pytest.fixture(autouse=True)
def pings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where connections are to be idle it is looked at five times a second."""
    if "drain" not in request.node.name:
        monkeypatch.setattr(edge_websockets, "PING_S", 0.2)


def config(simulator: RunningSimulator, why: str = "idle") -> Config:
    """A gateway that ends connections that are idle, unless it is to be drained."""
    settings = IDLE if why == "idle" else WebSocket()
    return replace(config_for(simulator.base_url), websocket=settings)


def close_came(sock: Socket) -> None:
    """Wait until the gateway has sent its close frame, without answering it."""
    while b"going away" not in sock.http.buffer:
        data = sock.sock.recv(65536)
        assert data, "the connection ended without a close frame"
        sock.http.buffer += data


@pytest.mark.parametrize("why", ["idle", "drain"])
def test_what_crosses_a_close_is_not_carried_out(simulator: RunningSimulator, why: str) -> None:
    """The connection ends with 1001 in the words that have Codex dial again, at once though the
    client has sent more; on another connection the request is answered, once."""
    with running_gateway(config(simulator, why)) as gateway:
        with opened(gateway) as sock:
            if why == "drain":
                gateway.stop()
            close_came(sock)
            sock.create("chat/sim-text", "twice?")
            closed = sock.closed()
            assert (closed.code, closed.reason) == (1001, "going away")
            assert not sock.frames
            with pytest.raises(Closed):
                sock.message(CLOSE)
        assert not simulator.requests
    with running_gateway(config(simulator, why)) as gateway, opened(gateway) as again:
        assert answer_id(again.turn("chat/sim-text", "twice?"))
    assert len(simulator.requests) == 1


@pytest.mark.parametrize("why", ["idle", "drain"])
def test_nothing_is_lost_or_done_twice(simulator: RunningSimulator, why: str) -> None:
    """Clients ask about when their connections end. Each is answered whole, refused in the words
    for that, or closed before any event; and upstream is what was answered, each once."""
    done: Counter[str] = Counter()
    answered: list[str] = []
    lock = threading.Lock()
    gate = threading.Barrier(CLIENTS + 1)
    # A drain ends connections after a second.
    when = (0.2, 0.6) if why == "idle" else (0.7, 1.3)

    def ask(gateway: RunningGateway, number: int) -> None:
        with opened(gateway) as sock:
            gate.wait()
            time.sleep(random.Random(number).uniform(*when))
            events: list[dict[str, Any]] = []
            code = 1001
            try:
                sock.create("chat/sim-text?words=2", f"number {number}")
                while not events or events[-1]["type"] not in ENDS:
                    events.append(sock.event())
            except Closed as closed:
                code = closed.code
            except OSError:
                code = 1006
            assert code in (1001, 1006)
            assert not events or events[-1]["type"] in ENDS, "an answer has an end"
            end: dict[str, Any] = events[-1] if events else {"type": "closed"}
            if end["type"] == "error":
                assert end["error"]["code"] == "websocket_connection_limit_reached"
            with lock:
                done[end["type"]] += 1
                answered.extend([f"number {number}"] if end["type"] == ENDS[0] else [])

    with running_gateway(config(simulator, why)) as gateway, ThreadPoolExecutor(CLIENTS) as threads:
        tasks = [threads.submit(ask, gateway, number) for number in range(CLIENTS)]
        gate.wait()
        if why == "drain":
            gateway.stop()
        for task in tasks:
            task.result()
    upstream = [one.json["messages"][-1]["content"] for one in simulator.requests]
    assert sorted(upstream) == sorted(answered)
    assert sum(done.values()) == CLIENTS


def test_a_message_under_way_is_no_idleness(
    start: Callable[[Config], RunningGateway], simulator: RunningSimulator
) -> None:
    """One that takes its time is heard to its end."""
    with opened(start(config(simulator))) as sock:
        given = {"model": "chat/sim-text", "input": "hi", "store": False}
        whole = json.dumps({"type": "response.create", **given}).encode()
        sock.sock.sendall(frame(whole[:20], first=0))
        for _ in range(10):
            time.sleep(0.1)
            sock.sock.sendall(frame(b"", PONG))
        sock.sock.sendall(frame(whole[20:], 0))
        assert answer_id(sock.events())


def test_openai_python_is_told(
    start: Callable[[Config], RunningGateway], simulator: RunningSimulator
) -> None:
    """By the exception of its library, on which its caller dials again."""
    gateway = start(config(simulator))
    client = openai.OpenAI(base_url=gateway.openai_base_url, api_key=KEY)
    asked: dict[str, Any] = {"model": "chat/sim-text", "input": "hi", "store": False}

    with client, client.responses.connect() as connection:
        with pytest.raises(ConnectionClosedOK) as closed:
            connection.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
        with pytest.raises(ConnectionClosedOK):
            connection.response.create(**asked)
    assert not simulator.requests
    client = openai.OpenAI(base_url=gateway.openai_base_url, api_key=KEY)
    with client, client.responses.connect() as connection:
        connection.response.create(**asked)
        while connection.recv().type != "response.completed":
            pass
    assert len(simulator.requests) == 1
