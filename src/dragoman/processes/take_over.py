"""One gateway follows another on the same address, without a refused connection.

The running gateway offers its listening sockets on a Unix socket whose name is made of the address.
One that is started asks there first: it is given the sockets (SCM_RIGHTS, unix(7)), takes
connections from them beside the other, and says so; only then the other stops to take any, and
ends as at SIGTERM. If the new one fails before, nothing has happened. The sockets themselves are
never closed, so what waits in them is not lost either.

The names are of Linux's abstract namespace: no file is left behind, and they reach as far as the
addresses do, which is the network namespace. Both sides make sure that the other is run by the same
user, or by root. Elsewhere than on Linux nothing is offered.
"""

from __future__ import annotations

import errno
import logging
import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec
from msgspec import Struct

from dragoman.jsontext import JsonError, decoder

_log = logging.getLogger("dragoman.gateway")

_ASK = b"dragoman: sockets, please"
_SERVING = b"dragoman: serving"
_STOPPING = b"dragoman: stopping"
_RELOAD = b"dragoman: reload, please"

_MOST_FILES = 100
"""Sockets in one message; the kernel takes up to 253 (SCM_MAX_FD, unix(7))."""

_LOOK = b"dragoman: limits, please: "
"""Followed by the question."""

_MESSAGE_BYTES = 65536
_REPORT_BYTES = 1024 * 1024
_RELOAD_S = 60.0
_ANSWER_S = 5.0
"""Seconds in which the gateway that runs has to answer."""

_MOST_UNHEARD = 16
"""Most connected processes without a message yet; the oldest is disconnected for a new one."""

_START_S = 120.0
"""Seconds in which the gateway that takes over has to be ready; then another may ask."""


class _Given(Struct, frozen=True):
    """What comes with some sockets. `left` is how many are to follow, `config` the path of the
    configuration file, empty if there is none."""

    pid: int
    left: int
    config: str = ""


_read_given = decoder(_Given)


class Predecessor:
    """The gateway that runs on an address, and whose sockets this one has. `config` is the path of
    its configuration file, empty if there is none."""

    def __init__(
        self, link: socket.socket, pid: int, sockets: list[socket.socket], config: str = ""
    ) -> None:
        self._link = link
        self.pid = pid
        self.sockets = sockets
        self.config = config

    def leave(self) -> None:
        """Let it serve on: nothing has happened."""
        for sock in (*self.sockets, self._link):
            sock.close()

    def stop(self) -> int | None:
        """Have it take no connections any more, since this one does: it ends when what it has
        begun is over, or its time. Returns a file that is readable then; None if it is gone."""
        process = None
        with self._link:
            with suppress(OSError):
                process = os.pidfd_open(_credentials(self._link)[0])
            try:
                self._link.settimeout(_ANSWER_S)
                self._link.send(_SERVING)
                self._link.recv(_MESSAGE_BYTES)
            except OSError as error:
                # It is gone, or another process made it end.
                _log.info("took over from process %d, which did not answer: %s", self.pid, error)
            else:
                _log.info("took over from process %d, which ends by itself", self.pid)
        return process


def ask(address: tuple[str, int]) -> Predecessor | None:
    """The gateway that runs on `address`, if there is one that offers its sockets. Another user who
    has its name keeps nobody from serving: the address itself tells whether it is free.

    Raises:
        OSError: there is one, and it does not give them.
    """
    if not _is_possible():
        return None
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sockets: list[socket.socket] = []
    try:
        link.settimeout(_ANSWER_S)
        try:
            link.connect(_name(address))
        except ConnectionRefusedError:
            link.close()
            return None
        if not _is_trusted(link):
            link.close()
            _log.warning("another user has the name by which gateways take over from one another")
            return None
        link.send(_ASK)
        while True:
            data, files, _, _ = socket.recv_fds(
                link, _MESSAGE_BYTES, _MOST_FILES, socket.MSG_CMSG_CLOEXEC
            )
            sockets += [socket.socket(fileno=number) for number in files]
            given = _read_given(data)
            if not given.left:
                return Predecessor(link, given.pid, sockets, given.config)
    except (OSError, JsonError):
        for sock in (link, *sockets):
            sock.close()
        message = "the gateway that runs there did not hand over its sockets"
        raise OSError(errno.EADDRINUSE, message) from None


def ask_to_reload(address: tuple[str, int]) -> bytes | None:
    """Have the gateway that runs on `address` read its configuration anew. Returns what it says of
    that; None if there is none, or none that can be asked from here.

    Raises:
        OSError: it does not answer.
    """
    if not _is_possible():
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.settimeout(_RELOAD_S)
        try:
            link.connect(_name(address))
        except ConnectionRefusedError:
            return None
        if not _is_trusted(link):
            raise OSError(errno.EPERM, "another user's gateway has this address")
        link.send(_RELOAD)
        report = link.recv(_REPORT_BYTES)
        if not report:
            raise OSError(errno.EPIPE, "the gateway that runs there did not answer")
        return report


def ask_for_limits(address: tuple[str, int], question: bytes) -> bytes | None:
    """Ask the gateway that runs on `address` for the states of limits. None if there is none, or
    none that can be asked from here.

    Raises:
        OSError: it does not answer.
    """
    if not _is_possible() or len(question) > _MESSAGE_BYTES // 2:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.settimeout(_ANSWER_S)
        try:
            link.connect(_name(address))
        except ConnectionRefusedError:
            return None
        if not _is_trusted(link):
            return None
        link.send(_LOOK + question)
        return link.recv(_REPORT_BYTES) or None


