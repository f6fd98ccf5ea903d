"""What only a store in PostgreSQL can meet: a server that goes away, and other machines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from click.testing import CliRunner

from dragoman.accounts.store import (
    Batch,
    Definition,
    ErrorKey,
    StoreError,
    UsageCount,
    UsageKey,
)
from dragoman.cli import main
from dragoman.config.secret import resolve_secret
from dragoman.storage.postgres import database
from dragoman.storage.postgres.database import PostgresDatabase
from dragoman.storage.postgres.schema import POSTGRES
from dragoman.storage.postgres.store import PostgresResponses, PostgresStore
from dragoman.storage.responses import Items, StoredResponse
from dragoman.storage.sqlite import SqliteStore
from dragoman.storage.tables.pool import PoolTables
from tests.storage.cluster import Cluster, running_cluster

KEY = UsageKey(3600, "a", "me", "m", "/v1/messages")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One that may be stopped."""
    with running_cluster() as found:
        yield found


@contextmanager
def stopped(cluster: Cluster) -> Iterator[None]:
    cluster.stop()
    try:
        yield
    finally:
        cluster.start()


def counted(store: PoolTables) -> int:
    return sum(count.requests for count in store.usage(0, 1e10).values())


def test_a_server_that_was_away_is_used_again(cluster: Cluster, url: str) -> None:
    with closing(PostgresStore(url)) as store:
        version = store.exchange("w", Batch(usage={KEY: UsageCount(requests=1)}), 0).version
        with stopped(cluster):
            with pytest.raises(StoreError, match="cannot be reached"):
                store.exchange("w", Batch(usage={KEY: UsageCount(requests=2)}), version)
            # Nobody knocks again and again.
            with pytest.raises(StoreError, match="tried again in a moment"):
                store.definitions()
        end = time.monotonic() + 10
        while True:
            try:
                changes = store.exchange("w", Batch(usage={KEY: UsageCount(requests=4)}), version)
                break
            except StoreError:
                assert time.monotonic() < end
                time.sleep(0.05)
        assert not changes.whole
        assert counted(store) == 5


