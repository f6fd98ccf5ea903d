"""The store in a PostgreSQL database: for any number of processes on any number of machines."""

from __future__ import annotations

from typing import Unpack

from dragoman.storage.postgres.database import PostgresDatabase
from dragoman.storage.tables.pool import PoolOptions, PoolTables
from dragoman.storage.tables.responses import ResponseOptions, ResponseTables


class PostgresStore(PoolTables):
    """The store in the database of `url`. Everything else is as in `PoolTables`."""

    def __init__(self, url: str, **options: Unpack[PoolOptions]) -> None:
        super().__init__(PostgresDatabase(url), **options)


class PostgresResponses(ResponseTables):
    """Stored responses in the database of `url`, which may be that of a store. Everything else is
    as in `ResponseTables`."""

    def __init__(self, url: str, **options: Unpack[ResponseOptions]) -> None:
        super().__init__(PostgresDatabase(url, serial=False), **options)
