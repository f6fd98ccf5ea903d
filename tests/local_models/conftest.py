"""The upstream and the gateways of the tests of faults."""

from tests.faults.conftest import _upstream, over, upstream

__all__ = ["_upstream", "over", "upstream"]
