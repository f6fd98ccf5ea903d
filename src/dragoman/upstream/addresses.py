"""A TCP connection to whichever address of a name answers first (RFC 8305, "Happy Eyeballs").

Names of vendors have several addresses, of both versions of IP. Tried one after the other, the
first one that swallows packets would take up all the time there is to connect.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

STAGGER_S = 0.25
"""Seconds after which the next address is tried beside those that have not answered."""

_MOST = 16
"""Addresses of a name that are tried."""

_NO_ROUTE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
"""Errors of a machine without a route to an address, such as without IPv6."""

Address = tuple[socket.AddressFamily, tuple[Any, ...]]


async def reach(host: str, port: int) -> socket.socket:
    """A connected socket, which does not block.

    Raises:
        socket.gaierror: the name did not resolve.
        OSError: no address could be reached.
    """
    waiting = deque(_in_turn(await resolve(host, port))[:_MOST])
    errors: list[OSError] = []
    attempts: set[asyncio.Task[socket.socket | OSError]] = set()
    try:
        while waiting or attempts:
            if waiting:
                attempts.add(asyncio.create_task(_connect(*waiting.popleft())))
            found = await _next(attempts, STAGGER_S if waiting else None, errors)
            if found is not None:
                return found
    finally:
        for task in attempts:
            task.add_done_callback(_close)
            task.cancel()
    # No variable may refer to it: its traceback references this frame.
    raise _most_informative(errors)


async def _next(
    attempts: set[asyncio.Task[socket.socket | OSError]],
    seconds: float | None,
    errors: list[OSError],
) -> socket.socket | None:
    """Wait for the next attempt to succeed or fail."""
    done, _ = await asyncio.wait(attempts, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    first: socket.socket | None = None
    for task in done:
        attempts.remove(task)
        found = task.result()
        if isinstance(found, OSError):
            errors.append(found)
        elif first is None:
            first = found
        else:
            found.close()
    return first


async def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a name, the one that the system prefers first."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _in_turn(addresses: Iterable[Address]) -> list[Address]:
    """Addresses of the versions of IP by turns, that of the first of them first."""
    by_version: dict[socket.AddressFamily, list[Address]] = {}
    for address in addresses:
        by_version.setdefault(address[0], []).append(address)
    return [one for some in zip_longest(*by_version.values()) for one in some if one is not None]


async def _connect(
    family: socket.AddressFamily, address: tuple[Any, ...]
) -> socket.socket | OSError:
    """A connected socket, or why there is none."""
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        return error
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except OSError as error:
        sock.close()
        return error
    except BaseException:
        sock.close()
        raise
    return sock


def _close(task: asyncio.Task[socket.socket | OSError]) -> None:
    """Nobody needs the connection any more."""
    if not task.cancelled() and isinstance(found := task.result(), socket.socket):
        found.close()


def _most_informative(errors: list[OSError]) -> OSError:
    """Remove the error to report from several: a missing route is reported last."""
    errors.sort(key=lambda error: error.errno in _NO_ROUTE)
    error = errors.pop(0)
    errors.clear()
    return error
