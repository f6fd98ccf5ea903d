"""The upstream of the tests of faults, gateways over it, and the simulator of the gateway tests."""

from collections.abc import Iterator

import pytest

from tests.faults.conftest import Over, _upstream, gateways_over, upstream
from tests.faults.upstream import Upstream
from tests.gateway.conftest import _simulator, simulator, start

__all__ = ["_simulator", "_upstream", "over", "simulator", "start", "upstream"]


@pytest.fixture
def over(_upstream: Upstream) -> Iterator[Over]:
    """Starts gateways over the upstream, which run while a test does: there are hundreds of tests
    in a module, and ordinary users may open a thousand files."""
    with gateways_over(_upstream) as start:
        yield start
