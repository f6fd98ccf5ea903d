"""An upstream, and a gateway over it with as many accounts as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from dragoman.config import Config, Server, Timeouts
from dragoman.server.testing import RunningGateway, running_gateway
from tests.faults.upstream import Upstream, running_upstream
from tests.gateway.conftest import config_for

Over = Callable[..., RunningGateway]

SERVER = Server(keepalive_s=5.0, commit_after_s=10.0, shutdown_grace_s=1.0)
TIMEOUTS = Timeouts(connect_s=2.0, first_byte_s=2.0, idle_s=2.0)


@pytest.fixture(scope="session")
def _upstream() -> Iterator[Upstream]:
    with running_upstream() as upstream:
        yield upstream


@pytest.fixture
def upstream(_upstream: Upstream) -> Upstream:
    """The upstream, with nothing remembered of other tests."""
    _upstream.behaviours.clear()
    _upstream.calls.clear()
    return _upstream


@pytest.fixture(scope="module")
def over(_upstream: Upstream) -> Iterator[Over]:
    """Starts gateways over the upstream, which run while the module does:
    `over("key-1", "key-2")`."""
    with gateways_over(_upstream) as start:
        yield start


@contextmanager
def gateways_over(upstream: Upstream) -> Iterator[Over]:
    """What starts gateways over the upstream, which run while the context lasts."""
    with ExitStack() as stack:

        def start(*keys: str, config: Config | None = None, **settings: Any) -> RunningGateway:
            wanted = {"server": SERVER, "timeouts": TIMEOUTS, "keys": keys, **settings}
            made = config or config_for(upstream.url, **wanted)
            return stack.enter_context(running_gateway(made))

        yield start


def rested(gateway: RunningGateway) -> None:
    """Forget what is held against the accounts."""
    for account in gateway.app.config.accounts:
        gateway.app.pool.enable(account.name)


def leased(gateway: RunningGateway) -> int:
    """Leases that were not given back."""
    return sum(gateway.app.pool.in_flight(account.name) for account in gateway.app.config.accounts)
