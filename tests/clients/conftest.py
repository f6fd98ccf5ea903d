"""One simulator, and a gateway before it for each kind of upstream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from tests.clients.programs import Api
from tests.clients.stage import UPSTREAMS, Stage, playing


@pytest.fixture(scope="session")
def simulator() -> Iterator[RunningSimulator]:
    """The upstream of all gateways."""
    with running_simulator() as running:
        yield running


@pytest.fixture(scope="session")
def _stages(simulator: RunningSimulator) -> Iterator[dict[Api, Stage]]:
    with ExitStack() as stack:
        yield {kind: stack.enter_context(playing(kind, simulator)) for kind in UPSTREAMS}


@pytest.fixture(params=list(UPSTREAMS))
def stage(_stages: dict[Api, Stage], request: pytest.FixtureRequest) -> Stage:
    """A gateway before an upstream of each kind in turn."""
    played = _stages[request.param]
    played.forget()
    return played
