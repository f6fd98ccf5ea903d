"""The store in a PostgreSQL database, for any number of processes on any number of machines."""

from __future__ import annotations

import secrets
from typing import Unpack

from dragoman.storage.postgres.database import PostgresDatabase
from dragoman.storage.postgres.link import Url
from dragoman.storage.tables.pool import PoolOptions, PoolTables
from dragoman.storage.tables.responses import ResponseOptions, ResponseTables

_INSTANCE = f"{secrets.token_hex(6)}-"
"""The same for processes forked from one, which count requests in flight together."""


class PostgresStore(PoolTables):
    """The store in the database of `url`. All else is as in `PoolTables`."""

    def __init__(self, url: Url, **options: Unpack[PoolOptions]) -> None:
        super().__init__(PostgresDatabase(url), instance=_INSTANCE, **options)


class PostgresResponses(ResponseTables):
    """Stored responses in the database of `url`, which may be that of a store. All else is as in
    `ResponseTables`."""

    def __init__(self, url: Url, **options: Unpack[ResponseOptions]) -> None:
        super().__init__(PostgresDatabase(url, serial=False), **options)
