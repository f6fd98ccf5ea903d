"""What the settings of a configuration mean for what is stored, and for how long."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.accounts.store import Batch, Store
from dragoman.audit import Actor, Change
from dragoman.config import Config, Secret, Storage, parse_config
from dragoman.config.settings import RequestLogSettings
from dragoman.storage.bodies import Body
from dragoman.storage.opening import Watching, store_for

DAY_S = 24 * 3600.0
UPSTREAM = """
[[upstreams]]
name = "up"
protocol = "openai_chat"
base_url = "http://127.0.0.1:1"
affinity_s = {affinity_s}
"""


def stored(path: Path, **settings: float) -> Config:
    return Config(storage=Storage(path=str(path / "store.db"), **settings))  # type: ignore[arg-type]


@contextmanager
def opened(config: Config) -> Iterator[Store]:
    store = store_for(config)
    assert store is not None
    try:
        yield store
    finally:
        store.close()


@pytest.mark.parametrize(("keep_days", "left"), [(40.0, 0), (50.0, 1)])
def test_the_audit_is_stored_for_as_long_as_is_set(
    tmp_path: Path, keep_days: float, left: int
) -> None:
    with opened(stored(tmp_path, keep_days=keep_days)) as store:
        store.record(Actor("me", "command"), [Change(action="add", kind="key", name="k")])
        store.sweep(time.time() + 45 * DAY_S)
        assert len(store.audit(5)) == left


@pytest.mark.parametrize(("affinity_s", "found"), [(100, 0), (10_000, 1)])
def test_a_worker_that_starts_learns_of_conversations_that_are_not_over(
    tmp_path: Path, affinity_s: int, found: int
) -> None:
    upstreams = parse_config(UPSTREAM.format(affinity_s=affinity_s), environ={}).config.upstreams
    with opened(replace(stored(tmp_path), upstreams=upstreams)) as store:
        store.exchange("one", Batch(pins={b"digest": ("a", time.time() - 1000)}), 0)
        assert len(store.exchange("two", Batch(), 0).pins) == found


@pytest.mark.parametrize(("body_days", "found"), [(1.0, False), (3.0, True)])
def test_bodies_are_stored_for_as_long_as_is_set(
    tmp_path: Path, body_days: float, found: bool
) -> None:
    storage = Storage(path=str(tmp_path / "store.db"), key=Secret("a key of the store"))
    config = Config(storage=storage, request_log=RequestLogSettings(body_days=body_days))
    watching = Watching(config, None)
    body = Body("req", "client_request", time.time() - 2 * DAY_S, 5, b"hello")
    watching.bodies.write([body])
    assert (watching.bodies.find("req", "client_request") is not None) is found
    assert bool(watching.bodies.lengths("req")) is found
    watching.bodies.close()


def test_bodies_have_as_many_bytes_as_requests(tmp_path: Path) -> None:
    """An eighth in each file, of which the oldest are dropped."""
    storage = Storage(path=str(tmp_path / "store.db"), key=Secret("a key of the store"))
    config = Config(storage=storage, request_log=RequestLogSettings(keep_bytes=1024 * 1024))
    watching = Watching(config, None)
    for number in range(40):
        text = os.urandom(100_000)
        watching.bodies.write([Body(str(number), "client_request", time.time(), len(text), text)])
        time.sleep(0.002)  # files are named by milliseconds
        watching.bodies.sweep()
    size = sum(path.stat().st_size for path in (tmp_path / "store.db-bodies").iterdir())
    assert size < 1_500_000
    assert watching.bodies.find("39", "client_request") is not None
    assert watching.bodies.find("0", "client_request") is None
    watching.bodies.close()
