"""Who is signed in to the administration, and who tried wrong keys, for all processes of a machine.

A small file that all of them map, with one lock. It has no secret: of a session the SHA-256 of what
its cookie holds. Sessions outlive the processes, so that a restart signs nobody out.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from dragoman.storage.shared_file import SharedFile

IDLE_S: Final = 30 * 60.0
"""Seconds without a request after which a session ends. A page that is seen asks, or is told of
events, all the time."""

LONGEST_S: Final = 12 * 3600.0
"""Seconds after which a session ends in any case."""

MOST: Final = 64
"""Sessions at once: a further one ends the one that was idle longest."""

_FAILURES_S = 60.0
_MOST_ADDRESSES = 256

_MAGIC = b"dragoman sessions 1"
_HEAD = 4096
_ROW = struct.Struct("<32s32s64sdd")
_FAILURE = struct.Struct("<8sdI")
_FAILURES = _HEAD + MOST * _ROW.size
_SIZE = _FAILURES + _MOST_ADDRESSES * _FAILURE.size
_NONE = bytes(32)


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


class Sessions:
    """The sessions in `memory`, of `_SIZE` bytes, under a lock."""

    def __init__(
        self, memory: memoryview, lock: Callable[[], object], unlock: Callable[[], object]
    ) -> None:
        self._memory = memory
        self._take = lock
        self._give = unlock

    def begin(self, digest: bytes, name: str, mark: bytes, now: float) -> Session:
        """Someone signed in; `digest` is that of the cookie."""
        with self._locked():
            rows = [_ROW.unpack_from(self._memory, place) for place in _places()]
            free = min(range(MOST), key=lambda at: rows[at][4] if _lives(rows[at], now) else 0.0)
            row = (digest, mark, name.encode(), now, now)
            _ROW.pack_into(self._memory, _HEAD + free * _ROW.size, *row)
        return Session(name, mark, now, now)

    def find(self, digest: bytes, now: float) -> Session | None:
        """The session of a cookie, None if there is none, or it has ended. It is used by that."""
        with self._locked():
            for place in _places():
                row = _ROW.unpack_from(self._memory, place)
                if row[0] == digest and _lives(row, now):
                    row = (*row[:4], now)
                    _ROW.pack_into(self._memory, place, *row)
                    return Session(row[2].rstrip(b"\0").decode(), row[1], row[3], row[4])
        return None

    def end(self, digest: bytes) -> None:
        """End the session of a cookie, if there is one."""
        with self._locked():
            for place in _places():
                if self._memory[place : place + 32] == digest:
                    self._memory[place : place + _ROW.size] = bytes(_ROW.size)

    def wait(self, address: str, most: int, now: float) -> float:
        """Seconds until a key is looked at that comes from an address, which may try `most` wrong
        ones in a minute from the first; 0 if it is now."""
        with self._locked():
            found = self._failures_of(_address(address))
        if found is None or found[2] < most or not 0 <= now - found[1] < _FAILURES_S:
            return 0.0
        return found[1] + _FAILURES_S - now

    def failed(self, address: str, now: float) -> None:
        """A wrong key came from an address."""
        key = _address(address)
        with self._locked():
            found = self._failures_of(key)
            if found is None:
                found = min((self._failure(at) for at in range(_MOST_ADDRESSES)), key=_began)
                found = (found[0], 0.0, 0)
            at, began, count = found
            if not 0 <= now - began < _FAILURES_S:
                began, count = now, 0
            place = _FAILURES + at * _FAILURE.size
            _FAILURE.pack_into(self._memory, place, key, began, count + 1)

    def close(self) -> None:
        """Give everything up. Harmless if it was done before."""

    def _failures_of(self, key: bytes) -> tuple[int, float, int] | None:
        for at in range(_MOST_ADDRESSES):
            place = _FAILURES + at * _FAILURE.size
            if self._memory[place : place + 8] == key:
                return self._failure(at)
        return None

    def _failure(self, at: int) -> tuple[int, float, int]:
        _, began, count = _FAILURE.unpack_from(self._memory, _FAILURES + at * _FAILURE.size)
        return at, began, count

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._take()
        try:
            yield
        finally:
            self._give()


class SharedSessions(SharedFile, Sessions):
    """The sessions in the file at `path`, which is made, for its owner alone, if it is not there.

    Raises:
        OSError: the file cannot be made, mapped or locked, or too many processes use it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        SharedFile.__init__(self, path, _MAGIC, _SIZE)
        Sessions.__init__(self, self._memory, *self._locking())

    def close(self) -> None:
        """See `Sessions.close`."""
        SharedFile.close(self)

    def _prepare(self, is_alone: bool) -> None:
        if is_alone and not (self._is_known() and os.fstat(self._file).st_size == _SIZE):
            self._begin_anew()
        self._memory = self._map()

    def _column_taken(self, number: int) -> None:
        """A process has nothing of its own here."""


def private_sessions() -> Sessions:
    """Sessions of one process by itself."""
    return Sessions(memoryview(bytearray(_SIZE)), lambda: None, lambda: None)


def _places() -> range:
    return range(_HEAD, _HEAD + MOST * _ROW.size, _ROW.size)


def _lives(row: tuple[bytes, bytes, bytes, float, float], now: float) -> bool:
    digest, _, _, began, seen = row
    return digest != _NONE and 0 <= now - began < LONGEST_S and 0 <= now - seen < IDLE_S


def _address(address: str) -> bytes:
    return blake2b(address.encode(), digest_size=8).digest()


def _began(failure: tuple[int, float, int]) -> float:
    return failure[1]
