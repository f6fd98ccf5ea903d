"""Maintenance of a store in PostgreSQL."""

from __future__ import annotations

from contextlib import closing

from dragoman.storage.postgres.database import PostgresDatabase
from dragoman.storage.postgres.schema import POSTGRES
from dragoman.storage.sqlite_care import Health, wrong_sums


def check(url: str) -> Health:
    """Whether the sums in the database of `url` are right; the rest is the server's duty.

    Raises:
        StoreError: it cannot be used.
    """
    with closing(PostgresDatabase(url)) as database, database.reading() as connection:
        size = connection.execute(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        ).fetchone()[0]
        tables = connection.execute("SELECT max(number) FROM migrations").fetchone()[0]
        return Health(size, 0, tables, POSTGRES.version, tuple(wrong_sums(connection)))
