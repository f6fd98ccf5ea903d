"""uvicorn's HTTP protocol, writing the head of an answer together with what follows it.

An ASGI server is given head and body one after the other and writes each as it comes: two system
calls and two packets per answer. Here the head waits for the first piece of the body. Whoever sends
a head must therefore send a piece after it, if only an empty one.
"""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle


class JoinedWrites:
    """Stands in for the transport of one answer until its second write, and joins the first to it.

    After that the answer writes to the transport itself.
    """

    __slots__ = ("_cycle", "_held", "_transport")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._held = b""
        cycle.transport = cast("asyncio.Transport", self)

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

    def is_closing(self) -> bool:
        """Whether the connection is being closed."""
        return self._transport.is_closing()

    def _step_aside(self) -> None:
        self._cycle.transport = self._transport


class JoiningProtocol(HttpToolsProtocol):
    """One connection of a client."""

    def on_headers_complete(self) -> None:
        """A request's head has arrived; the application will run in the loop's next turn."""
        before = self.cycle
        super().on_headers_complete()
        # A HEAD request's answer is never followed by a body.
        if self.cycle is not before and self.scope["method"] != "HEAD":
            JoinedWrites(self.cycle)
