"""The command line beside a gateway of several workers that runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

from dragoman.lab.simulator.testing import RunningSimulator
from tests.cli.conftest import ADMIN_TOKEN, Shop
from tests.cli.serving import eventually, serving
from tests.gateway.http import call

SECRET = "sk-sim-zebra-quagga"


def keys_of(simulator: RunningSimulator, since: int) -> set[str]:
    return {request.key for request in simulator.requests[since:]}


def test_what_is_done_here_is_obeyed_by_all_workers(
    shop: Shop, simulator: RunningSimulator
) -> None:
    with serving(shop, workers=3) as gateway:
        shop.run("accounts", "add", "new", "--upstream", "chat", given=f"{SECRET}\n")
        shop.run("accounts", "disable", "fixed", "--reason", "test")
        time.sleep(1.0)
        since = len(simulator.requests)
        for _ in range(30):
            assert gateway.ask().status == 200
        assert keys_of(simulator, since) == {SECRET}
        shop.run("accounts", "enable", "fixed")
        shop.run("accounts", "remove", "new")
        time.sleep(1.0)
        since = len(simulator.requests)
        for _ in range(30):
            assert gateway.ask().status == 200
        assert keys_of(simulator, since) == {"sk-sim-fixed"}
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
