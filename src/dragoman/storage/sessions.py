"""Who is signed in to the administration, stored beside the database for a restart."""

from __future__ import annotations

import logging
import os
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.storage.ownership import guard

_log = logging.getLogger("dragoman")

IDLE_S: Final = 30 * 60.0
"""Seconds without a request after which a session ends. A page that is seen asks, or is sent
events, all the time."""

LONGEST_S: Final = 12 * 3600.0
"""Seconds after which a session ends in any case."""


class Session(Struct, frozen=True):
    """Who is signed in: the name of a key of the administration, and the mark of its secret, by
    which a change of that shows; when it began and was last used, in Unix seconds."""

    name: str
    mark: bytes
    began: float
    seen: float

    @property
    def ends(self) -> float:
        """When it ends, however much it is used."""
        return self.began + LONGEST_S

    def lives(self, now: float) -> bool:
        """Whether it has not ended."""
        return 0 <= now - self.began < LONGEST_S and 0 <= now - self.seen < IDLE_S


class SessionFile:
    """Sessions by the SHA-256 of what their cookies hold, in a file for its owner alone. Another
    gateway may write it too, such as one that takes over."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._has_failed = False

    def changed(self) -> dict[bytes, Session] | None:
        """What the file has, if it is another than when it was last read or written."""
        try:
            guard(self._path)
            with open(self._path, "rb") as file:
                found = os.fstat(file.fileno())
                stamp = found.st_ino, found.st_mtime_ns
                if stamp == self._stamp:
                    return None
                self._stamp = stamp
                return _read(file.read())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            self._log_failure(error)
            return None

    def write(self, sessions: dict[bytes, Session]) -> None:
        """Store the sessions. If that fails, it is logged once, and a restart signs people out."""
        draft = f"{self._path}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            file = os.open(draft, flags, 0o600)
            with open(file, "wb") as opened:
                opened.write(msgspec.msgpack.encode(sessions))
            os.replace(draft, self._path)
            found = os.stat(self._path)
            self._stamp = found.st_ino, found.st_mtime_ns
        except OSError as error:
            self._log_failure(error)

    def _log_failure(self, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            _log.error("%s: %s: a restart signs people out", self._path, type(error).__name__)


_read = msgspec.msgpack.Decoder(dict[bytes, Session]).decode
