"""What the connections of one server share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from dragoman.http.head import http_date
from dragoman.http.limits import Budget, Limits
from dragoman.http.problems import Refuse
from dragoman.http.request import Link, Request
from dragoman.http.turns import Turns

READ_BUFFER = 128 * 1024
"""Bytes read from a socket at once, at most."""

SHORT_READ = 8 * 1024
"""The same for heads and chunked bodies, whose cost is in the number of lines and chunks, of one
byte each at worst."""

GRACE_S = 1.0
"""Seconds for which a connection may be idle although it is to end, or others wait for its place:
its client may be about to send a request."""

Application = Callable[[Request], Awaitable[None]]
"""Answers a request."""


class Context:
    """What the connections of one server share. Belongs to one event loop.

    All read into one `buffer`; what outlives the read is copied, so an idle connection has no
    buffer.
    """

    __slots__ = (
        "app",
        "budget",
        "buffer",
        "closing",
        "date",
        "forget",
        "limits",
        "loop",
        "refuse",
        "requests",
        "short_view",
        "turns",
        "view",
    )

    def __init__(
        self,
        app: Application,
        refuse: Refuse,
        limits: Limits,
        budget: Budget,
        forget: Callable[[Link], None],
    ) -> None:
        """
        Args:
            app: answers requests.
            refuse: renders the answers to what never becomes a request.
            limits: of the server.
            budget: memory for bodies and answers.
            forget: called with each connection that is gone.
        """
        self.app = app
        self.refuse = refuse
        self.limits = limits
        self.budget = budget
        self.forget = forget
        self.loop = asyncio.get_running_loop()
        self.buffer = bytearray(READ_BUFFER)
        self.view = memoryview(self.buffer)
        self.short_view = self.view[:SHORT_READ]
        self.turns = Turns(self.loop)
        self.requests: dict[Request, asyncio.Task[None]] = {}
        """Those whose application has not returned, and their tasks."""
        self.closing = False
        """Whether each connection is closed after its answer: the server is shutting down, or
        clients wait to be accepted."""
        self.set_date()

    def set_date(self) -> None:
        """Set the `Date` of answers to the current second."""
        self.date = b"date: %b\r\n" % http_date(time.time()).encode()
