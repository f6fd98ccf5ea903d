"""Requests in flight by account, counted exactly over all processes of one machine.

A file that all of them map: a column of counters for each process, a row for each account. Only the
process itself writes its column. To begin a request it locks the row, adds up the row over all
columns, and counts itself in if there is room; to end one it needs no lock. It notes in a ring what
it ended last, so that others, whose requests wait, look at these rows only. Locks are those of the
kernel on ranges of bytes of the file (fcntl, "open file description locks" where there are any):
they end with the process that holds them, however it ends. So does the lock that a process holds on
its column as long as it lives, by which the others see whose counts are void.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import struct
import sys
import time
from collections.abc import Callable, Collection
from hashlib import blake2b
from mmap import mmap

_log = logging.getLogger("dragoman.accounts")

PROCESSES = 64
ROWS = 1 << 16
"""Accounts that are counted; those beyond are not."""

_MAGIC = b"dragoman counts 1"
_HEAD = 4096
_KEYS = _HEAD
_COLUMNS = _KEYS + 8 * ROWS
_COLUMN_BYTES = 2 * ROWS
_RINGS = _COLUMNS + PROCESSES * _COLUMN_BYTES
RING = 2048
"""Rows that a process notes of which it ended a request last."""
_RING_BYTES = 2 * RING
_PLACES = _RINGS + PROCESSES * _RING_BYTES
"""How many each process has noted so far."""
_SIZE = _PLACES + 8 * PROCESSES
_MOST = (1 << 16) - 1
_LOOK_EVERY_S = 0.05
"""Seconds between two looks for processes that are gone."""

# Places of locks, beyond the end of the file: no bytes are there.
_COLUMN_LOCKS = 1 << 40
_TABLE_LOCK = _COLUMN_LOCKS + PROCESSES
_ROW_LOCKS = _TABLE_LOCK + 1


class SharedCounts:
    """The counters in the file at `path`, which is made, for its owner alone, if it is not there.

    Belongs to one process and thread. A second one of a process counts as a process of its own
    where the system has open file description locks (Linux).

    Raises:
        OSError: the file cannot be made, mapped or locked, or all columns are taken.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._lock(_TABLE_LOCK)
            try:
                self._prepare()
                self._number = self._take_column()
            finally:
                self._unlock(_TABLE_LOCK)
        except BaseException:
            os.close(self._file)
            raise
        self._rows: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._is_full = False
        self._looked = 0.0

    def close(self) -> None:
        """Give everything up. Harmless if it was done before."""
        if self._file >= 0:
            self._clear(self._number)
            os.close(self._file)
            self._file = -1

    def take(self, name: str, most: int) -> bool:
        """Count one request more of the account in; False if all processes together have `most`."""
        row = self._row(name)
        if row < 0:
            return True
        lock = _ROW_LOCKS + row
        self._lock(lock)
        try:
            is_full = self._sum(row) >= most
            if is_full and (not self._drop_lost() or self._sum(row) >= most):
                return False
            own = self._columns[self._number]
            if own[row] < _MOST:
                own[row] += 1
        finally:
            self._unlock(lock)
        return True

    def give_back(self, name: str) -> None:
        """A request that was counted in has ended."""
        row = self._row(name)
        if row >= 0:
            own = self._columns[self._number]
            if own[row]:
                own[row] -= 1
            place = self._places[self._number]
            self._rings[self._number][place % RING] = row
            self._places[self._number] = place + 1

    def elsewhere(self, name: str) -> int:
        """The requests of the account that other processes have in flight."""
        row = self._row(name)
        return 0 if row < 0 else self._sum(row) - self._columns[self._number][row]

    def returns(self) -> Callable[[], Collection[str] | None]:
        """See `dragoman.accounts.store.Counts`."""
        seen = list(self._places)

        def returned() -> Collection[str] | None:
            rows: set[int] = set()
            lost = False
            for number in range(self._used[0]):
                start, end = seen[number], self._places[number]
                if start == end or number == self._number:
                    continue
                seen[number] = end
                if not 0 < end - start <= RING:
                    lost = True
                    continue
                ring = self._rings[number]
                rows.update(ring[place % RING] for place in range(start, end))
                lost = lost or self._places[number] - start > RING
            if lost:
                return None
            return [self._names[row] for row in rows if row in self._names]

        return returned

    # Rows and columns

    def _sum(self, row: int) -> int:
        return sum(column[row] for column in self._columns[: self._used[0]])

    def _row(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = self._find_row(name)
            self._names[row] = name
        return row

    def _find_row(self, name: str) -> int:
        key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") or 1
        self._lock(_TABLE_LOCK)
        try:
            keys, row = self._keys, key % ROWS
            for _ in range(ROWS):
                if keys[row] in (0, key):
                    keys[row] = key
                    return row
                row = (row + 1) % ROWS
        finally:
            self._unlock(_TABLE_LOCK)
        if not self._is_full:
            self._is_full = True
            _log.error("max_concurrent of further accounts is not shared: %d are", ROWS)
        return -1

    def _prepare(self) -> None:
        """Map the file; begin anew if nobody else uses it, or it is of another version."""
        if all(self._is_free(number) for number in range(PROCESSES)):
            # Files have holes: this gives back the room of whatever was there.
            os.ftruncate(self._file, 0)
            os.ftruncate(self._file, _SIZE)
            os.pwrite(self._file, _MAGIC, 0)
        elif os.pread(self._file, len(_MAGIC), 0) != _MAGIC:
            raise OSError(errno.EBUSY, "is in use by another version")
        elif os.fstat(self._file).st_size < _SIZE:
            # A version without rings uses it.
            os.ftruncate(self._file, _SIZE)
        self._memory = mmap(self._file, _SIZE)
        whole = memoryview(self._memory)
        self._used = whole[_HEAD - 8 : _HEAD].cast("Q")
        self._keys = whole[_KEYS:_COLUMNS].cast("Q")
        self._columns = [
            whole[start : start + _COLUMN_BYTES].cast("H")
            for start in range(_COLUMNS, _RINGS, _COLUMN_BYTES)
        ]
        self._rings = [
            whole[start : start + _RING_BYTES].cast("H")
            for start in range(_RINGS, _PLACES, _RING_BYTES)
        ]
        self._places = whole[_PLACES:_SIZE].cast("Q")

    def _take_column(self) -> int:
        for number in range(PROCESSES):
            if self._try_lock(_COLUMN_LOCKS + number):
                self._clear(number)
                self._used[0] = max(self._used[0], number + 1)
                return number
        raise OSError(errno.EUSERS, "too many processes use it")

    def _clear(self, number: int) -> None:
        start = _COLUMNS + number * _COLUMN_BYTES
        empty = bytes(_COLUMN_BYTES)
        if self._memory[start : start + _COLUMN_BYTES] != empty:
            self._memory[start : start + _COLUMN_BYTES] = empty
            # More than fits into the ring: the others look at all of theirs.
            self._places[number] += RING + 1

    def _drop_lost(self) -> bool:
        """Give back what processes had counted in that are gone. Whether there were any."""
        now = time.monotonic()
        if now - self._looked < _LOOK_EVERY_S:
            return False
        self._looked = now
        found = False
        for number in range(self._used[0]):
            if number != self._number and self._try_lock(_COLUMN_LOCKS + number):
                self._clear(number)
                self._unlock(_COLUMN_LOCKS + number)
                found = True
        return found

    # Locks

    def _is_free(self, number: int) -> bool:
        if not self._try_lock(_COLUMN_LOCKS + number):
            return False
        self._unlock(_COLUMN_LOCKS + number)
        return True

    def _lock(self, place: int) -> None:
        _change(self._file, fcntl.F_WRLCK, place, wait=True)

    def _unlock(self, place: int) -> None:
        _change(self._file, fcntl.F_UNLCK, place, wait=False)

    def _try_lock(self, place: int) -> bool:
        try:
            _change(self._file, fcntl.F_WRLCK, place, wait=False)
        except BlockingIOError:
            return False
        except PermissionError:  # what some systems say instead
            return False
        return True


if sys.platform == "linux":
    _FLOCK = struct.Struct("@hhqqi4x")
    """`struct flock`: type, whence, start, length, process (0 for these locks)."""

    def _change(file: int, kind: int, place: int, *, wait: bool) -> None:
        command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
        fcntl.fcntl(file, command, _FLOCK.pack(kind, os.SEEK_SET, place, 1, 0))
else:
    _COMMANDS = {fcntl.F_WRLCK: fcntl.LOCK_EX, fcntl.F_UNLCK: fcntl.LOCK_UN}

    def _change(file: int, kind: int, place: int, *, wait: bool) -> None:
        command = _COMMANDS[kind]
        if not wait and kind == fcntl.F_WRLCK:
            command |= fcntl.LOCK_NB
        fcntl.lockf(file, command, 1, place, os.SEEK_SET)
