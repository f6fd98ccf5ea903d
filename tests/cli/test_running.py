"""The command line beside a gateway of several workers that runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from select import select
from typing import IO

from dragoman.lab.simulator.testing import RunningSimulator
from tests.cli.conftest import ADMIN_TOKEN, STORE_KEY, Shop
from tests.cli.serving import Running, eventually, serving
from tests.gateway.http import call

SECRET = "sk-sim-zebra-quagga"


def keys_of(simulator: RunningSimulator, since: int) -> set[str]:
    return {request.key for request in simulator.requests[since:]}


@contextmanager
def following(shop: Shop) -> Iterator[IO[bytes]]:
    """What `dragoman requests --follow` prints."""
    command = [sys.executable, "-m", "dragoman", "requests", "--follow", "--json"]
    with subprocess.Popen(
        [*command, "--config", str(shop.file)],
        stdout=subprocess.PIPE,
        env={**os.environ, "STORE_KEY": STORE_KEY},
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


def test_what_is_done_here_is_obeyed_by_all_workers(
    shop: Shop, simulator: RunningSimulator
) -> None:
    def used(gateway: Running) -> set[str]:
        """The keys that 30 requests, to whichever workers, were sent with."""
        since = len(simulator.requests)
        for _ in range(30):
            assert gateway.ask().status == 200
        return keys_of(simulator, since)

    with serving(shop, workers=3) as gateway:
        shop.run("accounts", "add", "new", "--upstream", "chat", given=f"{SECRET}\n")
        shop.run("accounts", "disable", "fixed", "--reason", "test")
        eventually(lambda: used(gateway) == {SECRET})
        shop.run("accounts", "enable", "fixed")
        shop.run("accounts", "remove", "new")
        eventually(lambda: used(gateway) == {"sk-sim-fixed"})
        with following(shop) as lines:
            # It shows what comes once it runs.
            eventually(lambda: gateway.ask().status and select([lines], [], [], 0.1)[0])
            assert json.loads(lines.readline())["account"] == "fixed"
        gateway.stop()
        assert b"zebra" not in gateway.log
    assert SECRET.encode() not in shop.bytes_of_store()


def test_counts_are_of_all_workers_and_usage_survives_a_stop(shop: Shop) -> None:
    name = 'dragoman_requests_total{route="/v1/chat/completions",status="2xx",upstream="chat"}'
    with serving(shop, workers=3) as gateway:
        for _ in range(40):
            assert gateway.ask().status == 200
        eventually(lambda: gateway.metrics()[name] == 40)
        # Another worker may be asked, which does not know yet what this one has counted last.
        found = eventually(
            lambda: (now := gateway.metrics())["dragoman_workers"] == 3 and now[name] == 40 and now
        )
        assert found['dragoman_attempts_total{upstream="chat"}'] == 40
        assert found["dragoman_in_flight"] == 0
        for _ in range(5):
            gateway.ask()
        gateway.stop()
    logged = json.loads(shop.run("requests", "--json", "--status", "2xx").stdout)["rows"]
    assert len(logged) == 45
    assert {(row["account"], row["model"]) for row in logged} == {("fixed", "sim-text")}
    listed = shop.run("requests", "--limit", "2", "--key", "anyone")
    assert listed.stdout.splitlines()[0].split()[:4] == ["TIME", "STATUS", "MS", "KEY"]
    assert len(listed.stdout.splitlines()) == 3
    assert "there are more" in listed.stderr
    assert len(shop.run("requests", "--error", "*").stdout.splitlines()) == 1
    whole = json.loads(shop.run("requests", logged[0]["id"]).stdout)
    assert [attempt["account"] for attempt in whole["tried"]] == ["fixed"]
    assert "no request req_none" in shop.run("requests", "req_none", status=1).stderr
    assert "such as 429" in shop.run("requests", "--status", "bad", status=2).stderr
    report = json.loads(shop.run("usage", "--json").stdout)
    assert [(row["by"], row["requests"]) for row in report["rows"]] == [({"account": "fixed"}, 45)]
    assert report["total"]["input"] > 0
    text = shop.run("usage", "--by", "route", "--by", "client").stdout.splitlines()
    assert text[0].split()[:3] == ["ROUTE", "CLIENT", "REQUESTS"]
    assert text[1].split()[:3] == ["/v1/chat/completions", "anyone", "45"]
    assert text[2].split()[:2] == ["total", "45"]
    table = shop.run("usage", "--csv", "--by", "hour").stdout.splitlines()
    assert table[0].startswith("hour,requests,errors,")
    assert sum(int(line.split(",")[1]) for line in table[1:]) == 45
    assert json.loads(shop.run("usage", "--json", "--until", "1d").stdout)["rows"] == []
    for moment in ("noon", "999999999d", "999999999999"):
        assert "expected a time such as" in shop.run("usage", "--since", moment, status=1).stderr
    view = json.loads(shop.run("accounts", "show", "fixed", "--json").stdout)["account"]
    assert (view["requests"], view["errors"], view["in_flight"]) == (45, 0, 0)


def test_a_worker_that_is_killed_is_not_forgotten_in_the_counts(shop: Shop) -> None:
    name = 'dragoman_requests_total{route="/v1/chat/completions",status="2xx",upstream="chat"}'
    with serving(shop, workers=2) as gateway:
        for _ in range(20):
            gateway.ask()
        eventually(lambda: gateway.metrics()[name] == 20)
        time.sleep(1.5)
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(gateway.process.pid)],
            capture_output=True,
            check=True,
            text=True,
        )
        victim = int(listed.stdout.split()[0])
        os.kill(victim, signal.SIGKILL)
        # A request may meet the socket of the dead worker's last moment.
        eventually(lambda: gateway.metrics()["dragoman_workers"] == 2)
        counts = [gateway.metrics()[name] for _ in range(10)]
        assert min(counts) == 20
        assert gateway.ask().status == 200
    report = json.loads(shop.run("usage", "--json").stdout)
    assert report["total"]["requests"] == 21


def test_the_admins_token_does_not_reach_the_log(shop: Shop) -> None:
    with serving(shop, workers=1) as gateway:
        for key in (ADMIN_TOKEN, f"{ADMIN_TOKEN}x"):
            call(gateway.url, "GET", "/admin/accounts?state=active", key=key)
        gateway.ask()
        gateway.stop()
        assert b"/admin/accounts" in gateway.log
        assert ADMIN_TOKEN.encode() not in gateway.log


def test_the_summary_at_the_start_counts_what_the_store_has(shop: Shop) -> None:
    shop.run("accounts", "add", "new", "--upstream", "chat", given=f"{SECRET}\n")
    shop.run("key", "add", "ci")
    shop.run("key", "add", "gone")
    shop.run("key", "remove", "gone")
    with serving(shop, workers=1) as gateway:
        gateway.stop()
    told = (
        b"2 upstreams, 1 account and 1 in the store, 1 route, 0 clients and 1 in the store, store"
    )
    assert told in gateway.log
