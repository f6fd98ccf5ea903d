"""Gateways over upstreams that take less than the vendors."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.config import Config
from dragoman.protocols.settings import make_capabilities
from tests.gateway.conftest import config_for


def limited(url: str, *keys: str, **values: Any) -> Config:
    """A configuration whose upstreams all have these capabilities."""
    made = config_for(url, keys=keys)
    capabilities = make_capabilities(**values)
    upstreams = tuple(replace(one, capabilities=capabilities) for one in made.upstreams)
    return replace(made, upstreams=upstreams)
