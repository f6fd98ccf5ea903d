"""WebSocket connections of clients: handshakes, and the number of connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from dragoman.canonical.errors import FaultKind
from dragoman.config import Server, WebSocket
from dragoman.edge.auth import Caller
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest, Received
from dragoman.edge.record import Record
from dragoman.http import Request
from dragoman.http.head import header_lines
from dragoman.http.websocket import BadHandshake, WebSocketLimits, accept
from dragoman.responses.websocket.messages import Event, read_large_event
from dragoman.responses.websocket.session import Client, Session, Terms
from dragoman.serving.idempotency import HEADER as IDEMPOTENCY_KEY
from dragoman.serving.large import LargeBodies

MAX_AGE_S = 3600.0
"""After which a connection ends, once its requests are answered."""
PING_S = 25.0
"""Between two pings. A client from which nothing came after three of them is cut off; proxies in
front of the gateway end what is silent for longer."""
MEMORY_BYTES = 32 * 1024 * 1024
"""Of conversations that one connection remembers."""
MOST_OF_A_CLIENT = 500
"""Connections with one key."""

_RETRY_S = 5.0
_OVERHEAD = 64 * 1024
"""Bytes that a message may have beyond the body of a request."""

_OF_THE_HANDSHAKE = frozenset(
    {
        b"connection",
        b"upgrade",
        b"sec-websocket-key",
        b"sec-websocket-version",
        b"sec-websocket-extensions",
        b"sec-websocket-protocol",
        b"content-length",
        b"content-encoding",
        b"transfer-encoding",
        b"expect",
        IDEMPOTENCY_KEY,
    }
)
"""Headers of the handshake only."""
_BETA = b"openai-beta"
_BETA_SOCKETS = b"responses_websockets="
_ORIGINATOR = b"originator"
"""Sent by Codex, as is the beta header: it gives up after five minutes without a message, whatever
else comes over the connection."""


class WebSockets:
    """The connections of one worker."""

    def __init__(
        self,
        settings: WebSocket,
        server: Callable[[], Server],
        answer: Callable[[Received], Awaitable[None]],
        large: LargeBodies,
        is_draining: Callable[[], bool],
    ) -> None:
        """
        Args:
            settings: the limits of connections.
            server: returns the limits of bodies, which are those of messages.
            answer: answers one of their requests.
            large: reads large messages.
            is_draining: whether the worker is shutting down.
        """
        self._settings = settings
        self._server = server
        self._answer = answer
        self._large = large
        self._is_draining = is_draining
        self._sessions: set[Session] = set()
        self._by_client: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._sessions)

    async def serve(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """Open a connection. The client's key was checked; it is checked again for each request.

        Raises:
            DragomanError: UPGRADE_REQUIRED, INVALID_REQUEST: it is no handshake. OVERLOADED,
                RATE_LIMITED: there are as many connections as may be.
            ClientGone: the client left.
        """
        request = incoming.sink
        assert isinstance(request, Request)
        self._admit(caller)
        server = self._server()
        limits = WebSocketLimits(
            message_bytes=server.body_limit_bytes + _OVERHEAD,
            message_s=server.body_timeout_s,
            ping_s=PING_S,
        )
        terms = Terms(
            age_s=MAX_AGE_S, idle_s=self._settings.idle_timeout_s, memory_bytes=MEMORY_BYTES
        )
        try:
            lines = incoming.lines + header_lines(incoming.shared)
            accepted = accept(request, limits, lines)
        except BadHandshake as bad:
            incoming.shared += bad.headers
            kind = FaultKind.UPGRADE_REQUIRED if bad.status == 426 else FaultKind.INVALID_REQUEST
            raise refusal(kind, bad.message) from None
        session = Session(
            accepted, terms, incoming.clock, request.budget, _client(incoming, caller), self
        )
        self._sessions.add(session)
        self._by_client[caller.name] += 1
        try:
            request.switch_to(session)
        except BaseException:
            session.connection_lost(None)
            raise
        incoming.status = 101
        incoming.ended = True

    async def answer(self, received: Received) -> None:
        """Answer a request of a connection."""
        await self._answer(received)

    async def read_large(self, message: bytes) -> Event:
        """Read a large message of a connection.

        Raises:
            DragomanError: it is no event, or too large.
        """
        return await read_large_event(self._large, message)

    def _admit(self, caller: Caller) -> None:
        if self._is_draining():
            raise refusal(
                FaultKind.OVERLOADED, "The gateway is shutting down.", retry_after=_RETRY_S
            )
        if len(self._sessions) >= self._settings.max_connections:
            message = "The gateway has as many WebSocket connections as it may."
            raise refusal(FaultKind.OVERLOADED, message, retry_after=_RETRY_S)
        if self._by_client[caller.name] >= MOST_OF_A_CLIENT:
            message = "There are too many WebSocket connections with this key."
            raise refusal(FaultKind.RATE_LIMITED, message, retry_after=_RETRY_S)

    def remove(self, session: Session) -> None:
        """A connection is over."""
        self._sessions.discard(session)
        name = session.client.name
        self._by_client[name] -= 1
        if not self._by_client[name]:
            del self._by_client[name]


def _client(incoming: IncomingRequest, caller: Caller) -> Client:
    headers = {
        name: value for name, value in incoming.headers.items() if name not in _OF_THE_HANDSHAKE
    }
    headers[b"content-type"] = b"application/json"
    beta = headers.pop(_BETA, b"")
    features = [one.strip() for one in beta.split(b",")]
    others = [one for one in features if one and not one.startswith(_BETA_SOCKETS)]
    if others:
        headers[_BETA] = b", ".join(others)
    wants_keepalives = _ORIGINATOR in headers or len(others) != len(
        [one for one in features if one]
    )
    return Client(
        caller.name, incoming.path, headers, incoming.address, wants_keepalives=wants_keepalives
    )
