"""What stands between one answer and the socket, and changes how uvicorn's writes reach it."""

from __future__ import annotations

from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

CONNECTION = "dragoman.connection"
"""The key in a scope's `state` under which the application finds the `AnswerTransport` of a
request. It must take it out: it holds what the scope is part of."""

_CONTINUE = b"HTTP/1.1 100 "


class AnswerTransport:
    """Takes the place of a cycle's transport, and offers what ASGI does not: header lines that are
    not checked anew for each answer, whether the body is there, and word of a client that leaves.

    `lines` are put between the status line and the headers of the answer. They are ready to be
    sent, each with its line end.
    """

    lines = b""
    _on_left: Callable[[], None] | None = None

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self.cycle = cycle
        self._transport = cycle.transport
        cycle.transport = self  # type: ignore[assignment]

    # What the application asks

    @property
    def has_body(self) -> bool:
        """Whether the whole body of the request has arrived."""
        return not self.cycle.more_body

    def watch(self, on_left: Callable[[], None]) -> bool:
        """Call `on_left` when the client leaves; False if it has. To be asked once the body was
        read: from here on the socket is read."""
        self._on_left = on_left
        self.cycle.flow.resume_reading()
        return not self.cycle.disconnected

    def unwatch(self) -> None:
        """Call nobody."""
        self._on_left = None

    def put(self, data: bytes) -> bool:
        """Send a piece of an answer's body that has begun, as uvicorn would, without a message and
        a coroutine for it. False where that cannot be: the client reads too slowly, or is gone.
        """
        cycle = self.cycle
        if not cycle.chunked_encoding or cycle.flow.write_paused or cycle.disconnected:
            return False
        cycle.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    # What the protocol tells

    def left(self) -> None:
        """The client has left."""
        if self._on_left is not None:
            self._on_left()

    # What uvicorn asks of a transport

    def write(self, data: bytes) -> None:
        """Send the head of an answer, or of an interim one, or a piece of its body."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection."""
        self._step_aside()
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is being closed."""
        return self._transport.is_closing()

    def _step_aside(self) -> None:
        """From here on the answer is written to the connection itself."""
        self.cycle.transport = self._transport

    def _with_lines(self, head: bytes) -> bytes:
        start = head.index(b"\n") + 1
        return b"".join((head[:start], self.lines, head[start:]))


class JoinedWrites(AnswerTransport):
    """Joins an answer's head to what follows it.

    An ASGI server is given head and body one after the other and writes each as it comes: two
    system calls and two packets per answer. Here the head waits for the first piece of the body.
    Whoever sends a head must therefore send a piece after it, if only an empty one. After that the
    answer writes to the transport itself.
    """

    _held = b""

    def write(self, data: bytes) -> None:
        """Hold the head of the answer, or send it with what follows."""
        if self._held:
            self._step_aside()
            self._transport.writelines((self._held, data))
        elif data.startswith(_CONTINUE):
            self._transport.write(data)
        else:
            self._held = self._with_lines(data)

    def close(self) -> None:
        """Send what is held and close the connection."""
        if self._held:
            self._transport.write(self._held)
        super().close()


class HeadWrites(AnswerTransport):
    """For an answer to HEAD, which has no body that a head could wait for."""

    def write(self, data: bytes) -> None:
        """Send the head."""
        if data.startswith(_CONTINUE):
            self._transport.write(data)
        else:
            self._step_aside()
            self._transport.write(self._with_lines(data))


class UnchunkedWrites(AnswerTransport):
    """Takes the chunked coding off an answer: a client of HTTP/1.0 would take the chunks' sizes
    for part of the body (RFC 9112, 6.1). The end of the connection is the end of its answer.
    """

    _HEADER = b"transfer-encoding: chunked\r\n"
    _chunked: bool | None = None

    def write(self, data: bytes) -> None:
        """Send the head, or what is inside of whole chunks."""
        if data.startswith(_CONTINUE):
            pass
        elif self._chunked is None:
            self._chunked = self._HEADER in data
            data = self._with_lines(data.replace(self._HEADER, b"", 1))
        elif self._chunked:
            data = _inside(data)
        if data:
            self._transport.write(data)


def _inside(chunks: bytes) -> bytes:
    """What whole chunks hold, one after the other."""
    pieces: list[bytes] = []
    start = 0
    while start < len(chunks):
        line_end = chunks.index(b"\r\n", start)
        size = int(chunks[start:line_end], 16)
        pieces.append(chunks[line_end + 2 : line_end + 2 + size])
        start = line_end + 2 + size + 2
    return b"".join(pieces)
