"""The opening handshake of the server (RFC 6455, 4.2; RFC 7692, 7)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec import Struct
from websockets.datastructures import Headers
from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as Handshake
from websockets.protocol import Protocol, Side
from websockets.server import ServerProtocol
from websockets.typing import ExtensionParameter

from dragoman.http.request import Request

_VERSION = b"13"
_READ = (
    b"connection",
    b"upgrade",
    b"sec-websocket-key",
    b"sec-websocket-version",
    b"sec-websocket-extensions",
)
"""The headers that decide; subprotocols are not offered."""
_WRITTEN = ("Upgrade", "Connection", "Sec-WebSocket-Accept", "Sec-WebSocket-Extensions")

SILENT = logging.getLogger("dragoman.websocket.frames")
"""Logger of protocol objects, which would log payloads."""
SILENT.disabled = True


class WebSocketLimits(Struct, frozen=True, kw_only=True):
    """What a client may use. Sizes in bytes, times in seconds."""

    message_bytes: int = 32 * 1024 * 1024
    """Largest message, inflated."""
    message_s: float = 120.0
    """From the first to the last byte of a message, to within `ping_s`; 0 for no limit."""
    ping_s: float = 25.0
    """Between two pings. Proxies end connections that are silent for a minute or two."""


class BadHandshake(Exception):
    """A rejected handshake: status and headers of the answer, and why."""

    def __init__(self, status: int, message: str, headers: list[tuple[bytes, bytes]]) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


class Accepted(Struct, frozen=True):
    """An accepted handshake: the head of its answer, the state of the connection's framing, and the
    limits of its messages."""

    head: bytes
    protocol: Protocol
    limits: WebSocketLimits


def accept(request: Request, limits: WebSocketLimits, lines: bytes = b"") -> Accepted:
    """Accept the handshake of a request; `lines` are further headers of the answer, each with its
    line end.

    No subprotocol is selected. A client may compress each message by itself; what it is sent is
    never compressed, which the extension leaves to the sender (RFC 7692, 6), so that neither side
    keeps a window between messages.

    Raises:
        BadHandshake: the request does not ask for a connection of this version.
    """
    headers = request.headers
    if headers.get(b"sec-websocket-version", b"").strip() != _VERSION:
        message = "The WebSocket protocol version must be 13."
        raise BadHandshake(426, message, [(b"sec-websocket-version", _VERSION)])
    server = ServerProtocol(extensions=[_DEFLATE], logger=SILENT)
    given = {
        name.decode(): headers[name].decode("latin-1").strip() for name in _READ if name in headers
    }
    answer = server.accept(Handshake(request.path, Headers(given)))
    if request.method != "GET" or not request.wants_upgrade or answer.status_code != 101:
        raise BadHandshake(400, "This is not a valid WebSocket handshake.", [])
    # Of half the size: it stays for as long as the connection.
    protocol = Protocol(Side.SERVER, max_size=limits.message_bytes, logger=SILENT)
    protocol.extensions = server.extensions
    own = "".join(
        f"{name}: {answer.headers[name]}\r\n" for name in _WRITTEN if name in answer.headers
    )
    head = b"HTTP/1.1 101 Switching Protocols\r\n%b%b\r\n" % (own.encode(), lines)
    return Accepted(head, protocol, limits)


class CompressedFrame(Frame):
    """The first frame of a compressed message, as it came."""


class _PerMessageDeflate(Extension):
    """Marks compressed messages instead of inflating them: `websockets` would inflate a frame in
    one step, before memory for it is reserved."""

    name = ServerPerMessageDeflateFactory.name

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        if not frame.rsv1 or frame.opcode not in (Opcode.TEXT, Opcode.BINARY):
            return frame
        return CompressedFrame(
            frame.opcode, frame.data, frame.fin, rsv2=frame.rsv2, rsv3=frame.rsv3
        )

    def encode(self, frame: Frame) -> Frame:
        return frame


class _DeflateFactory(ServerPerMessageDeflateFactory):
    def process_request_params(  # type: ignore[override]  # another extension of the same name
        self, params: Sequence[ExtensionParameter], accepted_extensions: Sequence[Extension]
    ) -> tuple[list[ExtensionParameter], Extension]:
        answer, _ = super().process_request_params(params, accepted_extensions)
        return answer, _PerMessageDeflate()


_DEFLATE = _DeflateFactory(server_no_context_takeover=True, client_no_context_takeover=True)
