"""Checks of the rules of keys and teams that types cannot express."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from dragoman.config.access_rules import AccessRules
from dragoman.config.convert import suggestion
from dragoman.config.limits import limit_faults
from dragoman.config.toml_lines import Path

SHORTEST_KEY = 8
"""Fewest characters of a client's key; shorter ones could be found by trial."""


def access_faults(rules: AccessRules, upstreams: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Faults in the rules of a key or a team, each with its path. `upstreams` are the names of the
    existing upstreams."""
    for field in ("addresses", "addresses_denied"):
        for text in getattr(rules, field) or ():
            if not _is_network(text):
                yield (field,), f"{text[:64]!r} is no address and no network such as 10.0.0.0/8"
    for path in rules.paths or ():
        if not path.startswith(("/v1", "/mcp", "*")):
            yield ("paths",), f"{path[:64]!r} is no path such as /v1/chat/* or /mcp/*"
    for name in rules.upstreams or ():
        if name not in upstreams:
            yield ("upstreams",), f"no upstream named {name}{suggestion(name, upstreams)}"
    begins, ends = rules.not_before, rules.expires
    if begins is not None and ends is not None and begins >= ends:
        yield ("expires",), "is not after not_before"
    yield from limit_faults(rules.limits)


def key_fault(key: str) -> str | None:
    """The fault of a client's key in the configuration; None if there is none."""
    if key.startswith("$"):
        return "looks like the name of a variable: write env:NAME"
    if len(key) < SHORTEST_KEY:
        return f"too short to be safe: at least {SHORTEST_KEY} characters"
    return None


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
