"""Moving a store to another database, and back."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dragoman.accounts.decide.quota import QuotaWindow
from dragoman.accounts.decide.states import Disabled, Transition
from dragoman.accounts.store import (
    Batch,
    ChargeCount,
    ChargeKey,
    Definition,
    ErrorKey,
    LastError,
    StoreError,
    UsageCount,
    UsageKey,
)
from dragoman.audit import Actor, Change
from dragoman.keys.admins import StoredAdmin
from dragoman.keys.people import Identity, Pending, SigningKey, StoredPerson, StoredSession
from dragoman.keys.records import StoredKey, StoredSecret, StoredTeam
from dragoman.storage.bound import BoundId
from dragoman.storage.migration import move, moved_tables
from dragoman.storage.postgres.database import PostgresConnection, PostgresDatabase
from dragoman.storage.postgres.store import PostgresStore
from dragoman.storage.responses import Items, StoredEvent, StoredResponse
from dragoman.storage.sqlite import SqliteResponses, SqliteStore
from dragoman.storage.sqlite_file import SqliteFile
from dragoman.storage.sqlite_schema import SQLITE
from dragoman.storage.tables.database import Database
from tests.storage.former import make_sqlite

NOW = 1_800_000_000.0
MANY = 2500
VALUES = {"TEXT": "{}", "INTEGER": 1, "REAL": 0.1, "BLOB": b"\0\xff"}


def fill(path: Path) -> None:
    """Something in every table, and more of some than is read at once."""
    with closing(SqliteStore(path)) as store:
        store.define([Definition(name="a", upstream="u", sealed=b"\0\xff", balance=5.5)])
        store.apply([Transition("a", Disabled("by me"), NOW)])
        charge = ChargeKey(3600, "a", "c", "m", "/", "u", "m", "", 0, "v", user="somebody")
        window = QuotaWindow("5h", 0.5, NOW, NOW + 60, 300.0)
        batch = Batch(
            usage={
                UsageKey(3600, "a", "c", f"m{one}", "/"): UsageCount(requests=one, milliseconds=0.1)
                for one in range(MANY)
            },
            charges={charge: ChargeCount(requests=1, cost=2**60)},
            errors={ErrorKey(3600, "a", "cut_off"): 3},
            last_errors={"a": LastError(NOW, "cut_off")},
            quotas={"a": (window,)},
            used={"a": NOW + 0.1},
            pins={one.to_bytes(16): ("a", NOW + one) for one in range(MANY)},
        )
        store.exchange("w", batch, 0)
        store.claim({"told": NOW}, 0.0)
        store.swap_credential("a", None, b"\0sealed")
        secret = StoredSecret(digest=b"d", ending="abcd", created=NOW)
        store.client_keys.save(
            [StoredKey(name="k", created=NOW, secrets=(secret,))],
            [StoredTeam(name="t", created=NOW)],
        )
        store.client_keys.reset_limits({"key\nfile\nrequests": NOW})
        admin = StoredAdmin(name="ops", role="viewer", digest=b"d", ending="e", created=NOW)
        store.admins.save_admin(admin)
        identity = Identity(issuer="i", subject="s", email="a@b.c", groups=("g",))
        person = StoredPerson(id="p", name="a@b.c", identity=identity, created=NOW, seen=NOW)
        store.people.save_person(person)
        store.people.save_session(
            StoredSession(id="00", person="p", client="codex", refresh="r", rotated=NOW,
                          signed_in=NOW, renewed=NOW, sealed=b"\0\xff")
        )  # fmt: skip
        store.people.save_pending(Pending(id="p", expires=NOW, sealed=b"\0\xff"))
        store.people.save_signing_key(SigningKey(id="k", created=NOW, sealed=b"\0\xff"))
        store.record(Actor("me", "command"), [Change(action="add", kind="key", name="k")])
    with closing(SqliteResponses(path)) as responses:
        for one in range(120):
            made = StoredResponse(
                id=f"r{one}", owner="me", created=NOW, expires=2 * NOW, status="in_progress",
                response=b"{}", input=Items(b"[]", (f"i{one}",)), background=one % 2 == 0,
            )  # fmt: skip
            responses.put(made, [StoredEvent(0, b"data: \xff\n\n")])
        responses.bound.bind([BoundId(name="r", owner="me", account="a", due=NOW)])


def contents(database: Database) -> dict[str, list[Any]]:
    with database.reading() as connection:
        return {
            table.name: [
                tuple(row)
                for row in connection.execute(
                    f"SELECT {', '.join(table.names)} FROM {table.name}"
                    f" ORDER BY {', '.join(table.key)}"
                )
            ]
            for table in moved_tables()
        }


def test_there_and_back_it_is_the_same(tmp_path: Path, url: str) -> None:
    fill(tmp_path / "old.db")
    with (
        closing(SqliteFile(tmp_path / "old.db", 1.0)) as old,
        closing(PostgresDatabase(url)) as there,
        closing(SqliteFile(tmp_path / "back.db", 1.0)) as back,
    ):
        expected = contents(old)
        assert all(expected.values()), "every table has something in it"
        copied = move(old, there)
        assert copied == {name: len(rows) for name, rows in expected.items()}
        assert contents(there) == expected
        move(there, back)
        assert contents(back) == expected
        for one in (there, back):
            with one.reading() as connection:
                held = connection.execute("SELECT sum(bytes) FROM responses_held").fetchone()
                assert held == connection.execute("SELECT sum(bytes) FROM responses").fetchone()
        with pytest.raises(StoreError, match="not empty"):
            move(old, there)
        assert contents(there) == expected
    with closing(PostgresStore(url)) as store:
        # New ones have numbers of their own.
        store.record(Actor("me", "command"), [Change(action="add", kind="key", name="l")])
        assert [line.name for line in store.audit(5)] == ["l", "k"]
        assert len(store.exchange("w", Batch(), 0).pins) == MANY


def test_what_is_broken_off_leaves_both_as_they_were(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "old.db")

    def broken(self: PostgresConnection) -> None:
        raise KeyboardInterrupt

    with (
        closing(SqliteFile(tmp_path / "old.db", 1.0)) as old,
        closing(PostgresDatabase(url)) as there,
    ):
        before = contents(old)
        with monkeypatch.context() as patch:
            patch.setattr(PostgresConnection, "moved", broken)
            with pytest.raises(KeyboardInterrupt):
                move(old, there)
        assert contents(old) == before
        assert not any(contents(there).values())
        move(old, there)
        assert contents(there) == before


@pytest.mark.parametrize("version", range(1, SQLITE.version))
def test_a_file_of_an_older_version_is_moved_once_it_is_upgraded(
    tmp_path: Path, url: str, version: int
) -> None:
    """With a row in every table that it has, and as much as one that was opened in between."""
    path = tmp_path / "old.db"
    make_sqlite(path, version)
    with closing(sqlite3.connect(path)) as made, made:
        tables = made.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        for (table,) in tables:
            columns = made.execute("SELECT name, type FROM pragma_table_info(?)", (table,))
            found = columns.fetchall()
            values = [VALUES[kind] for _, kind in found]
            if not made.execute(f"SELECT 1 FROM {table}").fetchone():
                made.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(found))})", values)
    shutil.copyfile(path, tmp_path / "opened.db")
    with (
        closing(SqliteFile(path, 1.0)) as old,
        closing(SqliteFile(tmp_path / "opened.db", 1.0)) as opened,
        closing(PostgresDatabase(url)) as there,
    ):
        opened.upgrade()
        old.upgrade()
        expected = contents(opened)
        assert expected["accounts"]
        move(old, there)
        assert contents(there) == expected == contents(old)
