"""A gateway that serves whoever calls says so when it starts on a store."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config import Config
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.operations.key_service import KeyService
from dragoman.server.testing import running_gateway
from dragoman.storage.sqlite import SqliteStore
from tests.gateway.stored_keys import settings

TOLD = "everyone on this machine may call"


@pytest.mark.parametrize(
    ("how", "expected"), [("", True), ("required", False), ("client", False), ("removed", False)]
)
def test_a_store_without_keys_is_told_of(
    simulator: RunningSimulator,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    how: str,
    expected: bool,
) -> None:
    config = settings(simulator.base_url, tmp_path)
    if how != "client":
        config = replace(config, clients=())
    if how == "required":
        config = replace(config, server=replace(config.server, require_key=True))
    if how == "removed":
        store = SqliteStore(tmp_path / "store.db")
        keys = KeyService(Config(), store.client_keys)
        keys.add("k", {})
        keys.remove(["k"])
        store.close()
    with running_gateway(config):
        assert (TOLD in caplog.text) is expected
