"""Limits of a server: bytes, seconds, connections, memory."""

from __future__ import annotations

import resource

from msgspec import Struct

RESERVED_FILES = 0.5
"""Share of this process's file descriptors that connections of clients never use: upstream calls
and the store need them."""

_FILES_OF_ITS_OWN = 32
"""File descriptors that a process has open besides its connections."""


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of one server. Sizes in bytes, times in seconds; a time of 0 means no limit."""

    head_bytes: int = 64 * 1024
    """Largest head of a request; also most bytes of trailers and of a chunk's extensions."""
    head_s: float = 30.0
    """From a connection's opening, or a head's first byte, until the head is complete."""
    body_s: float = 120.0
    """From when a body is asked for until all of it is there."""
    rate: int = 1000
    """Bytes per second at which a body must come, over each `PROGRESS_S` seconds, and at which a
    client must read a waiting answer, over each `send_s`."""
    idle_s: float = 75.0
    """For which a connection stays open between two requests."""
    send_s: float = 60.0
    """Period over which `rate` is required of a client that reads a waiting answer."""
    send_bytes: int = 64 * 1024
    """Bytes that wait to be sent on one connection before its application is made to wait."""
    linger_s: float = 5.0
    """For which the rest of an unread body is awaited after an early answer; 0: not at all."""
    linger_bytes: int = 1024 * 1024
    """Bytes of such a rest that are read at most."""
    connections: int = 10_000
    """Connections at once. At the limit, the one that is idle longest is closed, and further
    ones wait to be accepted."""
    address_connections: int = 1024
    """Connections at once of one address that is not this machine's; 0 for any number."""
    memory_bytes: int = 512 * 1024 * 1024
    """Bytes of all bodies and answers in memory; see `Budget`."""


PROGRESS_S = 10.0
"""Seconds over which progress is measured."""


def files_to_share() -> int | None:
    """Files that this process may open for connections of any kind, None for any number."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if files == resource.RLIM_INFINITY else max(0, files - _FILES_OF_ITS_OWN)


def connections_for(limits: Limits, files: int | None) -> int:
    """How many connections there may be, with so many `files_to_share`."""
    if files is None:
        return limits.connections
    return max(1, min(limits.connections, int(files * (1.0 - RESERVED_FILES))))


class Budget:
    """Memory that all requests of a process share. `used` bytes are reserved."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        """
        Args:
            limit: bytes that may be reserved at once.
        """
        self.limit = limit
        self.used = 0

    def reserve(self, size: int) -> bool:
        """Reserve so many more bytes; False if that would exceed the limit."""
        used = self.used + size
        if used > self.limit:
            return False
        self.used = used
        return True

    def release(self, size: int) -> None:
        """Give so many reserved bytes back."""
        self.used -= size
