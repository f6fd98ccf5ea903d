"""`dragoman store` on a store that a gateway holds open."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.storage.sqlite import SqliteStore
from tests.cli.conftest import Shop


@pytest.fixture
def held(shop: Shop) -> Iterator[Path]:
    """The store's file with an account, its tables in `-wal`, open in somebody's hands."""
    shop.run("accounts", "add", "kept", "--upstream", "chat", "--key", "-", given="sk-sim-kept")
    path = shop.folder / "dragoman.db"
    store = SqliteStore(path)
    assert [one.name for one in store.definitions()] == ["kept"]
    yield path
    assert [one.name for one in store.definitions()] == ["kept"]
    store.close()


def _fill(path: Path) -> None:
    """Give it a megabyte that is unused."""
    with closing(sqlite3.connect(path)) as connection:
        for sql in ("CREATE TABLE filler (data BLOB)", "INSERT INTO filler VALUES (?)"):
            connection.execute(sql, (bytes(1 << 20),) if "?" in sql else ())
        connection.execute("DROP TABLE filler")
        connection.commit()


def test_a_copy_of_a_store_in_use_is_one(shop: Shop, held: Path) -> None:
    copy = shop.folder / "copy.db"
    with closing(sqlite3.connect(held, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM accounts")
        shop.run("store", "backup", str(copy))
        writer.execute("ROLLBACK")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not [*shop.folder.glob(".copy.db*"), *shop.folder.glob("copy.db-*")]
    restored = SqliteStore(copy)
    assert [one.name for one in restored.definitions()] == ["kept"]
    restored.close()
    before = copy.read_bytes()
    assert "is there already" in shop.run("store", "backup", str(copy), status=1).output
    assert copy.read_bytes() == before
    nowhere = str(shop.folder / "missing" / "copy.db")
    assert "No such file" in shop.run("store", "backup", nowhere, status=1).output


def test_room_is_given_back(shop: Shop, held: Path) -> None:
    _fill(held)
    before = json.loads(shop.run("store", "check", "--json").stdout)
    assert before["unused"] >= 1 << 20
    assert before["faults"] == []
    shop.run("store", "vacuum")
    after = json.loads(shop.run("store", "check", "--json").stdout)
    assert after["unused"] == 0
    assert held.stat().st_size == after["bytes"] <= before["bytes"] - (1 << 20)


def test_a_wrong_sum_and_a_damaged_page_are_found(shop: Shop, held: Path) -> None:
    with closing(sqlite3.connect(held)) as connection:
        connection.execute("UPDATE responses_held SET bytes = 7")
        connection.commit()
    assert "have 0 bytes, and 7 are counted" in shop.run("store", "check", status=1).output
    copy = shop.folder / "dragoman-copy.db"
    shop.run("store", "backup", str(copy))
    data = bytearray(copy.read_bytes())
    with closing(sqlite3.connect(copy)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'accounts'"
        ).fetchone()
    size = int.from_bytes(data[16:18], "big")
    data[(root - 1) * size : root * size] = b"\xff" * size
    copy.write_bytes(data)
    shop.file.write_text(shop.file.read_text().replace("sync_s", f'path = "{copy}"\nsync_s'))
    assert "dragoman-copy.db: is damaged" in shop.run("store", "check", status=1).output
    again = str(shop.folder / "again.db")
    assert "damaged" in shop.run("store", "backup", again, status=1).output
    assert not Path(again).exists()


def test_what_is_no_store_is_refused_and_not_made(shop: Shop) -> None:
    path = shop.folder / "dragoman.db"
    for command in (("check",), ("vacuum",), ("backup", str(shop.folder / "copy.db"))):
        path.unlink(missing_ok=True)
        assert "there is no store" in shop.run("store", *command, status=1).output
        assert not path.exists()
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE theirs (id)")
            other.commit()
        assert "another program" in shop.run("store", *command, status=1).output
    assert not (shop.folder / "copy.db").exists()


def test_a_store_is_moved_to_another_file(
    shop: Shop, held: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = shop.folder / "other.db"
    assert "say where to" in shop.run("store", "migrate", status=1).output
    assert (
        "NOWHERE is not set" in shop.run("store", "migrate", "--to", "env:NOWHERE", status=1).output
    )
    monkeypatch.setenv("TARGET", str(target))
    assert "  accounts: 1\n" in shop.run("store", "migrate", "--to", "env:TARGET").output
    assert "not empty" in shop.run("store", "migrate", "--to", str(target), status=1).output
    with closing(SqliteStore(target)) as store:
        assert [one.name for one in store.definitions()] == ["kept"]
    url = "postgresql://me:secret@127.0.0.1:1/none"
    text = shop.file.read_text().replace("[storage]", f'[storage]\nurl = "{url}"')
    shop.file.write_text(text)
    for command in ("backup", str(shop.folder / "copy.db")), ("vacuum",), ("check",):
        told = shop.run("store", *command, status=1).output
        assert "pg_dump" in told or "cannot be reached" in told
        assert "secret" not in told
