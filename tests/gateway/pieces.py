"""Pieces of work for other processes, in a module that they can import."""

from __future__ import annotations

import os
import time

from dragoman.canonical.errors import Fault, FaultKind, Refused
from dragoman.canonical.losses import Loss, LossKind


def place(body: bytes) -> tuple[int, bytes]:
    """The process in which it is done, and the body."""
    return os.getpid(), body


def slow(body: bytes, seconds: float) -> tuple[int, bytes]:
    """Takes a while."""
    time.sleep(seconds)
    return os.getpid(), b""


def refused(body: bytes) -> tuple[None, bytes]:
    """Fails as a request does."""
    losses = tuple(Loss(path, LossKind.KNOB, "no") for path in ("top_k", "n"))
    raise Refused(Fault(FaultKind.INVALID_REQUEST, "no", param="top_k"), losses)


def broken(body: bytes) -> tuple[None, bytes]:
    """Fails as a program does."""
    raise LookupError(body.decode())


def hungry(body: bytes) -> tuple[int, bytes]:
    """Takes more memory than there is."""
    return len([bytearray(1 << 20) for _ in range(1 << 20)]), b""


def ended(body: bytes) -> tuple[None, bytes]:
    """Ends its process."""
    os._exit(1)


def grown(body: bytes) -> tuple[int, bytes]:
    """Leaves much memory behind."""
    _kept.append(bytearray(os.urandom(1 << 20) * 300))
    return os.getpid(), b""


_kept: list[bytearray] = []
