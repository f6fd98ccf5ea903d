"""`max_concurrent` over all workers of a machine."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.gateway.http import AUTH, Connection, call
from tests.gateway.processes import (
    ASKED,
    STORE,
    connection_of_each,
    gateway_process,
    until,
)
from tests.gateway.services import needs_linux
from tests.gateway.slow_upstream import slow_upstream

WORKERS = 4
MOST = 3


@pytest.mark.parametrize("store", [STORE, ""])
def test_a_burst_over_all_workers_never_exceeds_it(tmp_path: Path, store: str) -> None:
    """Also where nothing is stored. None is refused for it: they wait for one another."""
    keys = {"a": "sk-a", "b": "sk-b"}
    with (
        slow_upstream() as upstream,
        gateway_process(
            tmp_path,
            upstream.url,
            keys,
            workers=WORKERS,
            account=f"max_concurrent = {MOST}\n",
            store=store,
        ) as gateway,
        ThreadPoolExecutor(60) as clients,
    ):

        def ask(_: int) -> int:
            return call(gateway.url, "POST", "/v1/chat/completions", ASKED).status

        for _ in range(2):
            assert set(clients.map(ask, range(120))) == {200}
        # Never more, and all that there may be.
        assert upstream.most == {f"Bearer {key}": MOST for key in keys.values()}
        assert set(upstream.now.values()) == {0}


def test_a_worker_that_dies_gives_back_what_it_held(tmp_path: Path) -> None:
    with (
        slow_upstream() as upstream,
        gateway_process(
            tmp_path, upstream.url, {"a": "sk-a"}, workers=2, account="max_concurrent = 1\n"
        ) as gateway,
        connection_of_each(gateway) as (one, other),
    ):
        upstream.takes_s = 60.0
        one.send("POST", "/v1/chat/completions", ASKED, AUTH)
        until(lambda: upstream.now == {"Bearer sk-a": 1})
        upstream.takes_s = 0.01
        other.send("POST", "/v1/chat/completions", ASKED, AUTH)
        time.sleep(0.3)
        assert upstream.most == {"Bearer sk-a": 1}, "it waits"
        os.kill(gateway.workers()[0], signal.SIGKILL)
        # Within the patience of its connection, which is shorter than the other's answer.
        assert other.answer().status == 200


@needs_linux
@pytest.mark.parametrize("workers", [1, 2])
def test_one_that_takes_over_leaves_to_the_former_what_that_has_in_flight(
    tmp_path: Path, workers: int
) -> None:
    """A request that the former gateway serves on takes the only slot; the next one waits."""
    account = "max_concurrent = 1\n"
    newcomer = '[[clients]]\nname = "newcomer"\nkey = "sk-of-the-newcomer"\n'

    def takes_all(url: str) -> bool:
        """Whether the gateway that takes over, which alone knows this key, gets all connections."""
        answers = (call(url, "GET", "/v1/key", key="sk-of-the-newcomer") for _ in range(10))
        return all(one.status == 200 for one in answers)

    with (
        slow_upstream() as upstream,
        gateway_process(
            tmp_path, upstream.url, {"a": "sk-a"}, workers=workers, account=account, grace_s=60
        ) as former,
        Connection(former.url) as first,
        ThreadPoolExecutor(1) as clients,
    ):
        port = int(former.url.rpartition(":")[2])
        upstream.held = held = threading.Event()
        first.send("POST", "/v1/chat/completions", ASKED, AUTH)
        until(lambda: upstream.now == {"Bearer sk-a": 1})
        upstream.held = None
        with gateway_process(
            tmp_path,
            upstream.url,
            {"a": "sk-a"},
            workers=workers,
            account=account,
            tables=newcomer,
            name="other",
            port=port,
        ) as other:
            until(lambda: takes_all(other.url))
            second = clients.submit(call, other.url, "POST", "/v1/chat/completions", ASKED)
            time.sleep(0.3)
            held.set()
            assert first.answer().status == 200
            assert second.result(timeout=30).status == 200
            former.process.communicate(timeout=30)  # it ends by itself
        assert upstream.most == {"Bearer sk-a": 1}
