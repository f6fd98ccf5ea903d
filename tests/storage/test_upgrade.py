"""Who upgrades the tables of a store: `upgrade` does, after a copy; whoever merely opens one does
not."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from dragoman.accounts.store import Batch, Store, StoreError, UsageCount, UsageKey
from dragoman.keys.records import StoredKey, StoredSecret
from dragoman.storage import sqlite_file
from dragoman.storage.postgres.schema import POSTGRES
from dragoman.storage.postgres.store import PostgresStore
from dragoman.storage.sqlite import SqliteResponses, SqliteStore
from dragoman.storage.sqlite_care import check
from dragoman.storage.sqlite_schema import SQLITE
from tests.storage.former import (
    POSTGRES_VERSIONS,
    SQLITE_VERSIONS,
    make_postgres,
    make_sqlite,
)

BEFORE = SQLITE.version - 1
ONE = Batch(usage={UsageKey(0, "a", "c", "m", "/"): UsageCount(requests=1)})


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    make_sqlite(path, BEFORE)
    return path


def tables_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as found:
        version: int = found.execute("SELECT max(number) FROM migrations").fetchone()[0]
        return version


def test_whoever_opens_an_older_file_is_refused_and_changes_nothing(old: Path) -> None:
    with closing(SqliteStore(old)) as store, closing(SqliteResponses(old)) as responses:
        for use in (
            store.open,
            store.definitions,
            lambda: store.exchange("w", ONE, 0),
            lambda: responses.get("r", "owner"),
        ):
            with pytest.raises(StoreError, match=r"`dragoman store prepare` upgrades"):
                use()
    assert tables_of(old) == BEFORE


def test_a_file_is_copied_before_it_is_upgraded(old: Path) -> None:
    with closing(SqliteStore(old)) as store:
        told = store.upgrade()
        copy = Path(f"{old}-version-{BEFORE}")
        assert f"from version {BEFORE} to {SQLITE.version}" in told
        assert str(copy) in told
        assert store.upgrade() == ""
        store.exchange("w", ONE, 0)
    assert (tables_of(copy), tables_of(old)) == (BEFORE, SQLITE.version)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert check(copy).faults == ()
    with closing(sqlite3.connect(copy)) as found:
        assert found.execute("SELECT count(*) FROM usage").fetchone() == (0,)


def test_a_former_copy_of_that_version_is_replaced(old: Path) -> None:
    copy = Path(f"{old}-version-{BEFORE}")
    copy.write_bytes(b"something")
    with closing(SqliteStore(old)) as store:
        store.upgrade()
    assert tables_of(copy) == BEFORE


def test_a_file_that_cannot_be_copied_is_left_alone(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **named: object) -> int:
        raise StoreError("the copy: the disk is full")

    with monkeypatch.context() as patch, closing(SqliteStore(old)) as store:
        patch.setattr(sqlite_file, "backup", full)
        with pytest.raises(StoreError, match="the disk is full"):
            store.upgrade()
    assert tables_of(old) == BEFORE
    with closing(SqliteStore(old)) as store:
        store.upgrade()
    assert tables_of(old) == SQLITE.version


def test_whoever_opens_an_older_database_is_refused(url: str) -> None:
    make_postgres(url, POSTGRES.version - 1)
    with closing(PostgresStore(url)) as store:
        with pytest.raises(StoreError, match=r"`dragoman store prepare` upgrades"):
            store.definitions()
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT max(number) FROM migrations").fetchone()
            assert found == (POSTGRES.version - 1,)
        assert f"to {POSTGRES.version}" in store.upgrade()
        assert store.upgrade() == ""
        assert store.definitions() == []


NEXT = (
    "ALTER TABLE usage ADD COLUMN more INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE client_keys ADD COLUMN more TEXT",
    "CREATE TABLE further (name TEXT PRIMARY KEY)",
)
"""What a next version might add."""
AHEAD = (1, 2, 9)
"""Versions by which the tables may be newer."""


def used_as_it_is(store: Store) -> None:
    """A store of a next version serves this one, whether it connects anew or starts."""
    assert store.upgrade() == ""
    secret = StoredSecret(digest=b"d", ending="abcd", created=1.0)
    assert store.client_keys.add(StoredKey(name="k", created=1.0, secrets=(secret,)))
    changes = store.exchange("w", ONE, 0)
    assert [key.name for key in changes.client_keys] == ["k"]
    (used,) = store.usage(0, 2**40).values()
    assert used.requests == 1


@pytest.mark.parametrize("ahead", AHEAD)
def test_a_file_of_a_next_version_is_used_as_it_is(tmp_path: Path, ahead: int) -> None:
    path = tmp_path / "store.db"
    make_sqlite(path, SQLITE.version)
    with closing(sqlite3.connect(path)) as newer, newer:
        for statement in NEXT:
            newer.execute(statement)
        newer.execute("INSERT INTO migrations VALUES (?, 0)", (SQLITE.version + ahead,))
    with closing(SqliteStore(path)) as store:
        used_as_it_is(store)
    assert tables_of(path) == SQLITE.version + ahead
    assert check(path).faults == ()


@pytest.mark.parametrize("ahead", AHEAD)
def test_a_database_of_a_next_version_is_used_as_it_is(url: str, ahead: int) -> None:
    make_postgres(url, POSTGRES.version)
    with psycopg.connect(url) as newer:
        for statement in NEXT:
            newer.execute(statement)  # type: ignore[arg-type, unused-ignore]
        newer.execute("INSERT INTO migrations VALUES (%s, 0)", (POSTGRES.version + ahead,))
    with closing(PostgresStore(url)) as store:
        used_as_it_is(store)


@pytest.mark.parametrize(
    "statement",
    [one for version in (*SQLITE_VERSIONS[8:], *POSTGRES_VERSIONS[1:]) for one in version],
)
def test_an_upgrade_only_adds(statement: str) -> None:
    """And nothing that the former version, which does not know of it, would have to fill."""
    kind = r"\w+( PRECISION| COLLATE \"C\")?"
    added = rf"ALTER TABLE \w+ ADD COLUMN \w+ {kind}( NOT NULL DEFAULT .+)?"
    assert re.fullmatch(rf"CREATE (TABLE|INDEX) .+|{added}", statement)
