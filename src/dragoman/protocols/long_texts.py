"""Long texts that the last events of a stream repeat: each is written once, and a placeholder
stands for it until the events are sent.

JSON holds no control characters, so a placeholder between two of them is not taken for content.
"""

from __future__ import annotations

from collections.abc import Sequence

LONG = 64 * 1024
"""Bytes of a text's JSON from which on a placeholder stands for it."""

_LONGEST_ESCAPE = 8
"""Bytes of JSON that a byte of text becomes, at most; `\\u0000` has six."""

_EDGE = b"\0"


def placeholder(index: int) -> bytes:
    """What stands for the long text of that index."""
    return b"%b%d%b" % (_EDGE, index, _EDGE)


def may_be_long(text_bytes: int) -> bool:
    """Whether there may be a long text among so many bytes."""
    return text_bytes * _LONGEST_ESCAPE >= LONG


def has_placeholder(written: bytes) -> bool:
    """Whether a placeholder is in what was written."""
    return _EDGE in written


def filled(written: bytes, texts: Sequence[bytes]) -> list[bytes]:
    """What was written in pieces, with a text of `texts` for each placeholder: joined, they are
    what is sent."""
    pieces = written.split(_EDGE)
    pieces[1::2] = [texts[int(index)] for index in pieces[1::2]]
    return pieces
