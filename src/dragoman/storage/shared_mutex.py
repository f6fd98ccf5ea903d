"""A lock in memory that processes share, which is free again when its holder is killed.

A mutex of POSIX threads, shared between processes and robust (pthread_mutexattr_setpshared,
pthread_mutexattr_setrobust): taken without a call of the kernel while nobody else has it, which
takes a fifth of the time of a lock on a range of bytes. The kernel frees it when the thread that
holds it ends, however that ends, and whoever takes it next is told.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

MUTEX_BYTES: Final = 64
"""Room for one mutex: glibc takes 40 bytes, 48 on some processors."""

_ATTRIBUTES_BYTES: Final = 64
_SHARED: Final = 1
_ROBUST: Final = 1
"""PTHREAD_PROCESS_SHARED and PTHREAD_MUTEX_ROBUST of glibc's <pthread.h>."""

_AT_ONCE: Final = ctypes.PyDLL(None)
_WAITING: Final = ctypes.CDLL(None)
"""The functions of the process: those that wait let other threads go on meanwhile."""


def has_mutexes() -> bool:
    """Whether there are such locks: with glibc, on kernels that free them. How a mutex lies in
    memory is a matter of the C library, so that processes with different ones cannot share it."""
    if sys.platform != "linux":
        return False
    try:
        if not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return False
        return _initialise(ctypes.create_string_buffer(MUTEX_BYTES)) == 0
    except (OSError, ValueError, AttributeError):
        return False


class SharedMutex:
    """The mutex in the `MUTEX_BYTES` of `memory`, which was made there by `make`, by whichever
    process. Belongs to one thread."""

    __slots__ = ("_memory", "_take", "unlock")

    def __init__(self, memory: memoryview) -> None:
        self._memory = (ctypes.c_char * MUTEX_BYTES).from_buffer(memory)
        self._take = partial(_AT_ONCE.pthread_mutex_trylock, self._memory)
        self.unlock: Callable[[], object] = partial(_AT_ONCE.pthread_mutex_unlock, self._memory)
        """Give it back. To be called by whoever has it."""

    @staticmethod
    def make(memory: memoryview) -> None:
        """Make a mutex in memory that no process uses as one.

        Raises:
            OSError: there are none; see `has_mutexes`.
        """
        failed = _initialise((ctypes.c_char * MUTEX_BYTES).from_buffer(memory))
        if failed:
            raise OSError(failed, os.strerror(failed))

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
            found = _WAITING.pthread_mutex_lock(self._memory)
        if found == errno.EOWNERDEAD:
            # It is taken all the same. What its holder left half done is for who finds it gone.
            found = _AT_ONCE.pthread_mutex_consistent(self._memory)
        if found:
            raise OSError(found, os.strerror(found))


def _initialise(memory: ctypes.Array[ctypes.c_char]) -> int:
    """Make a mutex; the number of what failed, 0 for nothing."""
    attributes = ctypes.create_string_buffer(_ATTRIBUTES_BYTES)
    failed: int = _AT_ONCE.pthread_mutexattr_init(attributes)
    failed = failed or _AT_ONCE.pthread_mutexattr_setpshared(attributes, _SHARED)
    failed = failed or _AT_ONCE.pthread_mutexattr_setrobust(attributes, _ROBUST)
    return failed or _AT_ONCE.pthread_mutex_init(memory, attributes)
