"""uvicorn's HTTP protocol, held to what a server on a network needs.

uvicorn reads heads of any length, for any time, takes an offer of HTTP/2 for a request without a
body, and does not notice that a client left once it has sent a second request.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
)

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.gateway.edge.errors import rendered
from dragoman.gateway.edge.paths import codec_of
from dragoman.gateway.edge.writes import (
    CONNECTION,
    AnswerTransport,
    HeadWrites,
    JoinedWrites,
    UnchunkedWrites,
)

HEAD_BYTES = 64 * 1024
"""Largest head of a request; a larger one is answered 431."""

HEAD_TIMEOUT_S = 60.0
"""Seconds within which a connection must bring the whole head of a request, from its opening or
from the head's first byte."""

_WAITING = 8
"""Requests read ahead of the answer before them. While more wait, the socket is not read, and
that the client left cannot be seen."""

_MALFORMED = Fault(FaultKind.INVALID_REQUEST, "This is not a valid HTTP/1.1 request.")
_TOO_LARGE = Fault(FaultKind.INVALID_REQUEST, f"The request's head exceeds {HEAD_BYTES} bytes.")
_TOO_SLOW = Fault(FaultKind.REQUEST_TIMEOUT, "The request's head did not arrive in time.")


class JoiningProtocol(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.url = b""
        self._head_size = 0
        """Bytes of the head that is being read; -1 while a body is."""
        self._head_timer: asyncio.TimerHandle | None = None
        self._offers: list[tuple[bytes, bytes]] = []
        """Upgrades the client offers with the request that is being read."""
        self._running: AnswerTransport | None = None
        """The request that is being answered; `cycle` is the one read last."""

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected; it has `HEAD_TIMEOUT_S` seconds to say what it wants."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left: so every request of this connection is told."""
        self._unset_keepalive_if_required()
        self._unset_head_timer()
        running = self._running
        cycles = [] if running is None else [running.cycle]
        for cycle in cycles + [cycle for cycle, _ in self.pipeline]:
            if not cycle.response_complete:
                cycle.disconnected = True
                # Nothing is written any more, and a stand-in would hold the cycle that holds it.
                cycle.transport = self.transport
                cycle.message_event.set()
        if running is not None:
            running.left()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        self._unset_keepalive_if_required()
        if self._head_size >= 0:
            self._head_size += len(data)
        self._parse(data)
        if self._head_size > HEAD_BYTES:
            self._refuse(431, _TOO_LARGE)
        elif self._head_size > 0 and self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse(400, _MALFORMED)

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.transport.is_closing():
            return
        if self._head_size > 0:
            self._refuse(408, _TOO_SLOW)
        else:
            self.transport.close()

    def _unset_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: int, fault: Fault) -> None:
        """Answer what never became a request, and close. While an answer is under way nothing may
        come between its pieces, so then only the end of the connection tells."""
        busy = self._running is not None and not self._running.cycle.response_complete
        if not busy and not self.transport.is_closing():
            request_id = "req_" + secrets.token_hex(12)
            codec = codec_of(self.url.decode("latin-1").partition("?")[0], self.headers or [])
            _, body, headers = rendered(codec, fault, request_id)
            headers = [
                *self.server_state.default_headers,
                (b"x-request-id", request_id.encode()),
                (b"request-id", request_id.encode()),
                *headers,
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
                (b"connection", b"close"),
            ]
            lines = b"".join(b"%b: %b\r\n" % header for header in headers)
            self.transport.write(STATUS_LINE[status] + lines + b"\r\n" + body)
        self._head_size = -1
        self._unset_head_timer()
        self.transport.close()

    # Requests

    def on_headers_complete(self) -> None:
        """A request's head has arrived; the application will run in the loop's next turn."""
        if self.parser.should_upgrade():
            return
        self._head_size = -1
        self._unset_head_timer()
        self.headers += self._offers
        self._offers = []
        super().on_headers_complete()
        scope = self.scope
        answer: AnswerTransport
        if scope["http_version"] == "1.0":
            answer = UnchunkedWrites(self.cycle)
        elif scope["method"] == "HEAD":
            answer = HeadWrites(self.cycle)
        else:
            answer = JoinedWrites(self.cycle)
        scope["state"][CONNECTION] = answer
        if self.pipeline:
            if len(self.pipeline) < _WAITING:
                self.flow.resume_reading()
        else:
            self._running = answer

    def on_message_complete(self) -> None:
        """A request has arrived whole."""
        if self.parser.should_upgrade():
            return
        self._head_size = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer was given whole; the next request in line is served."""
        # What waits has written nothing yet.
        waiting = cast(AnswerTransport, self.pipeline[-1][0].transport) if self.pipeline else None
        super().on_response_complete()
        self._running = waiting

    def _decline_upgrade(self, rest: bytes) -> None:
        """Read the request as if it offered no other protocol, as a server may that wants none
        (RFC 9110, 7.8). Java's HTTP client offers HTTP/2 with every request.

        The parser stops after the head and takes the body for the other protocol, so a fresh one
        is given the head again, without the offer. The application is shown the offer.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(400, _MALFORMED)
            return
        offers = [header for header in self.headers if header[0] == b"upgrade"]
        lines = b"".join(b"%b: %b\r\n" % header for header in self.headers if header not in offers)
        version = self.parser.get_http_version().encode()
        self.parser = httptools.HttpRequestParser(self)
        # As uvicorn does: what follows a last request is not worth an error.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._offers = offers
        self._parse(b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, lines) + rest)
