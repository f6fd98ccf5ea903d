"""A simulator for the endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from tests.storage.cluster import running_cluster


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
