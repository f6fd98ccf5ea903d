"""The health of hosts: which of them cannot be reached, and how often a request tries. Pure.

A host is an address and port, reached directly or through a certain proxy. One that cannot be
connected to rests for a time that grows with failures in a row, varies, and is forgotten with the
first answer. Where there is another upstream, it is asked before one whose host rests; when the
rest is over, one request is the trial. Accounts are not blamed for their hosts.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.decide.proxies import rest_after
from dragoman.accounts.decide.states import Rest

UNREACHED = "its host cannot be reached"

_TRIAL_S = 10.0
"""Seconds for which a trial keeps others away, unless its outcome is known before."""

_MOST_WAYS = 4
"""Calls of a request that may end without a connection where accounts go several ways."""


class Host(Struct, frozen=True):
    """A host, and the URL of the proxy through which it is reached, empty for none."""

    address: str
    port: int
    proxy: str = ""

    def __str__(self) -> str:
        """Without the proxy, whose URL may have a password."""
        return f"{self.address}:{self.port}"

    def __repr__(self) -> str:
        """As above."""
        return f"Host({self})"


class Hosts:
    """The hosts that could not be reached of late, with their `rests`."""

    __slots__ = ("rests",)

    def __init__(self) -> None:
        self.rests: dict[Host, Rest] = {}

    def rest(self, host: Host) -> Rest | None:
        """The last rest of the host that no answer has ended; it may be over."""
        return self.rests.get(host)

    def is_avoided(self, host: Host, now: float) -> bool:
        """Whether other hosts are asked first. The first call after a rest gets False: it is
        the trial."""
        rest = self.rests.get(host)
        if rest is None:
            return False
        if rest.until > now:
            return True
        self.rests[host] = replace(rest, until=now + _TRIAL_S)
        return False

    def failed(self, host: Host, taken: float, now: float, spread: float) -> Rest | None:
        """A call that began at `taken` could not connect. Returns the rest that this begins; None
        if it began before the last failure: a timeout may be reported long after."""
        before = self.rests.get(host)
        if before is not None and taken < before.since:
            return None
        rest = rest_after(before, now, spread)
        self.rests[host] = replace(rest, why=UNREACHED)
        return self.rests[host]

    def answered(self, host: Host, taken: float) -> None:
        """The host answered something, whatever it was, to a call that began at `taken`. One that
        began before the failure may have had its connection from then."""
        rest = self.rests.get(host)
        if rest is not None and taken >= rest.since:
            del self.rests[host]


def dials_again(failed: int, *, timed_out: bool, was_known: bool, one_way: bool) -> bool:
    """Whether a request that could not connect, for the `failed`-th time, tries the upstream again.

    A refusal may be a blip, such as a restart or one address of several, so it is tried again,
    once, unless the host was known to be unreachable when the request came. After a wait for
    nothing it is left alone: each further one would cost as long. Where accounts go several ways,
    through proxies of their own, some of these are tried.
    """
    if not one_way:
        return failed < _MOST_WAYS
    return failed < 2 and not timed_out and not was_known
