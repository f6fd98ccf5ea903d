"""A configuration in a few words, for the log and for a terminal."""

from __future__ import annotations

from dragoman.config.settings import Config
from dragoman.printable import count


def summary(config: Config) -> str:
    """What there is of everything, on one line: no name, no key."""
    parts = [
        count(len(config.upstreams), "upstream"),
        count(len(config.accounts), "account"),
        count(len(config.routes), "route"),
        count(len(config.clients), "client"),
        f"store {config.storage.place}" if config.storage.place else "no store",
        f"/admin {'on' if config.admin.key is not None or config.admin.enabled else 'off'}",
    ]
    return ", ".join(parts)
