"""Limits that several workers ask the supervisor about, over real sockets."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from click.testing import CliRunner

from dragoman.cli import main
from tests.gateway.http import Answer, Connection, call
from tests.gateway.processes import ASKED, STORE_KEY, gateway_process, until
from tests.gateway.slow_upstream import slow_upstream

KEY = "sk-of-the-limited"
LIMITED = f"""
[[clients]]
name = "limited"
key = "{KEY}"
[[clients.limits]]
"""
TOTAL = 'kind = "requests"\namount = {amount}\nwindow = "total"'


def ask(url: str) -> Answer:
    return call(url, "POST", "/v1/chat/completions", ASKED, key=KEY)


def used(url: str) -> int:
    shown = call(url, "GET", "/v1/key", key=KEY).json
    return int(shown["limits"][0]["used"])


def test_all_workers_together_admit_what_a_limit_has(tmp_path: Path) -> None:
    tables = LIMITED + TOTAL.format(amount=25)
    with (
        slow_upstream() as upstream,
        gateway_process(tmp_path, upstream.url, {"a": "sk-a"}, workers=3, tables=tables) as gateway,
    ):
        upstream.takes_s = 0.0
        with ThreadPoolExecutor(16) as clients:
            statuses = list(clients.map(lambda _: ask(gateway.url).status, range(80)))
        assert statuses.count(200) == 25
        assert set(statuses) == {200, 429}
        assert used(gateway.url) == 25
        # It is reset, though it is one of the configuration file: all workers obey, and together
        # they admit as much again.
        reset = ["limit", "reset", "limited", "1", "--config", str(tmp_path / "one.toml")]
        done = CliRunner(env={"STORE_KEY": STORE_KEY}).invoke(main, reset)
        assert done.exit_code == 0, done.output
        served: list[int] = []

        def served_as_much() -> bool:
            served.append(ask(gateway.url).status)
            return served.count(200) == 25

        until(served_as_much)
        assert {ask(gateway.url).status for _ in range(12)} == {429}
        assert used(gateway.url) == 25


def test_what_waits_for_a_turn_is_served_over_all_workers(tmp_path: Path) -> None:
    tables = LIMITED + 'kind = "concurrent"\namount = 1\nqueue_s = 30'
    with (
        slow_upstream() as upstream,
        gateway_process(tmp_path, upstream.url, {"a": "sk-a"}, workers=3, tables=tables) as gateway,
    ):
        upstream.takes_s = 0.02
        with ThreadPoolExecutor(12) as clients:
            statuses = list(clients.map(lambda _: ask(gateway.url).status, range(36)))
        assert statuses == [200] * 36
        assert max(upstream.most.values()) == 1


def test_a_supervisor_that_is_killed_loses_nothing_that_was_used(tmp_path: Path) -> None:
    """What was begun is answered, and written; what has limits and comes then is refused, or finds
    nobody. The next gateway knows what was used."""
    tables = LIMITED + TOTAL.format(amount=1000)
    with slow_upstream() as upstream:
        with gateway_process(
            tmp_path, upstream.url, {"a": "sk-a"}, workers=2, tables=tables
        ) as gateway:
            upstream.takes_s = 0.0
            assert [ask(gateway.url).status for _ in range(7)] == [200] * 7
            upstream.takes_s = 1.0
            answers: list[Answer] = []
            begun = threading.Thread(target=lambda: answers.append(ask(gateway.url)))
            begun.start()
            kept_open = Connection(gateway.url)
            until(lambda: used(gateway.url) == 8, 10)
            workers = gateway.workers()
            gateway.process.kill()
            try:
                headers = {"authorization": f"Bearer {KEY}"}
                kept_open.send("POST", "/v1/chat/completions", ASKED, headers)
                refused = kept_open.answer()
            except (OSError, EOFError, AssertionError):
                refused = None  # the worker has closed it
            assert refused is None or (refused.status, refused.headers["retry-after"]) == (429, "1")
            kept_open.sock.close()
            begun.join(20)
            assert [one.status for one in answers] == [200]
            until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), 20)
            gateway.stop()
        with gateway_process(
            tmp_path, upstream.url, {"a": "sk-a"}, workers=2, tables=tables, name="next"
        ) as gateway:
            assert used(gateway.url) == 8
