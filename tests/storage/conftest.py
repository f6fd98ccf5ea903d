"""Stores of every kind: what `test_store.py` holds, each of them must."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from dragoman.accounts.store import Store
from dragoman.storage.postgres.store import PostgresStore
from dragoman.storage.retention import Retention
from dragoman.storage.sqlite import SqliteStore
from tests.storage.cluster import Cluster, running_cluster

RETENTION = Retention(days=100, history_days=10, pins_s=600)

Opened = Callable[[], Store]
"""Opens one more handle on the same store, as another worker would."""


class Clock:
    """Unix time that only a test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The time for all stores of a test."""
    return Clock()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One PostgreSQL for all tests."""
    with running_cluster() as one:
        yield one


_NUMBERS = count()


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each database that a store can be in."""
    return str(request.param)


@pytest.fixture
def url(cluster: Cluster) -> str:
    """An empty schema of the database."""
    name = f"empty_{next(_NUMBERS)}"
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(name)))
    return f"{cluster.url}&options=-csearch_path%3D{name}"


@pytest.fixture
def opened(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path, clock: Clock
) -> Iterator[Opened]:
    """Opens handles on one store; they are closed when the test ends."""
    handles: list[Store] = []

    def sqlite() -> Store:
        return SqliteStore(tmp_path / "store.db", retention=RETENTION, clock=clock)

    def postgres() -> Store:
        return PostgresStore(place, retention=RETENTION, clock=clock)

    place = request.getfixturevalue("url") if kind == "postgres" else ""
    kinds: dict[str, Opened] = {"sqlite": sqlite, "postgres": postgres}

    def one_more() -> Store:
        handles.append(kinds[kind]())
        return handles[-1]

    yield one_more
    for handle in handles:
        handle.close()


@pytest.fixture
def store(opened: Opened) -> Store:
    """One handle on an empty store."""
    return opened()
