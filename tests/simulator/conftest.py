"""One simulator and one client of each SDK for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import openai
import pytest

from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from tests.simulator.requests import KEY


@pytest.fixture(scope="session")
def shared_simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as simulator:
        yield simulator


@pytest.fixture
def simulator(shared_simulator: RunningSimulator) -> RunningSimulator:
    """The shared simulator with nothing recorded and no scenario or key of another test."""
    fresh = type(shared_simulator.app)()
    shared_simulator.app.clear()
    shared_simulator.app.scenarios.clear()
    shared_simulator.app.scenarios.update(fresh.scenarios)
    shared_simulator.app.keys.behaviours.clear()
    return shared_simulator


@pytest.fixture(scope="session")
def openai_client(shared_simulator: RunningSimulator) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=shared_simulator.openai_base_url, api_key=KEY, max_retries=0
    ) as client:
        yield client


@pytest.fixture(scope="session")
def anthropic_client(shared_simulator: RunningSimulator) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=shared_simulator.base_url, api_key=KEY, max_retries=0
    ) as client:
        yield client
