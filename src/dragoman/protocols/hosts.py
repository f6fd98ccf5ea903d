"""The host in a base URL."""

from __future__ import annotations

import re

_HOST = re.compile(r"https?://(?:[^/?#@]*@)?(?P<host>\[[^]]*]|[^/?#:]*)", re.IGNORECASE)


def host_of(base_url: str) -> str:
    """The host of a base URL, in lower case; empty if it has none."""
    found = _HOST.match(base_url)
    return "" if found is None else found["host"].lower()


def is_below(host: str, *domains: str) -> bool:
    """Whether a host is one of these domains, or below one."""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)
