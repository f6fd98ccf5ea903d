"""A store whose file is removed, or replaced by another, while the gateway runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config import Config
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.operations.key_service import KeyService
from dragoman.server.testing import running_gateway
from dragoman.storage.sqlite import SqliteStore
from tests.gateway.stored_keys import ask, becomes, made, settings


def other_store(path: Path) -> str:
    """Make a store with one key, and return that."""
    store = SqliteStore(path)
    keys = KeyService(Config(), store.client_keys)
    secret = keys.add("other", {}).secret
    store.close()
    return secret


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_keys_that_are_not_in_the_file_that_is_there_are_refused(
    simulator: RunningSimulator, tmp_path: Path, how: str
) -> None:
    config = replace(settings(simulator.base_url, tmp_path), clients=())
    path = tmp_path / "store.db"
    with running_gateway(config) as gateway:
        secret = made(gateway, "k")
        becomes(gateway, None, {401})
        assert ask(gateway, secret).status == 200
        new = other_store(tmp_path / "new.db") if how == "replaced" else None
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        if how == "removed":
            path.unlink()
        else:
            (tmp_path / "new.db").rename(path)
        becomes(gateway, secret, {401})
        assert ask(gateway, None).status == 401, "where there was a key, nobody needs none"
        if new is not None:
            becomes(gateway, new, {200})
        # What is made from then on counts.
        again = made(gateway, "again")
        assert ask(gateway, again).status == 200
        assert ask(gateway, secret).status == 401
