"""The limit of failed logins per address."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from dragoman.http.addresses import counted
from dragoman.link.messages import Notice, Peer
from dragoman.link.owner import Owner

_WINDOW_S = 60.0
_MOST_ADDRESSES = 4096
_MOST_KNOWN = 1024


class Login(Struct, frozen=True):
    """Someone logged in from an address, with the key of this digest; without one, it failed."""

    address: str
    key: bytes = b""


LOGIN = Notice("logins.login", Login)


def relay_logins(owner: Owner) -> None:
    """At the owner: report the logins at each worker to the others."""

    def relay(worker: Peer, message: Login) -> None:
        for peer in owner.peers:
            if peer is not worker:
                peer.report(LOGIN, message)

    owner.handlers.receive(LOGIN, relay)


class Logins:
    """Counts failed logins by address, at all workers, over a minute from the first.

    An address at the limit is refused whatever key it sends, so that it learns nothing about a
    key. Clients that called with a valid key meanwhile are let through, so that one
    program with an old key does not lock out the others behind its address.
    """

    __slots__ = ("_clock", "_known", "_link", "_most", "failures")

    def __init__(self, most: int, link: Peer, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            most: failed logins of one address in a minute; 0 for any number.
            link: the link to the owner, by which workers report their logins.
            clock: monotonic seconds.
        """
        self._most = most
        self._link = link
        self._clock = clock
        link.handlers.receive(LOGIN, self._receive)
        self.failures: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """By address: when the first of them was, and how many there are. While there are none,
        no login has to be checked."""
        self._known: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def wait(self, address: str, key: bytes) -> float:
        """Seconds until a login from `address` is checked, 0 if it is now."""
        address, now = counted(address), self._clock()
        began, count = self.failures.get(address, (0.0, 0))
        if not count or count < self._most or now >= began + _WINDOW_S:
            return 0.0
        if (address, _digest(key)) in self._known:
            return 0.0
        return began + _WINDOW_S - now

    def failed(self, address: str) -> None:
        """A login from `address` failed."""
        if self._most:
            address = counted(address)
            self._count(address)
            self._link.report(LOGIN, Login(address))

    def succeeded(self, address: str, key: bytes) -> None:
        """A login from `address` with this key succeeded."""
        address = counted(address)
        began, _ = self.failures.get(address, (0.0, 0))
        if not began:
            return
        if self._clock() >= began + _WINDOW_S:
            del self.failures[address]
            return
        digest = _digest(key)
        if (address, digest) not in self._known:
            self._remember(address, digest)
            self._link.report(LOGIN, Login(address, digest))

    def _receive(self, owner: Peer, message: Login) -> None:
        if message.key:
            self._remember(message.address, message.key)
        else:
            self._count(message.address)

    def _count(self, address: str) -> None:
        now = self._clock()
        began, count = self.failures.pop(address, (now, 0))
        if now >= began + _WINDOW_S:
            began, count = now, 0
        self.failures[address] = began, count + 1
        if len(self.failures) > _MOST_ADDRESSES:
            self.failures.popitem(last=False)

    def _remember(self, address: str, digest: bytes) -> None:
        self._known[address, digest] = None
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
