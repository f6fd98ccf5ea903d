"""Files and places in texts, as Google's services have them: base64 in either alphabet, addresses
that only the vendor can fetch, and ranges of bytes."""

from __future__ import annotations

import binascii

from dragoman.canonical.blocks import FileId, Url
from dragoman.canonical.errors import InvalidRequest
from dragoman.protocols import google_wire


def source_of(uri: str) -> Url | FileId:
    """The source of a file: an address that anyone can fetch, or one for the vendor only."""
    lower = uri.lower()
    own = ("generativelanguage.googleapis.com/", "youtube.com/", "youtu.be/")
    if lower.startswith(("https://", "http://")) and not any(host in lower for host in own):
        return Url(uri)
    return FileId(uri, google_wire.VENDOR)


def standard_base64(text: str, path: str) -> str:
    """Base64 in the standard alphabet, from either one.

    Raises:
        InvalidRequest: it is none.
    """
    standard = "".join(text.split()).translate(google_wire.STANDARD).rstrip("=")
    standard += "=" * (-len(standard) % 4)
    try:
        binascii.a2b_base64(standard, strict_mode=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest.at(path, "is not base64") from None
    return standard


def characters(encoded: bytes, start: int, end: int) -> tuple[int, int]:
    """The characters of a range of bytes; one that is cut belongs to it."""
    while 0 < start < len(encoded) and encoded[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(encoded) and encoded[end] & 0xC0 == 0x80:
        end += 1
    return len(encoded[:start].decode()), len(encoded[:end].decode())
