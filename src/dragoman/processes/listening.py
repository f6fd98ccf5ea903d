"""Listening sockets: bound here, given by systemd, and dealt to workers."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress

_FIRST_GIVEN = 3
"""File descriptor of the first socket that systemd gives (sd_listen_fds(3))."""

HANDSHAKE_S = 0.1
"""Seconds in which a client that has begun to connect is done with it, or is very far away."""

_BIND_TO_INTERFACE = 62
"""SO_BINDTOIFINDEX of Linux (asm-generic/socket.h), which the module `socket` does not name."""

_NO_INTERFACE = 2**31 - 1
"""The greatest index of a network interface, which none has."""


def bind(host: str, port: int) -> socket.socket:
    """A bound TCP socket that does not listen yet; port 0 takes a free one.

    Raises:
        OSError: the address is taken or not there.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        if _can_share_ports():
            # Only once it is bound: another program that has the port must be an error, further
            # sockets of this one must not.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except OSError:
        sock.close()
        raise
    return sock


def bind_unix(path: str) -> socket.socket:
    """A bound Unix socket. One that nobody listens on any more, which a server left that was
    killed, is replaced.

    Raises:
        OSError: the path is taken, or its directory is not there.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
    except ConnectionRefusedError:
        os.unlink(path)
    except OSError:
        pass
    else:
        sock.close()
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), path)
    sock.close()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
    except OSError:
        sock.close()
        raise
    return sock


def resolve(host: str, port: int) -> tuple[str, int]:
    """The address that `bind` would take, as the socket will name it.

    Raises:
        OSError: there is no such address.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    name, number = found[0][4][:2]
    return str(name), int(number)


def given_by_systemd() -> list[socket.socket]:
    """The sockets of a systemd socket unit, none if there is no such unit. Their environment
    variables are removed, so that no child process takes the sockets for its own.

    Raises:
        OSError: what was given is no stream socket.
    """
    meant_for, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if meant_for != str(os.getpid()) or not count.isdecimal():
        return []
    sockets = []
    for number in range(_FIRST_GIVEN, _FIRST_GIVEN + int(count)):
        os.set_inheritable(number, False)
        sock = socket.socket(fileno=number)
        if sock.type != socket.SOCK_STREAM:
            raise OSError(0, f"file {number} of LISTEN_FDS is no stream socket")
        sockets.append(sock)
    return sockets


def address_of(sock: socket.socket) -> tuple[str, int]:
    """Host and port of a TCP socket, path and 0 of a Unix one."""
    name = sock.getsockname()
    if sock.family == socket.AF_UNIX:
        return address_of_path(name)
    return name[0], name[1]


def address_of_path(path: str) -> tuple[str, int]:
    """The address of a Unix socket: its absolute path, whatever the working directory."""
    return os.path.realpath(path), 0


def url_of(sock: socket.socket, scheme: str = "http") -> str:
    """The base URL under which clients reach a socket."""
    host, port = address_of(sock)
    if sock.family == socket.AF_UNIX:
        return f"unix:{host}"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def deal(sockets: list[socket.socket], workers: int) -> list[list[socket.socket]]:
    """The sockets that each worker takes connections from.

    Where the system spreads connections over the sockets of one port, each worker has one of its
    own: the missing ones are added to `sockets`. If there are more sockets than workers, as after
    a gateway with more of them, some workers have several, since one that is closed loses what
    waits in it. Elsewhere all workers share all sockets.
    """
    if len(sockets) < workers and _is_spread(sockets):
        sockets += [_beside(sockets[0]) for _ in range(workers - len(sockets))]
    if len(sockets) < workers:
        return [list(sockets) for _ in range(workers)]
    return [sockets[number::workers] for number in range(workers)]


def close_to_newcomers(sockets: Iterable[socket.socket]) -> None:
    """Let no further client begin to connect. Those that have begun get through, and are to be
    accepted within `HANDSHAKE_S`: with a socket that is closed they would be reset, requests and
    all. Whoever begins after this is refused at once, which other servers can be tried after.

    A socket that listens and is bound to an interface that is not there takes no new handshakes.
    It needs no privilege, other than a packet filter. On Linux 5.7 or newer only; elsewhere nothing
    is changed. It lasts as long as the sockets do, in whichever process.
    """
    if os.uname().sysname != "Linux":
        return
    for sock in sockets:
        if sock.family != socket.AF_UNIX:
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, _BIND_TO_INTERFACE, _NO_INTERFACE)


def _beside(first: socket.socket) -> socket.socket:
    """A further socket on the address of `first`."""
    sock = socket.socket(first.family, first.type, first.proto)
    try:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            sock.setsockopt(socket.SOL_SOCKET, option, 1)
        sock.bind(first.getsockname())
    except OSError:
        sock.close()
        raise
    return sock


def _is_spread(sockets: Sequence[socket.socket]) -> bool:
    """Whether all are on one address, and further ones can be."""
    return (
        _can_share_ports()
        and len({sock.getsockname() for sock in sockets}) == 1
        and sockets[0].family in (socket.AF_INET, socket.AF_INET6)
        and all(sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) for sock in sockets)
    )


def _can_share_ports() -> bool:
    """Whether SO_REUSEPORT spreads connections: on Linux (socket(7)), while on BSD and macOS the
    socket that was bound last takes them all."""
    return os.uname().sysname == "Linux"
