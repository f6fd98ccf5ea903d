"""The limit of wrong keys per address."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from dragoman.http.addresses import counted, is_here
from dragoman.link.messages import Notice, Peer
from dragoman.link.owner import Owner

_WINDOW_S = 60.0
_MOST_ADDRESSES = 4096


class WrongKey(Struct, frozen=True):
    """A missing or wrong key came from an address."""

    address: str


WRONG_KEY = Notice("logins.wrong_key", WrongKey)


def relay_logins(owner: Owner) -> None:
    """At the owner: report the wrong keys at each worker to the others."""

    def relay(worker: Peer, message: WrongKey) -> None:
        for peer in owner.peers:
            if peer is not worker:
                peer.report(WRONG_KEY, message)

    owner.handlers.receive(WRONG_KEY, relay)


class Logins:
    """Counts wrong keys by address, at all workers, over a minute from the first.

    A key is looked up before anything is counted: a good one is never refused for the wrong ones of
    others behind the same address. Keys are too long to be guessed (`docs/security.md`).
    """

    __slots__ = ("_clock", "_failures", "_link", "_most")

    def __init__(self, most: int, link: Peer, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            most: wrong keys of one address in a minute; 0 for any number.
            link: the link to the owner, by which workers report wrong keys.
            clock: monotonic seconds.
        """
        self._most = most
        self._link = link
        self._clock = clock
        link.handlers.receive(WRONG_KEY, self._receive)
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """By address: when the first of them was, and how many there are."""

    def failed(self, address: str) -> float:
        """Count a wrong key from `address`. Returns the seconds until the next one is answered as
        wrong, where there were too many; 0 where there were not, and for this machine."""
        if not self._most or is_here(address):
            return 0.0
        address = counted(address)
        began, count = self._count(address)
        self._link.report(WRONG_KEY, WrongKey(address))
        return began + _WINDOW_S - self._clock() if count > self._most else 0.0

    def _receive(self, owner: Peer, message: WrongKey) -> None:
        self._count(message.address)

    def _count(self, address: str) -> tuple[float, int]:
        now = self._clock()
        began, count = self._failures.pop(address, (now, 0))
        if now >= began + _WINDOW_S:
            began, count = now, 0
        found = self._failures[address] = began, count + 1
        if len(self._failures) > _MOST_ADDRESSES:
            self._failures.popitem(last=False)
        return found
