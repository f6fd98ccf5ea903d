"""A connection to an upstream: bytes in, a parsed answer out. Knows nothing of pools or proxies."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Protocol, cast

import httptools

from dragoman.http.sending import unread_bytes
from dragoman.http.turns import Turns
from dragoman.upstream.dial import notice_vanished
from dragoman.upstream.errors import BadAnswer, ConnectionReset
from dragoman.upstream.incoming import Carrier

READ_BUFFER = 128 * 1024
"""Bytes read from a socket at once, at most, of a body that is passed on as it is."""

SHORT_READ = 32 * 1024
"""The same of all else, which is held or parsed."""

_HEAD_LIMIT = 64 * 1024

MISDIRECTED = 421
"""Misdirected Request (RFC 9110, section 15.5.20): to be retried on another connection."""

_PIECE = 256 * 1024
"""Bytes of a request that are sent in one go: TLS takes three milliseconds for a megabyte, and
others have their turn in between."""


class BodySender(Protocol):
    """Sends a body that comes in pieces."""

    def on_drained(self) -> None:
        """More can be written."""

    def on_lost(self) -> None:
        """The connection is gone."""


class Connection(asyncio.BufferedProtocol, Carrier):
    """A keep-alive connection that carries one exchange at a time.

    It reads into a buffer that all connections of a client share: the parser copies what outlives
    the read. So an idle connection has no buffer, and TLS needs no new one for each record.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffer: memoryview,
        turns: Turns,
        key: Hashable,
        on_free: Callable[["Connection"], None],
        on_lost: Callable[["Connection"], None],
    ) -> None:
        """
        Args:
            loop: the running loop.
            buffer: shared read buffer.
            turns: in which connections of the loop read on.
            key: where it is pooled.
            on_free: called when an exchange is over and the connection can carry another.
            on_lost: called when the connection is gone.
        """
        self._loop = loop
        self._buffer = buffer
        self._short_buffer = buffer[:SHORT_READ]
        self._turns = turns
        self.key = key
        self._on_free = on_free
        self._on_lost = on_lost
        self._transport: asyncio.Transport
        self._parser: httptools.HttpResponseParser
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        """Pieces of a body that one read brought."""
        # The parser calls it for each of them.
        self.on_body = self._body.append
        self._unsent: memoryview | None = None
        """What is left of a large body; None if nothing is."""
        self._full = False
        """Whether the transport's buffer is full."""
        self.sender: BodySender | None = None
        """What still sends the body of the request; None if all of it was handed over."""
        self.opened_at = loop.time()
        """Loop time at which the connection was made."""
        self.idle_since = 0.0
        """Loop time at which the last exchange ended."""

    @property
    def is_open(self) -> bool:
        """Whether another exchange can be tried on it."""
        return not self._transport.is_closing()

    def begin(self, head: bytes, body: bytes) -> None:
        """Send a request, of which an answer is expected."""
        transport = self._transport
        if len(body) > _PIECE:
            self._unsent = memoryview(body)
            transport.write(head)
            self._send_piece()
        else:
            # One system call, and no copy of the body. asyncio's own transport never gets rid of an
            # empty piece, from Python 3.12 on.
            transport.writelines((head, body) if body else (head,))

    def _send_piece(self) -> None:
        unsent = self._unsent
        if unsent is None or self._full:
            return
        self._transport.write(unsent[:_PIECE])
        self._unsent = unsent[_PIECE:] if len(unsent) > _PIECE else None
        if self._unsent is not None and not self._full:
            self._loop.call_soon(self._send_piece)

    def write(self, data: bytes) -> bool:
        """Send the next piece of a body that comes. Returns whether another can be taken at once.

        Raises:
            ConnectionReset: the connection is gone.
        """
        if not self.is_open:
            raise ConnectionReset("the connection was closed before the request was sent")
        self._transport.write(data)
        return not self._full

    @property
    def is_full(self) -> bool:
        """Whether the upstream takes nothing more for now."""
        return self._full and self.is_open

    def abort(self) -> None:
        """Close at once, whatever is in progress."""
        self._transport.abort()

    def unsent(self) -> int:
        """Bytes of the request that wait here because the upstream did not take them yet."""
        return self._transport.get_write_buffer_size()

    def unread(self) -> int:
        """Bytes of the request that the upstream has not read: here, and in the kernel."""
        return unread_bytes(self._transport)

    def pause(self, paused: bool) -> None:
        """Stop or resume reading from the socket."""
        if self.is_open:
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # Not before: it references this connection, and one that failed never gets
        # `connection_lost`.
        self._parser = httptools.HttpResponseParser(self)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if self.sender is not None:
            self.sender.on_drained()
        self._send_piece()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unsent = None
        self._stop_timer()
        # It references this connection.
        del self._parser
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            incoming.on_lost(exc)
        if self.sender is not None:
            self.sender.on_lost()
        self._on_lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        incoming = self._incoming
        return self._short_buffer if incoming is None or not incoming.in_bulk else self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        incoming = self._incoming
        if incoming is None:
            # An answer nobody asked for, such as a 408 for idling: the connection is spent.
            self.abort()
            return
        incoming.received += nbytes
        bad = ""
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except httptools.HttpParserUpgrade:
            bad = "the upstream switched to another protocol"
        except httptools.HttpParserError as error:
            bad = f"the answer is not HTTP/1.1: {error}"
        if not incoming.has_head:
            if incoming.received > _HEAD_LIMIT:
                bad = bad or "the head of the answer is too large"
        elif self._headers:
            # Trailers: nothing reads them.
            self._headers.clear()
        if self._body and not incoming.complete:
            incoming.on_read(self._body)
        if bad:
            incoming.fail(BadAnswer(bad))
            self.abort()
        if nbytes >= SHORT_READ and nbytes >= len(self.get_buffer(-1)) and self.is_open:
            # uvloop reads on while the buffer comes full, up to 32 times: others go first.
            self._transport.pause_reading()
            self._turns.wait(self._read_on)

    def _read_on(self) -> None:
        incoming = self._incoming
        if incoming is None or not incoming.paused:
            self.pause(False)

    # httptools

    def on_message_begin(self) -> None:
        if self._incoming is None:
            # It came in one read with the answer, and would be taken for the next one's.
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        headers, name = self._headers, name.lower()
        headers[name] = b"%b, %b" % (headers[name].strip(), value) if name in headers else value

    def on_headers_complete(self) -> None:
        incoming, status = self._incoming, self._parser.get_status_code()
        if incoming is not None and status // 100 != 1:
            incoming.on_head(status, self._headers)
        self._headers = {}

    def on_message_complete(self) -> None:
        incoming, transport = self._incoming, self._transport
        if incoming is None or not incoming.has_head:
            return
        self._incoming = None
        incoming.complete = True
        incoming.on_read(self._body)
        if (
            self._unsent is not None
            # An upstream that answers before it has read the request is not waited for.
            or self.sender is not None
            or transport.get_write_buffer_size()
            or incoming.status == MISDIRECTED
            or not self._parser.should_keep_alive()
        ):
            transport.abort()
            return
        if incoming.paused:
            self.pause(False)
        if not self.idle_since:
            notice_vanished(transport)
        self.idle_since = self._loop.time()
        self._on_free(self)
