"""A one-line summary of a configuration, for the log and the terminal."""

from __future__ import annotations

from typing import NamedTuple

from dragoman.config.settings import Config
from dragoman.printable import count


class StoredEntries(NamedTuple):
    """Numbers of accounts and client keys in a store."""

    accounts: int = 0
    clients: int = 0


def summary(config: Config, stored: StoredEntries | None = None) -> str:
    """Numbers of entries on one line, without names or keys. `stored` are the numbers in the store,
    if known."""
    stored = stored or StoredEntries()
    parts = [
        count(len(config.upstreams), "upstream"),
        count(len(config.accounts), "account") + _and(stored.accounts),
        count(len(config.routes), "route"),
        count(len(config.clients), "client") + _and(stored.clients),
        f"store {config.storage.place}" if config.storage.place else "no store",
        f"/admin {'on' if config.admin.is_served else 'off'}",
    ]
    return ", ".join(parts)


def _and(stored: int) -> str:
    return f" and {stored} in the store" if stored else ""
