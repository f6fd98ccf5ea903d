"""A simulator for the endpoints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragoman.lab.simulator.testing import RunningSimulator, running_simulator


@pytest.fixture(scope="session")
def _simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as running:
        yield running


@pytest.fixture
def simulator(_simulator: RunningSimulator) -> RunningSimulator:
    """The simulator, with nothing remembered of other tests."""
    _simulator.app.requests.clear()
    _simulator.app.keys.behaviours.clear()
    _simulator.app.keys.requests.clear()
    return _simulator
