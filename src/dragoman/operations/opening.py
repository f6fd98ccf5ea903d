"""The administration of a configuration, with its store open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dragoman.config import Config
from dragoman.operations.errors import Conflict
from dragoman.operations.service import Administration
from dragoman.storage.opening import cipher_for, store_for


@contextmanager
def open_administration(config: Config) -> Iterator[Administration]:
    """What can be done with the accounts of `config`.

    Raises:
        Conflict: the configuration keeps nothing.
        StoreError: the store cannot be used.
    """
    store = store_for(config)
    if store is None:
        raise Conflict(
            '[storage] path is "" without url, so nothing is kept that could be administered'
        )
    try:
        yield Administration(config, store, cipher_for(config))
    finally:
        store.close()
