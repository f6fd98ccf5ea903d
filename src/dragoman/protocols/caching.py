"""Marks that ask for a prompt to be written to a cache."""

from __future__ import annotations

from typing import Final

from dragoman.protocols.raw import hides_words

_MARK: Final = b'"cache_control"'
_AN_HOUR: Final = b'"1h"'


def marked_writes(body: bytes) -> tuple[bool, bool]:
    """The function behind `Endpoint.cache_writes` where parts of a prompt are marked with
    `cache_control`, in whatever case. Where letters are escaped that need not be, it may ask for
    both."""
    if hides_words(body):
        return True, True
    written = _MARK in body or _MARK in body.lower()
    return written, written and _AN_HOUR in body
