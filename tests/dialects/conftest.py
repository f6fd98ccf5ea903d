"""Gateways of one dialect, over a simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dragoman.config import read_config
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.memory.conftest import KEY, UPSTREAM, UPSTREAMS

Start = Callable[..., RunningGateway]


@pytest.fixture(scope="module")
def simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as running:
        yield running


@pytest.fixture
def start(simulator: RunningSimulator, tmp_path: Path) -> Iterator[Start]:
    """Starts a gateway whose routes, or whose only client, speak a dialect."""
    with ExitStack() as stack:

        def one(dialect: str, by: str = "route", server: str = "") -> RunningGateway:
            text = f'{server}\n[storage]\npath = "s.db"\n[[clients]]\nname = "me"\nkey = "{KEY}"\n'
            if by == "client":
                text += f'dialect = "{dialect}"\n'
            for name, protocol in UPSTREAMS.items():
                text += UPSTREAM.format(name=name, protocol=protocol, base_url=simulator.base_url)
            for name in UPSTREAMS if by == "route" else ():
                # The simulator's model names hold what it is to do.
                text += f'[[routes]]\nmatch = "{name}/*"\nupstream = "{name}"\n'
                text += f'dialect = "{dialect}"\n'
            file = tmp_path / "dragoman.toml"
            file.write_text(text)
            return stack.enter_context(running_gateway(read_config(file)))

        yield one
