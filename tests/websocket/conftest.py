"""The gateway and the simulator of the gateway's own tests."""

from __future__ import annotations

from tests.gateway.conftest import _gateway, _simulator, gateway, simulator, start

__all__ = ["_gateway", "_simulator", "gateway", "simulator", "start"]
