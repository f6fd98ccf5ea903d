"""The upstream and the gateways of the tests of faults, and the simulator of those of gateways."""

from tests.faults.conftest import _upstream, over, upstream
from tests.gateway.conftest import _simulator, simulator, start

__all__ = ["_simulator", "_upstream", "over", "simulator", "start", "upstream"]
