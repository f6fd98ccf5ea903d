"""A new version and an old one at the same store."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from dragoman.storage.sqlite_schema import SQLITE
from tests.gateway.http import AUTH, Connection, call
from tests.gateway.processes import ASKED, STORE, STORE_KEY, ask, gateway_process, until
from tests.gateway.slow_upstream import slow_upstream
from tests.storage.former import make_sqlite

BEFORE = SQLITE.version - 1
LIMITED = """
[[clients]]
name = "limited"
key = "sk-of-the-limited"
[[clients.limits]]
kind = "requests"
amount = 12
window = "day"
"""


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *arguments, "--config", str(folder / "one.toml")],
        capture_output=True,
        text=True,
        env={**os.environ, "STORE_KEY": STORE_KEY},
        check=False,
    )


def tables_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as found:
        version: int = found.execute("SELECT max(number) FROM migrations").fetchone()[0]
        return version


def test_only_a_gateway_that_starts_upgrades_a_store(tmp_path: Path) -> None:
    store = tmp_path / STORE
    with slow_upstream() as upstream:
        with gateway_process(tmp_path, upstream.url, {"a": "sk-a"}):
            pass
        for path in tmp_path.glob(f"{STORE}*"):
            path.unlink()
        make_sqlite(store, BEFORE)
        for reading in (("accounts", "list"), ("usage",), ("audit",), ("store", "check")):
            done = command(tmp_path, *reading)
            assert tables_of(store) == BEFORE
            if reading != ("store", "check"):
                assert (done.returncode, done.stdout) == (1, "")
                assert "`dragoman store prepare` upgrades them" in done.stderr
        with gateway_process(tmp_path, upstream.url, {"a": "sk-a"}) as gateway:
            assert tables_of(store) == SQLITE.version
            assert tables_of(tmp_path / f"{STORE}-version-{BEFORE}") == BEFORE
            assert command(tmp_path, "accounts", "list").returncode == 0
        assert f"upgraded from version {BEFORE} to {SQLITE.version}" in gateway.log


def test_an_old_gateway_goes_on_from_memory_where_a_newer_one_changed_the_store(
    tmp_path: Path,
) -> None:
    """It says so, answers, and holds its limits with all that it has counted."""
    with (
        slow_upstream() as upstream,
        gateway_process(
            tmp_path, upstream.url, {"a": "sk-a"}, workers=2, tables=LIMITED
        ) as gateway,
    ):
        upstream.takes_s = 0.0

        def status() -> int:
            found = call(
                gateway.url, "POST", "/v1/chat/completions", ASKED, key="sk-of-the-limited"
            )
            return found.status

        assert [status() for _ in range(4)] == [200] * 4
        with closing(sqlite3.connect(gateway.store, isolation_level=None, timeout=20)) as newer:
            newer.execute("BEGIN IMMEDIATE")
            newer.execute("INSERT INTO migrations VALUES (?, 0)", (SQLITE.version + 100,))
            newer.execute("ALTER TABLE usage RENAME TO usage_of_another_kind")
            newer.execute("COMMIT")
        assert [status() for _ in range(8)] == [200] * 8
        assert [status() for _ in range(4)] == [429] * 4

        def says_so() -> bool:
            return bool(call(gateway.url, "GET", "/healthz").json.get("store") == "failing")

        with Connection(gateway.url) as connection:
            until(says_so)
            assert ask(connection).status == 200
        shown = call(gateway.url, "GET", "/v1/key", key="sk-of-the-limited").json
        assert shown["limits"][0]["used"] == 12
        assert call(gateway.url, "GET", "/v1/models", headers=AUTH).status == 200
    assert "a newer dragoman has used it, so start that version" in gateway.log
