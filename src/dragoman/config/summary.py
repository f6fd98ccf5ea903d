"""A configuration in a few words, for the log and for a terminal."""

from __future__ import annotations

from typing import NamedTuple

from dragoman.config.settings import Config
from dragoman.printable import count


class Kept(NamedTuple):
    """How many accounts and keys of clients a store has."""

    accounts: int = 0
    clients: int = 0


def summary(config: Config, kept: Kept | None = None) -> str:
    """What there is of everything, on one line: no name, no key. `kept` is what the store has,
    where that is known."""
    kept = kept or Kept()
    parts = [
        count(len(config.upstreams), "upstream"),
        count(len(config.accounts), "account") + _and(kept.accounts),
        count(len(config.routes), "route"),
        count(len(config.clients), "client") + _and(kept.clients),
        f"store {config.storage.place}" if config.storage.place else "no store",
        f"/admin {'on' if config.admin.is_served else 'off'}",
    ]
    return ", ".join(parts)


def _and(kept: int) -> str:
    return f" and {kept} in the store" if kept else ""
