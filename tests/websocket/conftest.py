"""The gateway and the simulator of the gateway's own tests, and one that dials sockets itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.conftest import _gateway, _simulator, config_for, gateway, simulator, start

__all__ = ["_gateway", "_simulator", "gateway", "simulator", "start"]


@pytest.fixture(scope="session")
def _by_socket(_simulator: RunningSimulator) -> Iterator[RunningGateway]:
    config = config_for(_simulator.base_url)
    upstreams = [
        replace(one, websocket="on") if one.name == "responses" else one for one in config.upstreams
    ]
    with running_gateway(replace(config, upstreams=tuple(upstreams))) as gateway:
        yield gateway


@pytest.fixture
def by_socket(_by_socket: RunningGateway, simulator: RunningSimulator) -> RunningGateway:
    """A gateway that calls its Responses upstream over WebSocket."""
    return _by_socket
