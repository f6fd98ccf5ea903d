"""A simulator and a gateway over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from dragoman.config import Account, Client, Config, Route, Secret, Server, Timeouts, Upstream
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.http import KEY

PROTOCOLS = {
    "chat": "openai_chat",
    "messages": "anthropic_messages",
    "responses": "openai_responses",
}
SERVER = Server(keepalive_s=5.0, commit_after_s=10.0, shutdown_grace_s=5.0)
TIMEOUTS = Timeouts(connect_s=2.0, first_byte_s=5.0, idle_s=5.0)

Start = Callable[..., RunningGateway]


@pytest.fixture(scope="session")
def _simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as simulator:
        yield simulator


@pytest.fixture
def simulator(_simulator: RunningSimulator) -> RunningSimulator:
    """The simulator, with nothing remembered of other tests."""
    _simulator.app.requests.clear()
    _simulator.app.keys.behaviours.clear()
    _simulator.app.keys.requests.clear()
    return _simulator


def config_for(
    base_url: str,
    *,
    keys: tuple[str, ...] = ("sk-sim-account",),
    timeouts: Timeouts = TIMEOUTS,
    server: Server = SERVER,
    routes: tuple[Route, ...] = (),
    clients: tuple[Client, ...] | None = None,
) -> Config:
    """Three upstreams, `chat`, `messages` and `responses`, each with an account per key."""
    return Config(
        server=server,
        clients=(Client(name="tester", key=Secret(KEY)),) if clients is None else clients,
        upstreams=tuple(
            Upstream(
                name=name,
                protocol=protocol,
                base_url=base_url,
                timeouts=timeouts,
            )
            for name, protocol in PROTOCOLS.items()
        ),
        accounts=tuple(
            Account(name=f"{name}-{number}", upstream=name, key=Secret(key))
            for name in PROTOCOLS
            for number, key in enumerate(keys)
        ),
        routes=routes,
    )


@pytest.fixture(scope="session")
def _gateway(_simulator: RunningSimulator) -> Iterator[RunningGateway]:
    with running_gateway(config_for(_simulator.base_url)) as gateway:
        yield gateway


@pytest.fixture
def gateway(_gateway: RunningGateway, simulator: RunningSimulator) -> RunningGateway:
    """A gateway whose accounts are all good."""
    for account in _gateway.app.config.accounts:
        _gateway.app.pool.enable(account.name)
    return _gateway


@pytest.fixture
def start(simulator: RunningSimulator) -> Iterator[Start]:
    """Starts gateways with settings of their own: `start(keys=..., server=...)`."""
    with ExitStack() as stack:

        def started(
            config: Config | None = None, base_url: str = simulator.base_url, **settings: Any
        ) -> RunningGateway:
            made = config or config_for(base_url, **settings)
            return stack.enter_context(running_gateway(made))

        yield started
