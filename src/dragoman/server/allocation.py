"""How the serving process takes memory and gives it back."""

from __future__ import annotations

import ctypes
import gc
import os

_COLLECT_AFTER = 20_000
"""Objects made and not freed after which the youngest are searched for cycles."""

_TRIM_ABOVE = 64 * 1024 * 1024
_MAP_ABOVE = 4 * 1024 * 1024
"""Bytes that glibc keeps at the top of its heap, and those of one piece from which on it is taken
apart from the heap and given back as soon as it is free. Such a piece grows without being copied:
in the heap a body of 30 MB kept the loop for up to 14 ms as it arrived."""

# malloc.h of glibc
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def configure_allocator() -> None:
    """Adapt to requests, each of which leaves nothing behind. Called once, before serving.

    What a request made dies with its last reference; cycles are rare, and looking for them as often
    as Python does by itself costs one request in twenty. And by itself glibc gives back whatever a
    request of 100 KB leaves, to take it again, page by page, for the next: a tenth of its time.
    """
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    # Whoever sets these for himself knows better.
    if not _is_set():
        _keep_some()


def _is_set() -> bool:
    """Whether the environment configures malloc (mallopt(3), glibc's "Tunables")."""
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return "glibc.malloc." in tunables or any(name.startswith("MALLOC_") for name in os.environ)


def _keep_some() -> None:
    try:
        library = ctypes.CDLL(None)
        mallopt, trim = library.mallopt, library.malloc_trim
    except (OSError, AttributeError):
        return  # another C library
    trim(0)
    mallopt(_M_TRIM_THRESHOLD, _TRIM_ABOVE)
    mallopt(_M_MMAP_THRESHOLD, _MAP_ABOVE)
