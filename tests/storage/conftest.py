"""Stores of every kind: what `test_store.py` holds, each of them must."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.accounts.store import Store
from dragoman.storage.sqlite import SqliteStore

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


@pytest.fixture(params=["sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Opened]:
    """Opens handles on one store; they are closed when the test ends."""
    handles: list[Store] = []

    def sqlite() -> Store:
        return SqliteStore(
            tmp_path / "store.db", history_days=10, usage_days=100, pins_s=600, clock=clock
        )

    kinds: dict[str, Opened] = {"sqlite": sqlite}

    def one_more() -> Store:
        handles.append(kinds[request.param]())
        return handles[-1]

    yield one_more
    for handle in handles:
        handle.close()


@pytest.fixture
def store(opened: Opened) -> Store:
    """One handle on an empty store."""
    return opened()
