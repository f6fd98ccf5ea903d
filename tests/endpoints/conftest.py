"""A simulator for the endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from tests.endpoints.bound import Gateways, gateways
from tests.storage.cluster import running_cluster


@pytest.fixture(scope="session")
def _simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as running:
        yield running


@pytest.fixture
def simulator(_simulator: RunningSimulator) -> RunningSimulator:
    """The simulator, with nothing remembered of other tests, and with nothing of theirs."""
    app = _simulator.app
    app.clear()
    app.keys.behaviours.clear()
    app.holdings.held.clear()
    app.holdings.used.clear()
    app.holdings.polls, app.holdings.ending = 1, "completed"
    app.google.uploads.clear()
    return _simulator


@pytest.fixture
def service(simulator: RunningSimulator) -> RunningSimulator:
    """The service that has the things of accounts."""
    return simulator


@pytest.fixture
def opened(service: RunningSimulator, tmp_path: Path) -> Iterator[Gateways]:
    """Gateways of that service over one store."""
    with gateways(service, tmp_path, "") as made:
        yield made


_NUMBERS = count()


@pytest.fixture(scope="session")
def _database() -> Iterator[str]:
    with running_cluster() as cluster:
        yield cluster.url


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, empty for a file: a test runs with each."""
    if request.param == "sqlite":
        return ""
    base: str = request.getfixturevalue("_database")
    name = f"bound_{next(_NUMBERS)}"
    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[arg-type, unused-ignore]
    return f"{base}&options=-csearch_path%3D{name}"