def test_a_server_that_says_nothing_is_left(
    cluster: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_LONGEST_S", 0.5)
    with closing(PostgresStore(url)) as store:
        store.open()
        cluster.freeze()
        try:
            with pytest.raises(StoreError):
                store.definitions()
        finally:
            cluster.freeze(thaw=True)
        assert store.definitions() == []


def test_a_restart_that_nobody_saw_fails_nothing(cluster: Cluster, url: str) -> None:
    with closing(PostgresStore(url)) as store:
        store.open()
        with stopped(cluster):
            pass
        assert store.definitions() == []


def test_what_an_operator_decides_inside_one_transaction_is_undone_together(url: str) -> None:
    with closing(PostgresStore(url)) as store:
        with suppress(ZeroDivisionError), store.deciding():
            store.define([Definition(name="a", upstream="u")])
            assert [one.name for one in store.definitions()] == ["a"]
            raise ZeroDivisionError
        assert store.definitions() == []


def test_names_that_no_index_has_room_for_are_counted(url: str) -> None:
    """Clients choose them: 200 signs each, and zero bytes, which PostgreSQL keeps in no text."""
    with closing(PostgresStore(url)) as store:
        long = "".join(chr(0x1F300 + place * 7 % 1000) for place in range(200))
        keys = [
            UsageKey(3600, long, long, long, long, long, long, f"{long}{number}", "nul \0")
            for number in range(2)
        ]
        errors = {ErrorKey(3600, "a\0", "k"): 1}
        usage = {key: UsageCount(requests=1) for key in keys}
        store.exchange("w", Batch(usage=usage, errors=errors), 0)
        assert counted(store) == 2
        assert set(store.sums(0, 1e10, ["tag"])) == {("nul \ufffd",)}
        assert store.errors(0, 1e10) == {ErrorKey(3600, "a\ufffd", "k"): 1}
    with closing(PostgresResponses(url, clock=lambda: 0.0)) as responses:
        items = Items(b"[]", ("i" * 1999, "j" * 100_000))
        made = StoredResponse(
            id="r", owner="me\0", created=0, expires=1, status="completed", response=b"{}",
            output=items,
        )  # fmt: skip
        responses.put(made)
        assert responses.get("r", "me\0") is not None


def test_requests_in_flight_on_another_machine_are_told_with_the_others(url: str) -> None:
    """None apart: machines lend one another slots."""
    with (
        closing(PostgresStore(url)) as here,
        closing(PostgresStore(url)) as beside,
        closing(PoolTables(PostgresDatabase(url), instance="elsewhere-")) as there,
    ):
        beside.exchange("1", Batch(leases={"a": 1}), 0)
        assert here.exchange("2", Batch(leases={"a": 1}), 0).leases == {"a": 1}
        there.exchange("2", Batch(leases={"a": 2}), 0)
        found = here.exchange("2", Batch(leases={"a": 1}), 0)
        assert (found.leases, found.apart) == ({"a": 3}, {})
        assert there.exchange("2", Batch(leases={"a": 2}), 0).leases == {"a": 2}


def test_clocks_of_machines_that_differ_lose_no_worker(url: str) -> None:
    """The one whose clock is wrong finds out when it connects."""
    with closing(PostgresStore(url)) as right, closing(PostgresStore(url)) as wrong:
        wrong.open()
        right.exchange("1", Batch(leases={"a": 1}), 0)
        wrong._clock = lambda: time.time() - 60
        assert isinstance(wrong._database, PostgresDatabase)
        wrong._database.ahead_s += 60
        assert wrong.exchange("2", Batch(leases={"a": 1}), 0).leases == {"a": 1}
        assert right.exchange("1", Batch(leases={"a": 1}), 0).leases == {"a": 1}


def test_all_who_start_at_once_make_the_tables_once(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(6)]
    failed: list[StoreError] = []

    def start(store: PostgresStore) -> None:
        try:
            store.open()
        except StoreError as error:
            failed.append(error)

    threads = [Thread(target=start, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    assert failed == []
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM migrations").fetchone()
        assert found == (1,)
        connection.execute("INSERT INTO migrations VALUES (1000, 0)")
    with pytest.raises(StoreError, match="a newer dragoman"):
        PostgresStore(url).open()


def test_both_databases_have_the_same_columns(url: str, tmp_path: Path) -> None:
    with closing(PostgresStore(url)) as there, closing(SqliteStore(tmp_path / "s.db")) as here:
        there.open()
        with here._database.reading() as connection:
            statement = (
                "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c"
                " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'"
            )
            expected = set(connection.execute(statement))
        with there._database.reading() as connection:
            statement = (
                "SELECT table_name::text, column_name::text FROM information_schema.columns"
                " WHERE table_schema = current_schema()"
            )
            assert set(connection.execute(statement)) == expected


def test_statements_of_an_exchange(url: str) -> None:
    """What the database is asked for by a worker, idle and with something to tell: when nobody
    else told anything since, and when somebody did."""
    told = Batch(usage={KEY: UsageCount(requests=1)})
    with closing(PostgresStore(url)) as store, closing(PostgresStore(url)) as other:
        version = store.exchange("w", told, 0).version
        asked: list[str] = []
        execute = database.PostgresConnection.execute

        def spied(self: object, statement: str, *values: object) -> object:
            asked.append(statement)
            return execute(self, statement, *values)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database.PostgresConnection, "execute", spied)
            store.exchange("w", Batch(), version)
            idle = len(asked)
            asked.clear()
            version = store.exchange("w", told, version).version
            alone = len(asked)
            other.exchange("v", Batch(pins={b"p": ("a", 1e10)}), version)
            asked.clear()
            changes = store.exchange("w", told, version)
        assert changes.pins == {b"p": ("a", 1e10)}
        assert (idle, alone, len(asked)) == (4, 9, 23)


def test_tables_are_made_before_any_gateway_starts(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("URL_OF_THE_STORE", url)
    command = ["store", "prepare", "--url", "env:URL_OF_THE_STORE"]
    for _ in range(2):
        done = CliRunner().invoke(main, command)
        assert (done.exit_code, done.output) == (0, f"tables of version {POSTGRES.version}\n")
    monkeypatch.delenv("URL_OF_THE_STORE")
    assert CliRunner().invoke(main, command).exit_code == 1


def test_what_is_said_of_a_wrong_url_has_no_password_in_it() -> None:
    for url in (
        "postgresql://me:secret@127.0.0.1:1/x",
        "postgresql://me:secret@[x",
        "postgresql://me@h:secret/x",
    ):
        with pytest.raises(StoreError) as told:
            PostgresStore(url).open()
        assert "secret" not in str(told.value)
        assert told.value.__cause__ is None


def test_a_password_that_was_changed_in_its_file_is_used_to_connect_again(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "url"
    file.write_text(f"{url}\n")
    secret = resolve_secret("file:url", environ={}, directory=tmp_path)
    with closing(PostgresStore(secret)) as store:
        store.exchange("w", Batch(), 0)
        file.write_text("postgresql://me:old@127.0.0.1:1/x")
        store.exchange("w", Batch(), 0)
        store.close()
        with pytest.raises(StoreError, match="cannot be reached"):
            store.exchange("w", Batch(), 0)
        file.write_text(url)
        end = time.monotonic() + 10
        while True:
            try:
                store.exchange("w", Batch(), 0)
            except StoreError:
                assert time.monotonic() < end
                time.sleep(0.02)
            else:
                break


def test_a_store_whose_tables_are_gone_keeps_what_is_to_be_told(url: str) -> None:
    """It is for an operator to mend, after which it goes on."""
    with closing(PostgresStore(url)) as store:
        store.exchange("w", Batch(), 0)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER TABLE usage RENAME TO away")
            with pytest.raises(StoreError, match="UndefinedTable"):
                store.exchange("w", Batch(usage={KEY: UsageCount(requests=1)}), 0)
            connection.execute("ALTER TABLE away RENAME TO usage")
        store.exchange("w", Batch(usage={KEY: UsageCount(requests=1)}), 0)
        assert counted(store) == 1
