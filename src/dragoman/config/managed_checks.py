"""Checks of managed settings: they are written as TOML and sent as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.config.settings import Config
from dragoman.config.toml_lines import Path


def errors(config: Config) -> Iterator[tuple[Path, str]]:
    """Faults in the managed settings of a configuration, each with its path."""
    places: list[tuple[Path, dict[str, Any] | None]] = [
        (("managed_settings",), config.managed_settings)
    ]
    rules = () if config.sign_in is None else config.sign_in.rules
    for index, rule in enumerate(rules):
        places.append((("sign_in", "rules", index, "managed_settings"), rule.managed_settings))
    for number, issuer in enumerate(config.jwt_issuers):
        for index, rule in enumerate(issuer.rules):
            if rule.managed_settings is not None:
                place = ("jwt_issuers", number, "rules", index, "managed_settings")
                yield place, "has no effect: only people of [sign_in] are given settings"
    for path, settings in places:
        if settings is not None:
            yield from _faults(settings, path)
            for name, value in _table(settings.get("env")).items():
                if not isinstance(value, str):
                    yield (*path, "env", name), 'variables are text: write "1", not 1'


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _faults(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _faults(member, (*path, name))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _faults(entry, (*path, index))
    elif isinstance(value, float) and value - value != 0:
        yield path, "expected a number that is finite"
    elif not isinstance(value, str | int | float):
        yield path, "expected what JSON has: write a time as text"
