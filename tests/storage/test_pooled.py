"""A store behind PgBouncer in transaction mode, where it is installed: no two transactions need
have the same connection of the server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import psycopg
import pytest

from dragoman.accounts.store import Batch, UsageCount, UsageKey
from dragoman.storage.postgres.store import PostgresResponses, PostgresStore
from dragoman.storage.responses import Items, StoredEvent, StoredResponse
from tests.storage.cluster import Cluster

_PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_CONFIG = """
[databases]
{name} = host={folder} dbname={name} user=dragoman
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
ignore_startup_parameters = extra_float_digits
"""


@pytest.fixture
def pooled(cluster: Cluster) -> Iterator[str]:
    """The URL of the database by way of PgBouncer with three connections."""
    if _PROGRAM is None:
        if os.environ.get("DRAGOMAN_REQUIRE_SERVICES"):
            pytest.fail("PgBouncer is not installed")
        pytest.skip("PgBouncer is not installed (apt install pgbouncer)")
    name, folder = "postgres", cluster.url.partition("host=")[2]
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    config = Path(folder) / f"pgbouncer-{port}.ini"
    config.write_text(_CONFIG.format(name=name, folder=folder, port=port))
    user = [] if os.geteuid() else ["-u", "nobody"]
    with subprocess.Popen([_PROGRAM, "-q", *user, str(config)], stderr=subprocess.DEVNULL) as made:
        try:
            there = f"postgresql://dragoman@127.0.0.1:{port}/{name}"
            end = time.monotonic() + 10
            while True:
                try:
                    psycopg.connect(there).close()
                    break
                except psycopg.OperationalError:
                    assert time.monotonic() < end
                    time.sleep(0.05)
            yield there
        finally:
            made.terminate()


def test_many_workers_share_few_connections(pooled: str) -> None:
    failed: list[Exception] = []

    def work(worker: int) -> None:
        try:
            with closing(PostgresStore(pooled)) as store:
                version = 0
                for _ in range(20):
                    key = UsageKey(3600, "a", f"c{worker}", "m", "/")
                    batch = Batch(usage={key: UsageCount(requests=1)}, leases={"a": worker})
                    version = store.exchange(str(worker), batch, version).version
                    store.exchange(str(worker), Batch(leases={"a": worker}), version)
            with closing(PostgresResponses(pooled)) as responses:
                for turn in range(10):
                    name = f"r{worker}-{turn}"
                    previous = f"r{worker}-{turn - 1}" if turn else None
                    now = time.time()
                    made = StoredResponse(
                        id=name, owner="me", created=now, expires=now + 99, status="completed",
                        response=b"{}", previous=previous, input=Items(b"[]", (name,)),
                    )  # fmt: skip
                    responses.put(made, [StoredEvent(0, b"data")])
                turns = responses.conversation(name, "me")
                assert turns is not None
                assert len(turns) == 10
        except Exception as error:
            failed.append(error)

    threads = [Thread(target=work, args=(worker,)) for worker in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with closing(PostgresStore(pooled)) as store:
        assert sum(one.requests for one in store.usage(0, 1e10).values()) == 160
