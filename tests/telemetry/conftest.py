"""A collector, and gateways that send it their traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Config, Traces
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.observability.traces import exporting
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.conftest import _simulator, config_for, simulator
from tests.telemetry.collector import Collector, collecting

__all__ = ["_simulator", "simulator"]

Trace = Callable[..., RunningGateway]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
        monkeypatch.setattr(exporting, "_EVERY_S", 0.02)
        yield collector


@pytest.fixture
def trace(simulator: RunningSimulator, collector: Collector) -> Iterator[Trace]:
    """Starts gateways that trace: `trace(sample=1.0, keys=(...), change=lambda config: ...)`."""
    with ExitStack() as stack:

        def start(
            change: Callable[[Config], Config] = lambda config: config,
            keys: tuple[str, ...] = ("sk-sim-account",),
            **settings: Any,
        ) -> RunningGateway:
            traces = Traces(enabled=True, **{"sample": 1.0, **settings})
            config = replace(config_for(simulator.base_url, keys=keys), traces=traces)
            return stack.enter_context(running_gateway(change(config)))

        yield start
