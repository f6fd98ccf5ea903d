"""Long texts that the last events of a stream repeat: each is encoded once, with placeholders in
the events until they are sent.

JSON has no control characters, so a placeholder between two of them differs from any content.
"""

from __future__ import annotations

from collections.abc import Sequence

LONG = 64 * 1024
"""Bytes of a text's JSON from which on it gets a placeholder."""

_LONGEST_ESCAPE = 8
"""Most bytes of JSON for one byte of text; `\\u0000` has six."""

_EDGE = b"\0"


def placeholder(index: int) -> bytes:
    """The placeholder of the long text of that index."""
    return b"%b%d%b" % (_EDGE, index, _EDGE)


def may_be_long(text_bytes: int) -> bool:
    """Whether there may be a long text among so many bytes."""
    return text_bytes * _LONGEST_ESCAPE >= LONG


def has_placeholder(written: bytes) -> bool:
    """Whether the bytes written have a placeholder."""
    return _EDGE in written


def filled(written: bytes, texts: Sequence[bytes]) -> list[bytes]:
    """The written bytes in pieces, with each placeholder replaced by its text from `texts`; their
    concatenation is sent."""
    pieces = written.split(_EDGE)
    pieces[1::2] = [texts[int(index)] for index in pieces[1::2]]
    return pieces
