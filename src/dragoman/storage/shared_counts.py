"""Requests in flight by account, counted exactly over all processes of one machine.

A file that all of them map: a column of counters for each process, a row for each account. Only the
process itself writes its column. To begin a request it locks the row, adds up the row over all
columns, and counts itself in if there is room; to end one it needs no lock. It notes in a ring what
it ended last, so that others, whose requests wait, look at these rows only.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection
from hashlib import blake2b

from dragoman.storage.shared_file import PROCESSES, ROW_LOCKS, SharedFile

_log = logging.getLogger("dragoman.accounts")

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


class SharedCounts(SharedFile):
    """The counters in the file at `path`, which is made, for its owner alone, if it is not there.

    Belongs to one process and thread. A second one of a process counts as a process of its own
    where the system has open file description locks (Linux).

    Raises:
        OSError: the file cannot be made, mapped or locked, or all columns are taken.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, _MAGIC, _SIZE)
        self._rows: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._is_full = False
        self._looked = 0.0

    def close(self) -> None:
        """Give everything up. Harmless if it was done before."""
        if self._file >= 0:
            self._clear(self._number)
            super().close()

    def take(self, name: str, most: int) -> bool:
        """Count one request more of the account in; False if all processes together have `most`."""
        row = self._row(name)
        if row < 0:
            return True
        lock = ROW_LOCKS + row
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
        self._lock()
        try:
            keys, row = self._keys, key % ROWS
            for _ in range(ROWS):
                if keys[row] in (0, key):
                    keys[row] = key
                    return row
                row = (row + 1) % ROWS
        finally:
            self._unlock()
        if not self._is_full:
            self._is_full = True
            _log.error("max_concurrent of further accounts is not shared: %d are", ROWS)
        return -1

    def _prepare(self, is_alone: bool) -> None:
        if is_alone:
            self._begin_anew()
        elif self._is_known() and os.fstat(self._file).st_size < _SIZE:
            # A version without rings uses it.
            os.ftruncate(self._file, _SIZE)
        whole = self._memory = self._map()
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

    def _column_taken(self, number: int) -> None:
        self._clear(number)
        self._used[0] = max(self._used[0], number + 1)

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
            if number != self._number and self._try_column(number):
                self._clear(number)
                self._release_column(number)
                found = True
        return found