class Offer:
    """The running gateway's side. `on_taken` is called when another has taken over, `on_reload`
    when its configuration is to be read anew, with what takes the answer; `on_look` answers
    questions for the states of limits; `config` is the path of the configuration file, if it came
    from one.

    It is driven by whatever loop the process has: `work` is to be called when `fileno` is readable.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        on_taken: Callable[[], None],
        on_reload: Callable[[Callable[[bytes], None]], None] | None = None,
        on_look: Callable[[bytes], bytes] | None = None,
        config: str = "",
    ) -> None:
        self._sockets = sockets
        self._config = config
        self.given = False
        """Whether another gateway was given the sockets, and may take connections from them."""
        self._on_taken = on_taken
        self._on_reload = on_reload
        self._on_look = on_look
        self._taker: socket.socket | None = None
        self._taker_until = 0.0
        self._unheard: dict[socket.socket, None] = {}
        """Connected processes without a message yet, in the order of their connections."""
        self._selector = selectors.DefaultSelector()
        self._listener: socket.socket | None = None

    def open(self, address: tuple[str, int]) -> None:
        """Offer the sockets of `address`; without success, as where another process has that name,
        the gateway only cannot be taken over."""
        if not _is_possible():
            return
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.setblocking(False)
            listener.bind(_name(address))
            listener.listen(_MOST_UNHEARD)
        except OSError as error:
            listener.close()
            _log.warning("no other gateway can take over from this one: %s", error.strerror)
            return
        self._listener = listener
        self._selector.register(listener, selectors.EVENT_READ)

    def fileno(self) -> int:
        """Readable when there is something to do."""
        return self._selector.fileno()

    def work(self) -> None:
        """Do what there is to do."""
        for key, _ in self._selector.select(0):
            if key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.fileobj, socket.socket):
                self._hear(key.fileobj)

    def close(self) -> None:
        """Offer nothing any more."""
        for peer in (*self._unheard, *([] if self._taker is None else [self._taker])):
            self._drop(peer)
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def forget(self) -> None:
        """In a child: hold nothing of it. The parent's registrations, which are shared, stay."""
        for held in (self._listener, self._taker, *self._unheard, self._selector):
            if held is not None:
                held.close()
        self._listener = self._taker = None
        self._unheard.clear()

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            peer, _ = self._listener.accept()
        except OSError:
            return
        if not _is_trusted(peer):
            peer.close()
            return
        if len(self._unheard) >= _MOST_UNHEARD:
            self._drop(next(iter(self._unheard)))
        peer.setblocking(False)
        self._unheard[peer] = None
        self._selector.register(peer, selectors.EVENT_READ)

    def _hear(self, peer: socket.socket) -> None:
        if peer is not self._taker and peer not in self._unheard:
            return  # It was dropped a moment ago.
        try:
            message = peer.recv(_MESSAGE_BYTES)
        except OSError:
            message = b""
        if message == _ASK and self._is_taken_by(peer):
            with suppress(OSError):
                self._give(peer)
                return
        elif message == _SERVING and peer is self._taker:
            self._release(peer)
            # First, so that whoever took over can offer the sockets in turn.
            self.close()
            with peer, suppress(OSError):
                peer.send(_STOPPING)
            _log.info("another gateway took over; this one ends")
            self._on_taken()
            return
        elif message == _RELOAD and self._on_reload is not None:
            self._release(peer)
            self._on_reload(partial(_answer, peer))
            return
        elif message.startswith(_LOOK) and self._on_look is not None:
            self._release(peer)
            _answer(peer, self._on_look(message.removeprefix(_LOOK)))
            return
        elif not message and peer is self._taker:
            self.given = False
        self._drop(peer)

    def _is_taken_by(self, peer: socket.socket) -> bool:
        """Whether this one may take over: one at a time may."""
        if self._taker is not None and time.monotonic() > self._taker_until:
            self._drop(self._taker)
        if self._taker not in (None, peer):
            return False
        self._unheard.pop(peer, None)
        self._taker, self._taker_until = peer, time.monotonic() + _START_S
        return True

    def _give(self, peer: socket.socket) -> None:
        self.given = True
        files = [sock.fileno() for sock in self._sockets]
        for start in range(0, len(files), _MOST_FILES):
            some = files[start : start + _MOST_FILES]
            given = _Given(os.getpid(), len(files) - start - len(some), self._config)
            socket.send_fds(peer, [msgspec.json.encode(given)], some)

    def _release(self, peer: socket.socket) -> None:
        """Hear no more of it."""
        self._selector.unregister(peer)
        self._unheard.pop(peer, None)
        if peer is self._taker:
            self._taker = None

    def _drop(self, peer: socket.socket) -> None:
        self._release(peer)
        peer.close()


def _answer(peer: socket.socket, answer: bytes) -> None:
    with peer, suppress(OSError):
        peer.send(answer)


def _is_possible() -> bool:
    return sys.platform == "linux"


def _name(address: tuple[str, int]) -> bytes:
    host, port = address
    return f"\0dragoman/take-over/{host}/{port}".encode()[:108]


def _is_trusted(link: socket.socket) -> bool:
    """Whether the process at the other end is of the same user or of root."""
    return _credentials(link)[1] in (os.geteuid(), 0)


def _credentials(link: socket.socket) -> tuple[int, int]:
    """The process at the other end, and its user (SO_PEERCRED)."""
    found = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", found)
    return pid, uid
