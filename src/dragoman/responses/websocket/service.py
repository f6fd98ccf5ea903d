"""WebSocket connections of clients: handshakes, and the number of connections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dragoman.config import Server
from dragoman.edge.auth import Caller
from dragoman.edge.continuation import Continuation
from dragoman.edge.incoming import IncomingRequest, Received
from dragoman.edge.record import Record
from dragoman.edge.websockets import OpenSockets, accepted
from dragoman.http import Request
from dragoman.responses.websocket.answers import Client, SocketRequest
from dragoman.responses.websocket.messages import Event, read_large_event
from dragoman.responses.websocket.session import Session, Terms
from dragoman.serving.idempotency import HEADER as IDEMPOTENCY_KEY
from dragoman.serving.large import LargeBodies

MAX_AGE_S = 3600.0
"""After which a connection ends, once its requests are answered."""
MEMORY_BYTES = 32 * 1024 * 1024
"""Of conversations that one connection remembers."""

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
    """The connections of one worker for Responses."""

    def __init__(
        self,
        sockets: OpenSockets,
        server: Callable[[], Server],
        answer: Callable[[Received, Continuation], Awaitable[None]],
        large: LargeBodies,
    ) -> None:
        """
        Args:
            sockets: all connections of the worker.
            server: returns the limits of bodies, which are those of messages.
            answer: answers one of their requests.
            large: reads large messages.
        """
        self._sockets = sockets
        self._server = server
        self._answer = answer
        self._large = large

    @property
    def open(self) -> int:
        """How many connections there are."""
        return self._sockets.open

    async def serve(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """Open a connection. The client's key was checked; it is checked again for each request.

        Raises:
            DragomanError: UPGRADE_REQUIRED, INVALID_REQUEST: it is no handshake. OVERLOADED,
                RATE_LIMITED: there are as many connections as may be.
            ClientGone: the client left.
        """
        request = incoming.received
        assert isinstance(request, Request)
        handshake = accepted(incoming, self._server())
        terms = Terms(
            age_s=MAX_AGE_S,
            idle_s=self._sockets.settings.idle_timeout_s,
            memory_bytes=MEMORY_BYTES,
        )
        session = Session(
            handshake,
            terms,
            incoming.clock,
            request.budget,
            _client(incoming, caller),
            self,
        )
        self._sockets.admit(caller.name)
        self._sockets.begin(incoming, session)

    async def answer(self, request: SocketRequest) -> None:
        """Answer a request of a connection."""
        await self._answer(request, request.continuation)

    async def read_large(self, message: bytes) -> Event:
        """Read a large message of a connection.

        Raises:
            DragomanError: it is no event, or too large.
        """
        return await read_large_event(self._large, message)

    def remove(self, session: Session) -> None:
        """A connection is over."""
        self._sockets.remove(session.client.name)


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
