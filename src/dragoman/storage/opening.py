"""The store and the cipher of a configuration."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
from contextlib import suppress
from tempfile import gettempdir
from typing import TYPE_CHECKING

from dragoman.accounts.store import Store
from dragoman.config import Config
from dragoman.config.summary import StoredEntries
from dragoman.limits.ledgers import Ledgers
from dragoman.storage.bodies import BodyFiles
from dragoman.storage.encryption import AesGcmCipher
from dragoman.storage.limit_states import LimitStates
from dragoman.storage.request_log import RequestLogFiles
from dragoman.storage.responses import ResponseStore
from dragoman.storage.retention import Retention
from dragoman.storage.series import SeriesFile
from dragoman.storage.sessions import SessionFile

if TYPE_CHECKING:
    from dragoman.storage.tables.pool import PoolOptions
    from dragoman.storage.tables.responses import ResponseOptions

_log = logging.getLogger("dragoman.accounts")

_SHORTEST_PINS_S = 60.0
LARGEST_RESPONSE = 64 * 1024 * 1024
"""Bytes of the largest stored response, with the input of its turn."""


def store_for(config: Config) -> Store | None:
    """The store of `config`, not opened yet; None if nothing is stored."""
    settings = config.storage
    pins_s = max((one.affinity_s for one in config.upstreams), default=_SHORTEST_PINS_S)
    options: PoolOptions = {"retention": Retention(days=settings.keep_days, pins_s=pins_s)}
    if settings.path:
        from dragoman.storage.sqlite import SqliteStore

        return SqliteStore(settings.path, **options)
    if settings.url is None:
        return None
    from dragoman.storage.postgres.store import PostgresStore

    return PostgresStore(settings.url, **options)


def limit_states_for(config: Config) -> LimitStates | None:
    """Where counters of limits are stored between two gateways; None without a store, or if limits
    are stored in a database that several machines share."""
    if not config.storage.path or config.storage.url is not None:
        return None
    return LimitStates(f"{config.storage.path}-limits")


class Watching:
    """The records for operators: the request log and time series. They are in files beside the
    store; without one, in the `folder` that all workers share; else they end with this object."""

    def __init__(self, config: Config, folder: str | None) -> None:
        settings, base = config.request_log, config.storage.path or None
        if base is None and folder is not None:
            base = f"{folder}/dragoman"
        self._is_own = base is None
        if base is None:
            base = f"{gettempdir()}/dragoman-{secrets.token_hex(16)}"
        self.series = SeriesFile(f"{base}-series")
        self.requests = RequestLogFiles(f"{base}-requests", settings.keep_days, settings.keep_bytes)
        self.bodies = BodyFiles(
            f"{base}-bodies", settings.body_days, settings.keep_bytes, cipher_for(config)
        )

    def close(self) -> None:
        """Delete what no other process uses. Safe to call twice."""
        if self._is_own:
            shutil.rmtree(self.requests.directory, ignore_errors=True)
            shutil.rmtree(self.bodies.directory, ignore_errors=True)
            with suppress(OSError):
                os.unlink(self.series.path)


def request_log_for(config: Config) -> RequestLogFiles | None:
    """The request log of gateways on this machine; None if it ends with each of them."""
    base, settings = config.storage.path, config.request_log
    if not base:
        return None
    return RequestLogFiles(f"{base}-requests", settings.keep_days, settings.keep_bytes)


def sessions_for(config: Config) -> SessionFile | None:
    """Where it is stored who is signed in to the administration: beside the database, if that is a
    file."""
    path = config.storage.path
    return SessionFile(f"{path}-sessions") if path else None


def ledgers_for(config: Config) -> Ledgers | None:
    """Where limits are kept that several machines hold together; None if each counts for itself."""
    url = config.storage.url
    if url is None:
        return None
    from dragoman.storage.postgres.ledgers import PostgresLedgers, connecting

    return PostgresLedgers(connecting(url))


def responses_for(config: Config) -> ResponseStore | None:
    """The store of responses, and of the ids that upstreams give out; not opened yet. None if
    nothing is stored."""
    settings = config.storage
    options: ResponseOptions = {
        "most_bytes": settings.responses_bytes,
        "largest_bytes": LARGEST_RESPONSE,
    }
    if settings.path:
        from dragoman.storage.sqlite import SqliteResponses

        return SqliteResponses(settings.path, **options)
    if settings.url is None:
        return None
    from dragoman.storage.postgres.store import PostgresResponses

    return PostgresResponses(settings.url, **options)


def cipher_for(config: Config) -> AesGcmCipher:
    """The cipher for the secrets of stored accounts."""
    settings = config.storage
    previous = () if settings.previous_key is None else (settings.previous_key,)
    return AesGcmCipher(settings.key, previous)


def prepare(config: Config) -> StoredEntries:
    """Prepare the store before serving: its tables are upgraded, which is logged, and values
    encrypted with the previous key are encrypted with the present one. Returns the numbers of its
    entries.

    Raises:
        StoreError: the store cannot be used.
        SealError: there is no key for the accounts in it, or a wrong one.
    """
    store = store_for(config)
    if store is None:
        return StoredEntries()
    try:
        if upgraded := store.upgrade():
            _log.warning("%s", upgraded)
        definitions = store.definitions()
        cipher = cipher_for(config)
        if resealed := cipher.resealed(definitions):
            store.define(resealed)
        sealed = next((one for one in definitions if one.sealed), None)
        if sealed is not None and not resealed:
            cipher.open(sealed)
        keys = [one for one in store.client_keys.all_keys() if one.removed is None]
        return StoredEntries(len(definitions), len(keys))
    finally:
        store.close()
