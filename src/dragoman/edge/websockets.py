"""WebSocket connections of clients: how many there may be, and their handshakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dragoman.canonical.errors import FaultKind
from dragoman.config import Server, WebSocket
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.http import Request
from dragoman.http.head import header_lines
from dragoman.http.request import UpgradedConnection
from dragoman.http.websocket import Accepted, BadHandshake, WebSocketLimits, accept

PING_S = 25.0
"""Between two pings. A client from which nothing came after three of them is cut off; proxies in
front of the gateway end what is silent for longer."""
MOST_OF_A_CLIENT = 500
"""Connections with one key."""

_RETRY_S = 5.0
_OVERHEAD = 64 * 1024
"""Bytes that a message may have beyond the body of a request."""


class OpenSockets:
    """The connections of one worker, whatever they carry."""

    def __init__(self, settings: WebSocket, is_draining: Callable[[], bool]) -> None:
        """
        Args:
            settings: the limits of connections.
            is_draining: whether the worker is shutting down.
        """
        self.settings = settings
        self._is_draining = is_draining
        self.open = 0
        """How many connections there are."""
        self._by_client: Counter[str] = Counter()

    def admit(self, client: str) -> None:
        """Count one more of a client, until `remove`: also while an upstream is asked for it.

        Raises:
            DragomanError: OVERLOADED, RATE_LIMITED: there are as many as may be.
        """
        if self._is_draining():
            raise refusal(
                FaultKind.OVERLOADED, "The gateway is shutting down.", retry_after=_RETRY_S
            )
        if self.open >= self.settings.max_connections:
            message = "The gateway has as many WebSocket connections as it may."
            raise refusal(FaultKind.OVERLOADED, message, retry_after=_RETRY_S)
        if self._by_client[client] >= MOST_OF_A_CLIENT:
            message = "There are too many WebSocket connections with this key."
            raise refusal(FaultKind.RATE_LIMITED, message, retry_after=_RETRY_S)
        self.open += 1
        self._by_client[client] += 1

    def begin(self, incoming: IncomingRequest, upgraded: UpgradedConnection) -> None:
        """Switch the connection of a request to one that was admitted. It ends if that fails.

        Raises:
            ClientGone: the client left.
        """
        request = incoming.received
        assert isinstance(request, Request)
        try:
            request.switch_to(upgraded)
        except BaseException:
            upgraded.connection_lost(None)
            raise
        incoming.status = 101
        incoming.ended = True

    def remove(self, client: str) -> None:
        """A connection of a client is over, or did not begin."""
        self.open -= 1
        self._by_client[client] -= 1
        if not self._by_client[client]:
            del self._by_client[client]


def accepted(incoming: IncomingRequest, server: Server, lines: bytes = b"") -> Accepted:
    """The outcome of the handshake of a request; `lines` are headers of its answer besides the
    usual ones.

    Raises:
        DragomanError: UPGRADE_REQUIRED, INVALID_REQUEST: it is no handshake.
    """
    request = incoming.received
    assert isinstance(request, Request)
    limits = WebSocketLimits(
        message_bytes=server.body_limit_bytes + _OVERHEAD,
        message_s=server.body_timeout_s,
        ping_s=PING_S,
    )
    try:
        return accept(request, limits, incoming.lines + header_lines(incoming.shared) + lines)
    except BadHandshake as bad:
        incoming.shared += bad.headers
        kind = FaultKind.UPGRADE_REQUIRED if bad.status == 426 else FaultKind.INVALID_REQUEST
        raise refusal(kind, bad.message) from None
