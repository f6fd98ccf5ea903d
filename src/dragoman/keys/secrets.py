"""The text of a key: its form, its check sum and its stored hash.

A key is `sk-drg-`, 43 characters for 32 random bytes, and 4 characters of check sum, all letters
and digits. With 256 random bits no slow hash is needed: a key is stored as its SHA-256 and looked
up by it."""

from __future__ import annotations

import hashlib
import zlib
from typing import Final

PREFIX: Final = "sk-drg-"
RANDOM_BYTES: Final = 32

_SIGNS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BODY: Final = 43
"""Signs that 32 bytes take: 62 to the power of 43 is more than 2 to that of 256."""
_CHECK: Final = 4
_LENGTH: Final = len(PREFIX) + _BODY + _CHECK
_SHOWN: Final = 4


def make_key(random: bytes, prefix: str = PREFIX) -> str:
    """The key of 32 random bytes, that begins with `prefix`.

    Raises:
        ValueError: they are not 32.
    """
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"expected {RANDOM_BYTES} random bytes")
    body = prefix + _signs(int.from_bytes(random, "big"), _BODY)
    return body + _check_sum(body)


def is_mistyped(key: bytes) -> bool:
    """Whether a key looks like one made here, and is not: it is cut off, or its check sum is
    wrong."""
    try:
        text = key.decode("ascii")
    except UnicodeDecodeError:
        return False
    if not text.startswith(PREFIX):
        return False
    return len(text) != _LENGTH or _check_sum(text[:-_CHECK]) != text[-_CHECK:]


def digest_of(key: bytes) -> bytes:
    """The stored hash of a key."""
    return hashlib.sha256(key).digest()


def ending_of(key: str) -> str:
    """The part of a key that may be shown, to identify it: its last four characters."""
    return key[-_SHOWN:]


def _check_sum(text: str) -> str:
    return _signs(zlib.crc32(text.encode()) % len(_SIGNS) ** _CHECK, _CHECK)


def _signs(number: int, length: int) -> str:
    signs: list[str] = []
    for _ in range(length):
        number, sign = divmod(number, len(_SIGNS))
        signs.append(_SIGNS[sign])
    return "".join(reversed(signs))
