"""Marks that ask for a prompt to be written to a cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dragoman.protocols.raw import hides_words

_MARKS: Final = b'"cache_control"', b'"prompt_cache_breakpoint"'
_LONG: Final = b'"1h"', b'"12h"', b'"30m"'
"""Lifetimes that are an hour at services with two; 30 minutes are if `cache_ttl_30m_as` says so."""


def marked_writes(body: bytes) -> tuple[bool, bool]:
    """The function behind `Endpoint.cache_writes` where parts of a prompt are marked, in whatever
    case. Where letters are escaped that need not be, it may ask for both."""
    if hides_words(body):
        return True, True
    written = _has(body, _MARKS) or _has(body.lower(), _MARKS)
    return written, written and _has(body, _LONG)


def _has(body: bytes, words: Iterable[bytes]) -> bool:
    return any(word in body for word in words)
