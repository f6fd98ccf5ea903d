"""The owner's side of links: what answers borrowers, and who they are."""

from __future__ import annotations

import socket

from dragoman.link.messages import Handlers, Peer
from dragoman.link.peers import LocalPeer, SocketPeer, local_link


class Owner:
    """The owner of what is counted or decided together. Its services are registered in `handlers`;
    `peers` are the borrowers, in the order of their coming.

    When a borrower ends, which is seen at once, it is removed from `peers` and then the handlers of
    `Handlers.on_closed` are called with it: they take back what it was lent.
    """

    def __init__(self) -> None:
        self.handlers = Handlers()
        self.handlers.on_closed(self._remove)
        self.peers: dict[Peer, None] = {}

    def join(self, handlers: Handlers, number: int = 0) -> LocalPeer:
        """The owner, as a worker of the same process sees it; `handlers` are the worker's."""
        owner, worker = local_link(self.handlers, handlers, number)
        self.peers[worker] = None
        return owner

    async def accept(self, sock: socket.socket, number: int) -> None:
        """Have a worker of that number, which is at the other end of a socket, as a borrower."""
        self.peers[await SocketPeer.open(sock, self.handlers, number)] = None

    def forget(self) -> None:
        """In a process that was forked from this one: leave all links to the parent."""
        for peer in self.peers:
            if isinstance(peer, SocketPeer):
                peer.forget()

    def _remove(self, peer: Peer) -> None:
        self.peers.pop(peer, None)
