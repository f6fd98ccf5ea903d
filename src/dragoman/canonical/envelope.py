"""Envelopes: opaque reasoning state of one vendor, carried by a client of another.

A client must send reasoning back unchanged, in the one field its protocol has for it (a
signature, an encrypted payload). The field contains either the upstream's own value, when
both sides have the same protocol, or an envelope around it. Text form:
`dgm1.` + base64url(JSON array) [+ `.` + base64url(HMAC-SHA256, 16 bytes)].
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Literal

import msgspec
from msgspec import Struct

from dragoman.canonical.blocks import Opaque, Reasoning
from dragoman.jsontext import decoder

PREFIX = "dgm1."
MARKER = "marker"
"""`Opaque.origin` of an envelope without a vendor's state."""


class _Content(Struct, frozen=True, array_like=True):
    origin: str
    data: str
    id: str | None = None
    account: str = ""
    parts: tuple[str, ...] = ()
    style: str = "summary"
    redacted: bool = False


class _Anchored(_Content, frozen=True, array_like=True):
    anchor: Literal["", "next", "previous"] = ""


_encoder = msgspec.json.Encoder()
_content = decoder(_Anchored)


class Sealer(Struct, frozen=True):
    """Makes and opens envelopes. With a `key`, envelopes are authenticated, so that a client
    cannot write reasoning of its own into one.
    """

    key: bytes = b""

    def __repr__(self) -> str:
        """Without the key."""
        return f"Sealer({'with' if self.key else 'without'} a key)"

    def seal(self, block: Reasoning) -> str:
        """The envelope of a block's opaque state and exact text; a marker if it has no state."""
        if block.opaque is None or block.opaque.origin == MARKER:
            digest = hashlib.sha256(block.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            content = _Content(MARKER, digest)
        else:
            opaque = block.opaque
            fields = (
                opaque.origin,
                opaque.data,
                opaque.id,
                opaque.account,
                block.parts,
                block.style,
                block.redacted,
            )
            content = _Anchored(*fields, opaque.anchor) if opaque.anchor else _Content(*fields)
        payload = _encode(_encoder.encode(content))
        if not self.key:
            return PREFIX + payload
        return f"{PREFIX}{payload}.{_encode(self._tag(payload))}"

    def open(self, text: str) -> Reasoning | None:
        """The block that was sealed; None if `text` is not an intact envelope.

        For a marker the block has no parts: the client's own text is all there is.
        """
        if not text.startswith(PREFIX):
            return None
        payload, _, tag = text[len(PREFIX) :].partition(".")
        try:
            if self.key and not hmac.compare_digest(self._tag(payload), _decode(tag)):
                return None
            content = _content(_decode(payload))
        except ValueError:  # no base64, or no JSON
            return None
        return Reasoning(
            parts=content.parts,
            style="raw" if content.style == "raw" else "summary",
            opaque=Opaque(
                content.origin, content.data, content.id, content.account, content.anchor
            ),
            redacted=content.redacted,
        )

    def _tag(self, payload: str) -> bytes:
        return hmac.digest(self.key, payload.encode(), "sha256")[:16]


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
