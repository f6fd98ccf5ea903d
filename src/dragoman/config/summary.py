"""A configuration in a few words, for the log and for a terminal."""

from __future__ import annotations

from dragoman.config.settings import Config


def summary(config: Config) -> str:
    """What there is of everything, on one line: no name, no key."""
    parts = [
        _count(len(config.upstreams), "upstream"),
        _count(len(config.accounts), "account"),
        _count(len(config.routes), "route"),
        _count(len(config.clients), "client"),
        f"store {config.storage.path}" if config.storage.path else "no store",
        f"/admin {'on' if config.admin.key is not None else 'off'}",
    ]
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
