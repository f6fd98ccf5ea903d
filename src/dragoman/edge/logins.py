"""The limits of wrong keys, and of wrong codes of sign-ins, per address."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from dragoman.edge.rates import PerMinute
from dragoman.http.addresses import counted, is_here
from dragoman.link.messages import Notice, Peer
from dragoman.link.owner import Owner

_MOST_ADDRESSES = 4096


class WrongKey(Struct, frozen=True):
    """A missing or wrong key came from an address."""

    address: str


WRONG_KEY = Notice("logins.wrong_key", WrongKey)
WRONG_CODE = Notice("logins.wrong_code", WrongKey)

MOST_WRONG_CODES = 20
"""Wrong codes of one address in ten minutes."""
_CODES_S = 600.0


def relay_logins(owner: Owner) -> None:
    """At the owner: report the wrong keys and codes at each worker to the others."""
    for notice in (WRONG_KEY, WRONG_CODE):

        def relay(worker: Peer, message: WrongKey, notice: Notice[WrongKey] = notice) -> None:
            for peer in owner.peers:
                if peer is not worker:
                    peer.report(notice, message)

        owner.handlers.receive(notice, relay)


class Logins:
    """Counts wrong keys by address, at all workers, over a minute from the first.

    A key is looked up before anything is counted: a good one is never refused for the wrong ones of
    others behind the same address. Keys are too long to be guessed (`docs/security.md`).
    """

    __slots__ = ("_counts", "_link", "_most")

    def __init__(self, most: int, link: Peer, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            most: wrong keys of one address in a minute; 0 for any number.
            link: the link to the owner, by which workers report wrong keys.
            clock: monotonic seconds.
        """
        self._most = most
        self._link = link
        self._counts = PerMinute(_MOST_ADDRESSES, clock)
        link.handlers.receive(WRONG_KEY, self._receive)

    def failed(self, address: str) -> float:
        """Count a wrong key from `address`. Returns the seconds until the next one is answered as
        wrong, where there were too many; 0 where there were not, and for this machine."""
        if not self._most or is_here(address):
            return 0.0
        address = counted(address)
        self._link.report(WRONG_KEY, WrongKey(address))
        return self._counts.count(address, self._most)

    def _receive(self, owner: Peer, message: WrongKey) -> None:
        self._counts.count(message.address, self._most)


class WrongCodes:
    """Counts wrong codes of sign-ins by address, at all workers, over ten minutes from the first.
    They are short enough to be typed, so this machine is counted as any other."""

    __slots__ = ("_counts", "_link")

    def __init__(self, link: Peer, clock: Callable[[], float] = time.monotonic) -> None:
        """`link` and `clock` as of `Logins`."""
        self._link = link
        self._counts = PerMinute(_MOST_ADDRESSES, clock, _CODES_S)
        link.handlers.receive(WRONG_CODE, self._receive)

    def is_over(self, address: str) -> bool:
        """Whether too many came from `address`, so that none is looked at."""
        return self._counts.is_over(counted(address), MOST_WRONG_CODES)

    def failed(self, address: str) -> None:
        """Count a wrong code from `address`."""
        address = counted(address)
        self._link.report(WRONG_CODE, WrongKey(address))
        self._counts.count(address, MOST_WRONG_CODES)

    def _receive(self, owner: Peer, message: WrongKey) -> None:
        self._counts.count(message.address, MOST_WRONG_CODES)
