"""One provider and one gateway for each module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.lab.provider import Provider, serving
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from tests.people.signing_in import PEOPLE, House, house


@pytest.fixture(scope="module")
def simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as running:
        yield running


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with serving(PEOPLE) as running:
        yield running


@pytest.fixture(scope="module")
def home(
    simulator: RunningSimulator, provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    store: Path = tmp_path_factory.mktemp("people") / "store.db"
    with house(simulator.base_url, store, provider) as running:
        yield running
