"""What a refusal says of versions, betas and members that a service does not know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dragoman.canonical.options import Capabilities
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities

ALL_BETAS: Final = "*"

_OF_BETA = re.compile(r"\bbeta (?:flag|header)|anthropic[-_]beta", re.IGNORECASE)
_BETA = re.compile(r"\b[a-z][a-z0-9.-]*-20\d\d-?\d\d-?\d\d\b")
_OF_VERSION = re.compile(r"anthropic[-_]version", re.IGNORECASE)
_EXTRA = re.compile(r"([A-Za-z_][\w.]*): Extra inputs are not permitted")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
_NEEDED: Final = frozenset({"max_tokens", "messages", "model", "system"})
"""Members without which another request would be sent than the client's."""


def refits(message: str, capabilities: Capabilities) -> Mapping[str, Any]:
    """The function behind `Endpoint.refits`. What the vendor itself refuses is reported
    to its client, which has the newest form of the protocol."""
    own = capabilities.of(MessagesCapabilities)
    if own.is_vendors:
        return {}
    if fields := fields_in(message):
        return {"omit_fields": _joined(capabilities.omit_fields, fields)}
    if _OF_BETA.search(message):
        return {"omit_betas": _joined(own.omit_betas, _BETA.findall(message) or [ALL_BETAS])}
    if _OF_VERSION.search(message):
        return {"client_versions": False}
    return {}


def fields_in(message: str) -> list[str]:
    """The paths of the members that a refusal says there should not be: of every item of a list,
    where it names one of them."""
    paths = [_NUMBER.sub("*", path) for path in _EXTRA.findall(message)]
    return [path for path in paths if path not in _NEEDED]


def _joined(known: tuple[str, ...], found: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*known, *found)))
