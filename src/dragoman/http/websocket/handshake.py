"""The opening handshake: what a client offers, and what is agreed (RFC 6455, 4.2; RFC 7692, 7)."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping

from msgspec import Struct

from dragoman.http.request import Request

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_VERSION = b"13"
_WINDOWS = frozenset(str(bits) for bits in range(8, 16))


class BadOffer(Exception):
    """An offer that cannot be agreed to: the status and header lines of the answer, and why."""

    def __init__(self, status: int, message: str, headers: list[tuple[bytes, bytes]]) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


class Agreed(Struct, frozen=True):
    """What was agreed. `lines` are the header lines of the answer that belong to it; `compressed`
    says that the client may compress its messages."""

    lines: bytes
    compressed: bool


def is_offered(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the head of a request (lower-case names) offers a WebSocket."""
    return b"websocket" in _tokens(headers.get(b"upgrade", b""))


def agree(request: Request) -> Agreed:
    """What is agreed with the client of a request that offers a WebSocket.

    No subprotocol is chosen. A client may compress each message by itself; what it is sent is
    never compressed, which the extension leaves to the sender (RFC 7692, 6), so that neither side
    keeps a window between messages.

    Raises:
        BadOffer: it is no offer of this version.
    """
    headers = request.headers
    if headers.get(b"sec-websocket-version", b"").strip() != _VERSION:
        told = "Only version 13 of the WebSocket protocol is spoken here."
        raise BadOffer(426, told, [(b"sec-websocket-version", _VERSION)])
    key = headers.get(b"sec-websocket-key", b"").strip()
    if request.method != "GET" or not request.upgrade or not _is_key(key):
        raise BadOffer(400, "This is not a valid WebSocket handshake.", [])
    lines = (
        b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: %b\r\n"
        % accept_of(key)
    )
    extension = _deflate(headers.get(b"sec-websocket-extensions", b"").decode("latin-1"))
    if extension:
        lines += b"sec-websocket-extensions: %b\r\n" % extension.encode()
    return Agreed(lines, bool(extension))


def accept_of(key: bytes) -> bytes:
    """What a server answers to this key, to show that it understood the offer."""
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        return False


def _tokens(value: bytes) -> list[bytes]:
    return [token.strip().lower() for token in value.split(b",")]


def _deflate(offered: str) -> str:
    """The answer to the first offer of permessage-deflate that can be accepted, empty if there is
    none."""
    for offer in offered.split(","):
        name, *parameters = (part.strip() for part in offer.split(";"))
        accepted = _accepted(parameters) if name.lower() == "permessage-deflate" else None
        if accepted is not None:
            return "; ".join(["permessage-deflate", *accepted])
    return ""


def _accepted(offered: list[str]) -> list[str] | None:
    """The parameters of the answer to an offer; None if it has to be declined."""
    accepted = ["server_no_context_takeover", "client_no_context_takeover"]
    seen = set()
    for parameter in offered:
        name, given, value = (part.strip() for part in parameter.partition("="))
        value = value.strip('"')
        if name in seen:
            return None
        seen.add(name)
        if name == "server_max_window_bits":
            if value not in _WINDOWS:
                return None
            accepted.append(f"{name}={value}")
        elif name == "client_max_window_bits":
            if given and value not in _WINDOWS:
                return None
        elif name not in accepted or given:
            return None
    return accepted
