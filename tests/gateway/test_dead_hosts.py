"""Hosts that cannot be reached, over sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from msgspec.structs import replace

from dragoman.config import Config, Fallback, Route, Timeouts
from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.clients import PATHS, body, completed, error_of, text_of
from tests.gateway.conftest import SERVER, Start, config_for
from tests.gateway.http import call

KEYS = tuple(f"sk-sim-org-{number}" for number in range(12))
CONNECT_S = 0.5
"""Of hosts to which connecting lasts for ever."""
CELLS = [
    ("chat", "messages", False),
    ("messages", "responses", True),
    ("responses", "chat", False),
]


class DeadHost:
    """A port that takes connections and never speaks TLS; `dials` counts them."""

    def __init__(self, *, hangs: bool) -> None:
        self.hangs = hangs
        self.dials = 0
        self._held: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                taken, _ = self._listener.accept()
            except OSError:
                return
            self.dials += 1
            if self.hangs:
                self._held.append(taken)
            else:
                taken.close()

    def dialled(self, times: int) -> int:
        """How often it was dialled, once those that are expected have been taken."""
        until = time.monotonic() + 10
        while self.dials < times and time.monotonic() < until:
            time.sleep(0.01)
        return self.dials

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for taken in self._held:
            taken.close()


@contextmanager
def dead_host(*, hangs: bool) -> Iterator[DeadHost]:
    host = DeadHost(hangs=hangs)
    try:
        yield host
    finally:
        host.close()


def over(base_url: str, *, connect_s: float = 10.0) -> Config:
    timeouts = Timeouts(connect_s=connect_s, first_byte_s=10.0)
    return config_for(base_url, keys=KEYS, timeouts=timeouts, server=SERVER)


@pytest.mark.parametrize(("client", "upstream", "stream"), CELLS)
@pytest.mark.parametrize(("hangs", "dials"), [(True, 1), (False, 2)])
def test_a_dead_host_is_not_dialled_for_each_account(
    start: Start, client: str, upstream: str, stream: bool, hangs: bool, dials: int
) -> None:
    with dead_host(hangs=hangs) as host:
        gateway = start(over(host.url, connect_s=CONNECT_S if hangs else 10.0))
        for asked in range(2):
            made = body(client, f"{upstream}/m", stream=stream)
            answer = call(gateway.base_url, "POST", PATHS[client], made)
            assert answer.status >= 500
            assert "Its host cannot be reached" in str(error_of(client, answer))
            # Once it is known to be dead one look is enough.
            assert host.dialled(dials + asked) == dials + asked
        assert not any(
            gateway.app.pool.state(f"{upstream}-{number}").cooling for number in range(len(KEYS))
        )


@pytest.mark.parametrize("stream", [False, True])
def test_a_refused_connection_is_not_tried_ten_times(start: Start, stream: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    gateway = start(over(f"http://127.0.0.1:{port}"))
    answer = call(gateway.base_url, "POST", PATHS["chat"], body("chat", "chat/m", stream=stream))
    assert answer.status == 502
    used = [name for name, lease in gateway.app.pool.take_batch().used.items() if lease]
    assert len(used) == 2


def with_fallback(simulator: RunningSimulator, dead: str) -> Config:
    route = Route(
        match="m",
        upstream="chat",
        model="sim-text",
        fallbacks=(Fallback(upstream="messages", model="sim-text"),),
    )
    config = over(simulator.base_url)
    short = replace(config.upstreams[0].timeouts, connect_s=CONNECT_S)
    upstreams = tuple(
        replace(one, base_url=dead, timeouts=short) if one.name == "chat" else one
        for one in config.upstreams
    )
    return replace(config, upstreams=upstreams, routes=(route,))


@pytest.mark.parametrize(
    ("client", "stream"), [("chat", False), ("messages", True), ("responses", True)]
)
def test_the_fallback_goes_first_while_a_host_is_dead(
    start: Start, simulator: RunningSimulator, client: str, stream: bool
) -> None:
    with dead_host(hangs=True) as host:
        gateway = start(with_fallback(simulator, host.url))

        def ask() -> None:
            made = body(client, "m", stream=stream)
            answer = call(gateway.base_url, "POST", PATHS[client], made)
            assert answer.status == 200
            assert answer.headers["x-dragoman-upstream"] == "messages"
            assert completed(client, answer.body) if stream else text_of(client, answer)

        ask()
        assert host.dialled(1) == 1
        for _ in range(3):
            ask()
        assert host.dials == 1
        time.sleep(1.3)  # its first rest is over: one of these is the trial
        for _ in range(3):
            ask()
        assert host.dialled(2) == 2


def test_the_defaults_fit_together() -> None:
    upstream = config_for("http://127.0.0.1:1").upstreams[0]
    default = replace(upstream, timeouts=Timeouts())
    assert 2 * default.timeouts.first_byte_s <= default.attempts_within_s
    # The first call is not ended for the others: its own limits leave time for them.
    assert default.timeouts.longest_silence_s < default.attempts_within_s
