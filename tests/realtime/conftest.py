"""The simulator of the tests of endpoints."""

from __future__ import annotations

from tests.endpoints.conftest import _simulator, simulator

__all__ = ["_simulator", "simulator"]
