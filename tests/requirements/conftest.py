"""A simulator and gateways over it, the same as the tests of the gateway use."""

from __future__ import annotations

from tests.gateway.conftest import _gateway, _simulator, gateway, simulator, start

__all__ = ["_gateway", "_simulator", "gateway", "simulator", "start"]
