"""CPU, memory and files of this process."""

from __future__ import annotations

import os
import resource
import time

_PAGE_BYTES = resource.getpagesize()
_FILES_EVERY_S = 10.0


class ProcessUse:
    """CPU, memory and files of this process. `started` is the time of creation, in Unix seconds."""

    __slots__ = ("_counted_at", "_files", "started")

    def __init__(self) -> None:
        self.started = time.time()
        self._files = 0
        self._counted_at = float("-inf")

    def cpu_seconds(self) -> float:
        """CPU time of all threads so far."""
        return time.process_time()

    def gauges(self) -> dict[str, float]:
        """Memory and files, as far as the system reports them (Linux does)."""
        found: dict[str, float] = {}
        try:
            with open("/proc/self/statm", "rb") as file:
                found["resident_bytes"] = int(file.read().split()[1]) * _PAGE_BYTES
            if time.monotonic() >= self._counted_at + _FILES_EVERY_S:
                # With ten thousand files this takes milliseconds.
                self._files = len(os.listdir("/proc/self/fd"))
                self._counted_at = time.monotonic()
            found["open_files"] = self._files
        except OSError:
            pass
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if most != resource.RLIM_INFINITY:
            found["most_files"] = most
        return found
