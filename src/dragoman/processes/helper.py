"""The process that does long pieces of work for another one's event loop, one after another.

Its standard input is a socket to the process that started it, and it ends when that is closed.
Each piece of work is a function of a body and further arguments, and gives a result and a body:

    asked     pickled (function, arguments), body
    answered  pickled (whether it was done, result or error, whether more can be done), body

Both parts are preceded by their sizes, so that bodies are neither pickled nor copied.
"""

from __future__ import annotations

import gc
import pickle
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from pathlib import Path
from typing import Any

from dragoman.canonical.errors import DragomanError

_SIZES = struct.Struct("<QQ")
_MOST_AT_ONCE = 1 << 30
"""Bytes of one read or write of a socket, which take no more than 2 GB."""

_BREATH_S = 0.2
"""Seconds without work after which garbage is looked for."""

_MOST_KEPT = 256 * 1024 * 1024
"""A process whose resident memory is larger after its work ends: it would not return all of it."""


class Unfinished(Exception):
    """A piece of work failed, or took more memory than it may (`is_too_much`)."""

    def __init__(self, cause: str, is_too_much: bool = False) -> None:
        super().__init__(cause)
        self.cause = cause
        self.is_too_much = is_too_much

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.cause, self.is_too_much)


def send(sock: socket.socket, value: object, body: bytes) -> None:
    """Send a value and a body.

    Raises:
        OSError: nobody is there.
    """
    pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    sock.sendall(_SIZES.pack(len(pickled), len(body)) + pickled)
    view = memoryview(body)
    for start in range(0, len(body), _MOST_AT_ONCE):
        sock.sendall(view[start : start + _MOST_AT_ONCE])


def receive(sock: socket.socket) -> tuple[Any, bytes]:
    """The value and the body that were sent. Values are taken from the other process as they are:
    both are the same program.

    Raises:
        EOFError: nobody is there.
        OSError: the same, or nothing came in time.
    """
    pickled, body = _SIZES.unpack(_exactly(sock, _SIZES.size))
    return pickle.loads(_exactly(sock, pickled)), _exactly(sock, body)


def _exactly(sock: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes, read by kernel calls during which other threads run."""
    data = b""
    while len(data) < size:
        piece = sock.recv(min(size - len(data), _MOST_AT_ONCE), socket.MSG_WAITALL)
        if not piece:
            raise EOFError
        data = data + piece if data else piece
    return data


def main() -> None:
    """Work until the other process closes the socket, or is gone."""
    # Signals for all processes of the gateway are not for this one: it is needed until the last
    # request has ended, and then the closed socket ends it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    memory, most = int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_DATA)[1]
    if most != resource.RLIM_INFINITY:
        memory = min(memory, most)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, most))
    gc.disable()  # What is made for one body holds no cycles, and much of it is alive at once.
    with socket.socket(fileno=0) as sock:
        try:
            while _work(sock):
                if not select.select([sock], [], [], _BREATH_S)[0]:
                    gc.collect()
        except (EOFError, OSError):
            return


def _work(sock: socket.socket) -> bool:
    """Do a piece of work. Returns whether this process may do more, which its answer says too."""
    (function, arguments), body = receive(sock)
    given, usable = b"", True
    try:
        result, given = function(body, *arguments)
        done = True
    except DragomanError as error:
        done, result = False, error
    except MemoryError:
        done, usable = False, False
        result = Unfinished("there is not enough memory for it", True)
    except Exception as error:
        # Its message may quote the body.
        places = "".join(traceback.format_tb(error.__traceback__))
        done, result = False, Unfinished(f"{type(error).__name__}\n{places}")
    usable = usable and _is_small()
    send(sock, (done, result, usable), given)
    return usable


def _is_small() -> bool:
    """Whether this process may do further work."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # Not Linux.
        return True
    return pages * resource.getpagesize() <= _MOST_KEPT
