"""Stores that released versions made: after they are upgraded they are as a new one."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dragoman.storage.postgres.database import PostgresDatabase
from dragoman.storage.postgres.schema import POSTGRES
from dragoman.storage.sqlite_file import SqliteFile
from dragoman.storage.sqlite_schema import SQLITE
from tests.storage.former import POSTGRES_VERSIONS, SQLITE_VERSIONS, make_postgres, make_sqlite

_SQLITE_INDEXES = (
    "SELECT m.name, i.name, i.origin, i.partial, group_concat(c.name) FROM sqlite_master AS m,"
    " pragma_index_list(m.name) AS i, pragma_index_info(i.name) AS c WHERE m.type = 'table'"
    " GROUP BY m.name, i.name ORDER BY 1, 2"
)
_POSTGRES_COLUMNS = (
    "SELECT table_name, column_name, data_type, collation_name, is_nullable FROM"
    " information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2"
)
_POSTGRES_OTHERS = {
    "indexes": "SELECT regexp_replace(indexdef, '[^ ]+[.]', '') FROM pg_indexes"
    " WHERE schemaname = current_schema() ORDER BY 1",
    "triggers": "SELECT trigger_name, event_manipulation FROM information_schema.triggers"
    " WHERE trigger_schema = current_schema() ORDER BY 1, 2",
    "options": "SELECT relname, reloptions FROM pg_class"
    " WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' ORDER BY 1",
    "sums": "SELECT id, bytes FROM responses_held ORDER BY id",
}


def sqlite_tables(path: Path) -> Mapping[str, Any]:
    """The columns, indexes and triggers of a file, and its first rows."""
    with closing(sqlite3.connect(path)) as found:
        return {
            "columns": found.execute(
                'SELECT m.name, c.name, c.type, c."notnull", c.pk FROM sqlite_master AS m,'
                " pragma_table_info(m.name) AS c WHERE m.type = 'table' ORDER BY 1, 2"
            ).fetchall(),
            "indexes": found.execute(_SQLITE_INDEXES).fetchall(),
            "clustered": found.execute(
                "SELECT name FROM pragma_table_list WHERE wr ORDER BY name"
            ).fetchall(),
            "triggers": found.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
            ).fetchall(),
            "clock": found.execute("SELECT * FROM clock").fetchall(),
            "sums": found.execute("SELECT * FROM responses_held").fetchall(),
        }


def postgres_tables(url: str) -> Mapping[str, Any]:
    """The same of a schema. Numbers of rows that only this program sets may be of any width."""
    with psycopg.connect(url) as found:
        columns = found.execute(_POSTGRES_COLUMNS).fetchall()
        return {
            "columns": [
                (*where, "bigint" if kind == "integer" else kind, *rest)
                for *where, kind, collation, nullable in columns
                for rest in [(collation, nullable)]
            ],
            **{name: found.execute(query).fetchall() for name, query in _POSTGRES_OTHERS.items()},
        }


def test_the_newest_version_is_the_last_that_was_released() -> None:
    """After a change of the tables, append its statements to `former_sqlite.sql` and
    `former_postgres.sql`."""
    assert len(SQLITE_VERSIONS) == SQLITE.version
    assert len(POSTGRES_VERSIONS) == POSTGRES.version


@pytest.mark.parametrize("version", range(1, len(SQLITE_VERSIONS) + 1))
def test_a_file_of_any_version_becomes_as_a_new_one(tmp_path: Path, version: int) -> None:
    make_sqlite(tmp_path / "old.db", version)
    for name in ("old.db", "new.db"):
        with closing(SqliteFile(tmp_path / name, 1.0)) as opened:
            opened.upgrade()
    assert sqlite_tables(tmp_path / "old.db") == sqlite_tables(tmp_path / "new.db")


@pytest.fixture
def other_url(cluster: Any, url: str) -> str:
    """A further empty schema of the database."""
    name = f"{url.rpartition('%3D')[2]}_other"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[arg-type, unused-ignore]
    return f"{url.rpartition('%3D')[0]}%3D{name}"


@pytest.mark.parametrize("version", range(1, len(POSTGRES_VERSIONS) + 1))
def test_a_database_of_any_version_becomes_as_a_new_one(
    url: str, other_url: str, version: int
) -> None:
    make_postgres(url, version)
    for one in (url, other_url):
        with closing(PostgresDatabase(one)) as opened:
            opened.upgrade()
    assert postgres_tables(url) == postgres_tables(other_url)
