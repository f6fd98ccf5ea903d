"""What was used of limits, counted exactly over all processes of one machine.

A file that all of them map: cells for each counter (`limits/counters.py`), and for each process a
column with what it has reserved and what it has used that is in no row of usage yet. All of it is
read and written under one lock, for the time of one request's limits: a mutex in the file, or a
lock of the kernel where there are none that a killed process gives up. Of a process that is gone,
whoever finds it gives back what its column has.

The file outlives the processes: what was used goes on where it ended. Where the machine was started
anew, the file may be older than the store, so it begins anew too, and counters are made from the
rows of usage.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from hashlib import blake2b

from dragoman.config.windows import Fixed
from dragoman.limits.counters import (
    FIXED_CELLS,
    ROLLING_CELLS,
    Cells,
    Counter,
    FixedCounter,
    RollingCounter,
)
from dragoman.limits.rows import (
    OWN_AHEAD,
    OWN_CELLS,
    OWN_UNWRITTEN,
    Row,
    private_row,
    reclaim,
)
from dragoman.storage.shared_file import PROCESSES, ROW_LOCKS, SharedFile
from dragoman.storage.shared_mutex import MUTEX_BYTES, SharedMutex, has_mutexes

_log = logging.getLogger("dragoman.limits")

ROWS = 1 << 15
"""Counters that are shared; further ones count in each process by itself."""

_MAGIC = b"dragoman limits 3"
_HEAD = 4096
_TABLE = _HEAD
_OFFSETS = _TABLE + 16 * ROWS
_COLUMNS = _OFFSETS + 8 * ROWS
_COLUMN_BYTES = 8 * OWN_CELLS * ROWS
_AREA = _COLUMNS + PROCESSES * _COLUMN_BYTES
_AREA_CELLS = 8 << 20
_SIZE = _AREA + 8 * _AREA_CELLS
_PLACE = (1 << 31) - 1

# Cells of the head, after the magic.
_BOOT, _COLUMNS_USED, _ROWS_USED, _CELLS_USED, _LOSSES, _HAS_MUTEX = 8, 9, 10, 11, 12, 13

_MUTEX = 128
"""Where the mutex is in the head."""

_EXCHANGE_LOCK, _CELLS_LOCK = ROW_LOCKS, ROW_LOCKS + 1

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class SharedLimits(SharedFile):
    """The counters in the file at `path`, which is made, for its owner alone, if it is not there.

    Raises:
        OSError: the file cannot be made, mapped or locked, or all columns are taken.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._rows: dict[str, Row] = {}
        self._indexes: dict[Row, int] = {}
        self._is_full = False
        self.lock: Callable[[], object] = _closed
        self.unlock: Callable[[], object] = _closed
        super().__init__(path, _MAGIC, _SIZE)

    def close(self) -> None:
        """Give up what this process has reserved, and the file. Harmless if it was done before."""
        if self._file >= 0:
            self._reclaim(self._number)
            self.lock = self.unlock = _closed
            super().close()

    def row(self, name: str, cells: int) -> Row:
        """The counter of this name, which has so many cells; made if there is none. Not to be
        called while locked."""
        row = self._rows.get(name)
        if row is None:
            self.lock()
            try:
                row = self._rows[name] = self._find(name, cells)
            finally:
                self.unlock()
        return row

    def known(self, name: str) -> Row | None:
        """The counter of this name; None if there is none, and none is made. Not to be called while
        locked."""
        row = self._rows.get(name)
        if row is None:
            self.lock()
            try:
                _, at = self._search(name)
                if at >= 0 and self._cells[at]:
                    row = self._rows[name] = self._own_row(self._cells[at + 1])
            finally:
                self.unlock()
        return row

    def reclaim_lost(self) -> int:
        """Give back what processes have reserved that are gone. Returns how many these were. Not to
        be called while locked."""
        lost = 0
        for number in range(self._cells[_COLUMNS_USED]):
            if number == self._number or not self._try_column(number):
                continue
            try:
                lost += self._reclaim(number)
            finally:
                self._release_column(number)
        return lost

    @property
    def losses(self) -> int:
        """How often something was given back that a process had which is gone: by whichever process
        saw that, or took its place."""
        return self._cells[_LOSSES]

    def ahead(self, row: Row) -> int:
        """What all processes have reserved ahead of need, as far as they have told. To be called
        while locked."""
        return self._of_all(row, OWN_AHEAD)

    def unwritten(self, row: Row) -> int:
        """What all processes have counted as used that is in no row of usage yet. To be called
        while locked."""
        return self._of_all(row, OWN_UNWRITTEN)

    def counts_all(self, row: Row) -> bool:
        """Whether all processes of this machine count there: there was room for it."""
        return row in self._indexes

    def try_exchange(self) -> bool:
        """Be the process that asks the owner of limits for all of this machine, until
        `end_exchange`; False if another is. It ends with the process."""
        return self._try_lock(_EXCHANGE_LOCK)

    def end_exchange(self) -> None:
        """Let others ask the owner."""
        self._unlock(_EXCHANGE_LOCK)

    # Within

    def _prepare(self, is_alone: bool) -> None:
        if is_alone and not self._is_usable():
            self._begin_anew()
        if is_alone:
            self._allocate(0, _COLUMNS)
        memory = self._map()
        cells = self._cells = memory.cast("q")
        place = memory[_MUTEX : _MUTEX + MUTEX_BYTES]
        if is_alone:
            cells[_BOOT], cells[_HAS_MUTEX] = _boot(), has_mutexes()
            if cells[_HAS_MUTEX]:
                SharedMutex.make(place)
        if not cells[_HAS_MUTEX]:
            self.lock, self.unlock = self._locking(_CELLS_LOCK)
        elif has_mutexes():
            mutex = SharedMutex(place)
            self.lock, self.unlock = mutex.lock, mutex.unlock
        else:
            raise OSError(errno.EBUSY, "is in use with another C library")
        if is_alone:
            for number in range(cells[_COLUMNS_USED]):
                self._reclaim(number)

    def _is_usable(self) -> bool:
        """Whether what the file has may be gone on from, and has room for more."""
        if not self._is_known() or os.fstat(self._file).st_size != _SIZE:
            return False
        head = memoryview(os.pread(self._file, 8 * (_CELLS_USED + 1), 0)).cast("q")
        room = head[_ROWS_USED] <= ROWS // 2 and head[_CELLS_USED] <= _AREA_CELLS // 2
        return head[_BOOT] == _boot() and room

    def _column_taken(self, number: int) -> None:
        cells = self._cells
        self._reclaim(number)
        cells[_COLUMNS_USED] = max(cells[_COLUMNS_USED], number + 1)

    def _of_all(self, row: Row, cell: int) -> int:
        """The sum of one cell of a counter over all processes."""
        if row not in self._indexes:
            return row.own[cell]
        cells, place = self._cells, OWN_CELLS * self._indexes[row] + cell
        return sum(cells[_column(number) + place] for number in range(cells[_COLUMNS_USED]))

    def _find(self, name: str, size: int) -> Row:
        cells = self._cells
        key, at = self._search(name)
        if at >= 0 and cells[at]:
            return self._own_row(cells[at + 1])
        index, begin = cells[_ROWS_USED], cells[_CELLS_USED]
        if at < 0 or begin + size > _AREA_CELLS:
            self._tell_full(f"{ROWS} are shared")
            return private_row(size)
        if not self._has_room(_AREA // 8 + begin, size):
            return private_row(size)
        # Sizes other than those of counters stand above the place.
        other = 0 if size in (FIXED_CELLS, ROLLING_CELLS) else size
        told = other << 32 | begin << 1 | (size == ROLLING_CELLS)
        cells[_OFFSETS // 8 + index] = told
        cells[_ROWS_USED], cells[_CELLS_USED] = index + 1, begin + size
        cells[at + 1] = index
        cells[at] = key
        return self._own_row(index)

    def _search(self, name: str) -> tuple[int, int]:
        """The number of a name, and where in the table it is, or else would be: -1 for nowhere."""
        key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") >> 1 or 1
        cells, place = self._cells, key % ROWS
        for _ in range(ROWS):
            at = _TABLE // 8 + 2 * place
            if cells[at] in (key, 0):
                return key, at
            place = (place + 1) % ROWS
        return key, -1

    def _has_room(self, begin: int, count: int) -> bool:
        """Whether there is room on the disk for so many cells."""
        try:
            self._allocate(8 * begin, 8 * count)
        except OSError as error:
            self._tell_full(error.strerror or type(error).__name__)
            return False
        return True

    def _tell_full(self, why: str) -> None:
        if not self._is_full:
            self._is_full = True
            _log.error("further limits hold for each worker by itself: %s", why)

    def _own_row(self, index: int) -> Row:
        row = self._row_at(index, self._number)
        if not self._has_room(_column(self._number) + OWN_CELLS * index, OWN_CELLS):
            return private_row(len(row.cells))
        self._indexes[row] = index
        return row

    def _row_at(self, index: int, number: int) -> Row:
        """A counter with the cells of process `number`."""
        told = self._cells[_OFFSETS // 8 + index]
        begin = _AREA // 8 + (told >> 1 & _PLACE)
        size = told >> 32 or (ROLLING_CELLS if told & 1 else FIXED_CELLS)
        own = _column(number) + OWN_CELLS * index
        return Row(self._cells[begin : begin + size], self._cells[own : own + OWN_CELLS])

    def _reclaim(self, number: int) -> bool:
        """Give back what process `number` has; whether it had anything."""
        self.lock()
        try:
            return self._reclaim_locked(number)
        finally:
            self.unlock()

    def _reclaim_locked(self, number: int) -> bool:
        cells, found = self._cells, False
        begin = _column(number)
        end = begin + OWN_CELLS * cells[_ROWS_USED]
        if not any(cells[begin:end]):
            return False
        for index in range(cells[_ROWS_USED]):
            own = OWN_CELLS * index
            if any(cells[begin + own : begin + own + OWN_CELLS]):
                row = self._row_at(index, number)
                columns = range(cells[_COLUMNS_USED])
                others = (cells[_column(other) + own] for other in columns if other != number)
                reclaim(_bare_counter(row.cells), row, sum(others))
                found = True
        cells[_LOSSES] += found
        return found


class PrivateLimits:
    """Counters of one process by itself."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    def row(self, name: str, cells: int) -> Row:
        """See `SharedLimits.row`."""
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = private_row(cells)
        return row

    def lock(self) -> None:
        """There is nobody else."""

    def unlock(self) -> None:
        """There is nobody else."""

    def known(self, name: str) -> Row | None:
        """See `SharedLimits.known`."""
        return self._rows.get(name)

    def reclaim_lost(self) -> int:
        """There is nobody else."""
        return 0

    @property
    def losses(self) -> int:
        """There is nobody else."""
        return 0

    def ahead(self, row: Row) -> int:
        """See `SharedLimits.ahead`."""
        return row.own[OWN_AHEAD]

    def unwritten(self, row: Row) -> int:
        """See `SharedLimits.unwritten`."""
        return row.own[OWN_UNWRITTEN]

    def counts_all(self, row: Row) -> bool:
        """There is nobody else."""
        return True

    def try_exchange(self) -> bool:
        """There is nobody else."""
        return True

    def end_exchange(self) -> None:
        """There is nobody else."""

    def close(self) -> None:
        """There is nothing to give up."""


def _column(number: int) -> int:
    """Where the cells of a process begin."""
    return (_COLUMNS + number * _COLUMN_BYTES) // 8


def _bare_counter(cells: Cells) -> Counter:
    """A counter for giving back: when its window begins does not matter to that."""
    if len(cells) == ROLLING_CELLS:
        return RollingCounter(cells, 1.0)
    return FixedCounter(cells, Fixed(None))


def _closed() -> None:
    raise OSError(errno.EBADF, "is closed")


def _boot() -> int:
    """A number for the time since the machine was started; 0 where nothing tells it."""
    try:
        with open(_BOOT_ID, "rb") as file:
            told = file.read(64)
    except OSError:
        return 0
    return int.from_bytes(blake2b(told, digest_size=8).digest(), "little") >> 1
