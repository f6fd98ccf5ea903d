"""Asks the gateway that runs on this machine, from the process of a command."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dragoman.config.settings import Server
from dragoman.link.messages import Answer, Asked, Handlers, LinkClosed, Notice, Question
from dragoman.processes.listening import resolve
from dragoman.processes.take_over import ask_for_limits


class RunningOwner:
    """The owner of limits in the gateway that serves by these settings: it is asked for their
    states, and for nothing else. Implements `dragoman.link.messages.Peer`."""

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
        server = self._server
        if server.unix_socket is not None or not server.port:
            raise LinkClosed
        try:
            address = resolve(server.host, server.port)
            answer = ask_for_limits(address, msgspec.msgpack.encode(message))
        except OSError:
            raise LinkClosed from None
        if answer is None:
            raise LinkClosed
        return question.read_answer(answer)

    def report(self, notice: Notice[Asked], message: Asked) -> None:
        """See `Peer.report`: nothing can be reported."""

    def close(self) -> None:
        """See `Peer.close`."""
