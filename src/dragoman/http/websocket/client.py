"""The client's side of the opening handshake (RFC 6455, 4.1)."""

from __future__ import annotations

import base64
import os

from dragoman.http.websocket.handshake import accept_of

OFFER = (("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13"))


def new_key() -> bytes:
    """A key, one for each connection."""
    return base64.b64encode(os.urandom(16))


def read_answer(head: bytes, key: bytes) -> int:
    """The status of an answer to an offer with this key; 101 only if the server agrees. `head` ends
    before the blank line. No extension and no subprotocol was offered.

    Raises:
        ValueError: it is no such answer.
    """
    first, *lines = head.split(b"\r\n")
    version, status, *_ = first.split(b" ", 2)
    if version != b"HTTP/1.1" or len(status) != 3 or not status.isdigit():
        raise ValueError("the answer to a WebSocket handshake is not HTTP/1.1")
    if status != b"101":
        return int(status)
    told = {}
    for line in lines:
        name, _, value = line.partition(b":")
        told[name.strip().lower()] = value.strip()
    if (
        told.get(b"upgrade", b"").lower() != b"websocket"
        or b"upgrade" not in told.get(b"connection", b"").lower()
        or told.get(b"sec-websocket-accept") != accept_of(key)
        or b"sec-websocket-extensions" in told
        or b"sec-websocket-protocol" in told
    ):
        raise ValueError("the answer to a WebSocket handshake does not fit the offer")
    return 101
