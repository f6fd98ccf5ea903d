"""Asks the owner of limits of the gateway that runs on this machine, from another process."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.config.settings import Server
from dragoman.link.messages import Answer, Asked, Handlers, LinkClosed, Notice, Question


class RunningOwner:
    """The owner in the gateway that serves by these settings. Implements
    `dragoman.link.messages.Peer`; nothing can be reported to it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.number = 0
        self.name = "command"
        self.is_closed = False
        self.handlers = Handlers()

    async def ask(
        self,
        question: Question[Asked, Answer],
        message: Asked,
        unclaimed: Callable[[Answer], object] | None = None,
    ) -> Answer:
        """See `Peer.ask`."""
        raise LinkClosed

    def report(self, notice: Notice[Asked], message: Asked) -> None:
        """See `Peer.report`."""

    def close(self) -> None:
        """See `Peer.close`."""
