"""Stand-ins for the transport of one answer, which change how uvicorn's writes reach the socket."""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class _StandIn:
    """Takes the place of a cycle's transport."""

    __slots__ = ("_transport",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._transport = cycle.transport
        cycle.transport = cast("asyncio.Transport", self)

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is being closed."""
        return self._transport.is_closing()


class JoinedWrites(_StandIn):
    """Joins an answer's head to what follows it.

    An ASGI server is given head and body one after the other and writes each as it comes: two
    system calls and two packets per answer. Here the head waits for the first piece of the body.
    Whoever sends a head must therefore send a piece after it, if only an empty one. After that the
    answer writes to the transport itself.
    """

    __slots__ = ("_cycle", "_held")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        super().__init__(cycle)
        self._cycle = cycle
        self._held = b""

    def write(self, data: bytes) -> None:
        """Hold the head of the answer, or send it with what follows."""
        if not self._held and not data.startswith(b"HTTP/1.1 100 "):
            self._held = data
            return
        self._step_aside()
        self._transport.write(self._held + data)

    def close(self) -> None:
        """Send what is held and close the connection."""
        self._step_aside()
        if self._held:
            self._transport.write(self._held)
        self._transport.close()

    def _step_aside(self) -> None:
        self._cycle.transport = self._transport


class UnchunkedWrites(_StandIn):
    """Takes the chunked coding off an answer: a client of HTTP/1.0 would take the chunks' sizes
    for part of the body (RFC 9112, 6.1). The end of the connection is the end of its answer.
    """

    __slots__ = ("_chunked",)

    _HEADER = b"transfer-encoding: chunked\r\n"

    def __init__(self, cycle: RequestResponseCycle) -> None:
        super().__init__(cycle)
        self._chunked: bool | None = None

    def write(self, data: bytes) -> None:
        """Send the head, or what is inside of whole chunks."""
        if self._chunked is None:
            self._chunked = self._HEADER in data
            data = data.replace(self._HEADER, b"", 1)
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
