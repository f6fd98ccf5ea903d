"""Idle connections, ready for the next request to the same origin through the same proxy."""

import asyncio
from collections.abc import Hashable

from dragoman.upstream.connection import Connection


class ConnectionPool:
    """Idle connections by key; the one used last is taken first, so that spares expire."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, max_idle: int, expiry: float, max_age: float
    ) -> None:
        """
        Args:
            loop: the running loop.
            max_idle: connections stored per key.
            expiry: seconds after which an idle connection is closed.
            max_age: seconds after which a connection carries no further exchange, so that names
                are looked up again.
        """
        self._loop = loop
        self._max_idle = max_idle
        self._expiry = expiry
        self._max_age = max_age
        self._idle: dict[Hashable, list[Connection]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def take(self, key: Hashable) -> Connection | None:
        """An open idle connection, None where there is none."""
        idle = self._idle.get(key)
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        return None

    def put(self, connection: Connection) -> None:
        """Store a connection for later; close it if enough are stored or it is too old."""
        idle = self._idle.setdefault(connection.key, [])
        is_old = connection.idle_since - connection.opened_at >= self._max_age
        if is_old or len(idle) >= self._max_idle:
            connection.abort()
            return
        idle.append(connection)
        if self._timer is None:
            self._timer = self._loop.call_later(self._expiry, self._sweep)

    def forget(self, connection: Connection) -> None:
        """Drop a connection that was closed."""
        idle = self._idle.get(connection.key)
        if idle and connection in idle:
            idle.remove(connection)

    def clear(self) -> None:
        """Close every idle connection."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        stored, self._idle = self._idle, {}
        for idle in stored.values():
            for connection in idle:
                connection.abort()

    def _sweep(self) -> None:
        self._timer = None
        oldest = self._loop.time() - self._expiry
        for key, idle in list(self._idle.items()):
            # The longest idle come first.
            while idle and idle[0].idle_since <= oldest:
                idle.pop(0).abort()
            if not idle:
                del self._idle[key]
        if self._idle:
            first = min(idle[0].idle_since for idle in self._idle.values())
            self._timer = self._loop.call_at(first + self._expiry, self._sweep)
