"""How often an address may try keys that are not valid."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from dragoman.http.addresses import counted

_WINDOW_S = 60.0
_MOST_ADDRESSES = 4096
_MOST_KNOWN = 1024


class Logins:
    """Counts failed logins by address, over a minute from the first.

    An address that has used them up is refused whatever key it sends: what it learns of a key
    then is nothing. Clients that called with a valid key meanwhile are let through, so that one
    program with an old key does not lock out the others behind its address.
    """

    __slots__ = ("_known", "_most", "failures")

    def __init__(self, most: int) -> None:
        """
        Args:
            most: failed logins of one address in a minute; 0 for any number.
        """
        self._most = most
        self.failures: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """By address: when the first of them was, and how many there are. While there are none,
        nothing has to be asked."""
        self._known: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def wait(self, address: str, key: bytes, now: float) -> float:
        """Seconds until a login from `address` is looked at, 0 if it is now."""
        address = counted(address)
        began, count = self.failures.get(address, (0.0, 0))
        if not count or count < self._most or now >= began + _WINDOW_S:
            return 0.0
        if (address, _digest(key)) in self._known:
            return 0.0
        return began + _WINDOW_S - now

    def failed(self, address: str, now: float) -> None:
        """A login from `address` failed."""
        if not self._most:
            return
        address = counted(address)
        began, count = self.failures.pop(address, (now, 0))
        if now >= began + _WINDOW_S:
            began, count = now, 0
        self.failures[address] = began, count + 1
        if len(self.failures) > _MOST_ADDRESSES:
            self.failures.popitem(last=False)

    def succeeded(self, address: str, key: bytes, now: float) -> None:
        """A login from `address` with this key succeeded."""
        address = counted(address)
        began, _ = self.failures.get(address, (0.0, 0))
        if not began:
            return
        if now >= began + _WINDOW_S:
            del self.failures[address]
            return
        self._known[address, _digest(key)] = None
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
