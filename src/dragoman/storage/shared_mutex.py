"""A lock in memory that processes share, which is free again when its holder is killed.

A mutex of POSIX threads, shared between processes and robust (pthread_mutexattr_setpshared,
pthread_mutexattr_setrobust): taken without a call of the kernel while nobody else has it, which
takes a fifth of the time of a lock on a range of bytes. The kernel frees it when the thread that
holds it ends, however that ends, and whoever takes it next is told.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

MUTEX_BYTES: Final = 64
"""Room for one mutex: glibc takes 40 bytes, 48 on some processors."""

_ATTRIBUTES_BYTES: Final = 64
_SHARED: Final = 1
_ROBUST: Final = 1
"""PTHREAD_PROCESS_SHARED and PTHREAD_MUTEX_ROBUST of glibc's <pthread.h>."""


@cache
def has_mutexes() -> bool:
    """Whether there are such locks: with glibc, on kernels that free them, in a Python that can
    call the C library. How a mutex lies in memory is a matter of that library, so that processes
    with different ones cannot share it."""
    if sys.platform != "linux":
        return False
    try:
        if not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return False
        return _initialise(memoryview(bytearray(MUTEX_BYTES))) == 0
    except (ImportError, OSError, ValueError, AttributeError):
        return False


class SharedMutex:
    """The mutex in the `MUTEX_BYTES` of `memory`, which was made there by `make`, by whichever
    process. Belongs to one thread. Only where `has_mutexes`."""

    __slots__ = ("_place", "_take", "unlock")

    def __init__(self, memory: memoryview) -> None:
        self._place = _place(memory)
        library = _library(waiting=False)
        self._take = partial(library.pthread_mutex_trylock, self._place)
        self.unlock: Callable[[], object] = partial(library.pthread_mutex_unlock, self._place)
        """Give it back. To be called by whoever has it."""

    @staticmethod
    def make(memory: memoryview) -> None:
        """Make a mutex in memory that no process uses as one.

        Raises:
            OSError: it cannot be made.
        """
        _raise_for(_initialise(memory))

    def lock(self) -> None:
        """Take it, once nobody else has it.

        Raises:
            OSError: it is not a mutex.
        """
        found = self._take()
        if found:
            self._insist(found)

    def _insist(self, found: int) -> None:
        if found == errno.EBUSY:
            found = _library(waiting=True).pthread_mutex_lock(self._place)
        if found == errno.EOWNERDEAD:
            # It is taken all the same. What its holder left half done is for who finds it gone.
            found = _library(waiting=False).pthread_mutex_consistent(self._place)
        _raise_for(found)


def _initialise(memory: memoryview) -> int:
    """Make a mutex; the number of what failed, 0 for nothing."""
    library, attributes = _library(waiting=False), _place(memoryview(bytearray(_ATTRIBUTES_BYTES)))
    failed: int = library.pthread_mutexattr_init(attributes)
    failed = failed or library.pthread_mutexattr_setpshared(attributes, _SHARED)
    failed = failed or library.pthread_mutexattr_setrobust(attributes, _ROBUST)
    return failed or library.pthread_mutex_init(_place(memory), attributes)


@cache
def _library(*, waiting: bool) -> Any:
    """The functions of the process. While one waits, other threads go on; one that never does need
    not let them."""
    # Some builds of Python lack it, and do without this lock.
    import ctypes

    return ctypes.CDLL(None) if waiting else ctypes.PyDLL(None)


def _place(memory: memoryview) -> Any:
    """Memory as what functions are given."""
    import ctypes

    return (ctypes.c_char * len(memory)).from_buffer(memory)


def _raise_for(found: int) -> None:
    if found:
        raise OSError(found, os.strerror(found))
