"""Marks that ask for a prompt to be written to a cache."""

from __future__ import annotations

import re
from typing import Final

_MARK: Final = b'"cache_control"'
_AN_HOUR: Final = b'"1h"'
_ESCAPED: Final = re.compile(rb"\\u00[2-7]")
"""Letters that need not be escaped, which may hide a mark."""


def marked_writes(body: bytes) -> tuple[bool, bool]:
    """The function behind `Endpoint.cache_writes` where parts of a prompt are marked with
    `cache_control`. Where letters are escaped that need not be, it may ask for both."""
    if _ESCAPED.search(body) is not None:
        return True, True
    written = _MARK in body
    return written, written and _AN_HOUR in body
