"""Signatures of parts (`thoughtSignature`): bytes in either alphabet of base64.

The vendor's own are carried as they are. Opaque reasoning of another vendor is put there as an
envelope in base64, several one after another: a client sends them back with the part."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from dragoman.canonical.blocks import Reasoning
from dragoman.canonical.envelope import MARKER, PREFIX, Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.protocols import google_wire

_BETWEEN = " "


class Signature(Struct, frozen=True):
    """What a signature is: the vendor's `own`, in standard base64, or the reasoning of others that
    was `sealed` in it. Neither if it only stands in for one."""

    own: str = ""
    sealed: tuple[Reasoning, ...] = ()


REASONING_REFUSALS: Final = ("thought signature", "thought_signature", "missing_thought_signature")
"""Texts and codes of errors for a signature that is missing or of another model or account."""

ENVELOPE: Final = base64.b64encode(PREFIX.encode())[:6]
"""How an envelope begins in a signature, which has to be base64: the characters that do not depend
on what follows."""

NONE = Signature()


def read_signature(text: str, sealer: Sealer, path: str) -> Signature:
    """The signature at `path`.

    Raises:
        InvalidRequest: it is not base64.
    """
    if not text or text.rstrip("=") in google_wire.DUMMIES:
        return NONE
    standard = text.translate(google_wire.STANDARD).rstrip("=")
    standard += "=" * (-len(standard) % 4)
    try:
        data = base64.b64decode(standard, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest.at(path, "is not base64") from None
    if not data.startswith(PREFIX.encode()):
        return Signature(standard)
    opened = [sealer.open(one) for one in data.decode("ascii", "replace").split(_BETWEEN)]
    return Signature(
        sealed=tuple(
            [
                block
                for block in opened
                if block is not None and block.opaque is not None and block.opaque.origin != MARKER
            ]
        )
    )


def write_signature(envelopes: Iterable[str]) -> str:
    """The signature with these envelopes."""
    return base64.b64encode(_BETWEEN.join(envelopes).encode()).decode()


def opened(signature: str) -> str:
    """The envelope in a signature; empty if it is another's own."""
    try:
        text = base64.b64decode(signature + "=" * (-len(signature) % 4), altchars=b"-_")
    except (binascii.Error, ValueError):
        return ""
    return text.decode(errors="replace") if text.startswith(PREFIX.encode()) else ""
