"""uvicorn's HTTP protocol, writing the head of an answer together with what follows it.

An ASGI server is given head and body one after the other and writes each as it comes: two system
calls and two packets per answer. Here the head waits for the first piece of the body. Whoever sends
a head must therefore send a piece after it, if only an empty one.
"""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class JoinedWrites:
    """The part of a transport that one answer uses; holds its first write until the second."""

    __slots__ = ("_held", "_passing", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held = b""
        self._passing = False

    def write(self, data: bytes) -> None:
        """Send, or hold the head of the answer."""
        if self._passing:
            self._transport.write(data)
        elif self._held:
            self._passing = True
            self._transport.write(self._held + data)
            self._held = b""
        elif data.startswith(b"HTTP/1.1 100 "):
            self._transport.write(data)
        else:
            self._held = data

    def close(self) -> None:
        """Send what is held and close the connection."""
        if self._held:
            self._transport.write(self._held)
            self._held = b""
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is being closed."""
        return self._transport.is_closing()


class JoiningProtocol(HttpToolsProtocol):
    """One connection of a client."""

    def on_headers_complete(self) -> None:
        """A request's head has arrived; the application will run in the loop's next turn."""
        before = self.cycle
        super().on_headers_complete()
        # A HEAD request's answer is never followed by a body.
        if self.cycle is not before and self.scope["method"] != "HEAD":
            self.cycle.transport = cast("asyncio.Transport", JoinedWrites(self.transport))
