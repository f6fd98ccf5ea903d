"""A file that the processes of one machine map, with locks that end with the process that has them.

Locks are those of the kernel on ranges of bytes of the file (fcntl, "open file description locks"
where there are any). They end with the process that holds them, however it ends; so does the lock
that each process holds on its column as long as it lives, by which the others see whose numbers are
void.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from collections.abc import Callable
from functools import partial
from mmap import mmap

PROCESSES = 64

# Places of locks, beyond the end of the file: no bytes are there.
_COLUMN_LOCKS = 1 << 40
_TABLE_LOCK = _COLUMN_LOCKS + PROCESSES
ROW_LOCKS = _TABLE_LOCK + 1


class SharedFile:
    """The file at `path`, which is made, for its owner alone, if it is not there. `magic` is what
    it begins with, `size` its bytes.

    Belongs to one process and thread. A second one of a process counts as a process of its own
    where the system has open file description locks (Linux). What a class does with the columns of
    processes that are gone is up to it: `_prepare` is called while nobody else can take one.

    Raises:
        OSError: the file cannot be made, mapped or locked, or all columns are taken.
    """

    def __init__(self, path: str | os.PathLike[str], magic: bytes, size: int) -> None:
        self._magic = magic
        self._size = size
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._lock(_TABLE_LOCK)
            try:
                self._prepare(all(self._is_free(number) for number in range(PROCESSES)))
                self._number = self._take_column()
            finally:
                self._unlock(_TABLE_LOCK)
        except BaseException:
            os.close(self._file)
            self._file = -1
            raise

    def close(self) -> None:
        """Give everything up. Harmless if it was done before."""
        if self._file >= 0:
            # The map has the file open as well, for as long as anything refers to it.
            self._release_column(self._number)
            os.close(self._file)
            self._file = -1

    def _prepare(self, is_alone: bool) -> None:
        """Map the file, which nobody else uses if `is_alone`.

        Raises:
            OSError: it is of another version.
        """
        raise NotImplementedError

    def _column_taken(self, number: int) -> None:
        """This process has taken column `number`, under the lock of the table."""
        raise NotImplementedError

    def _begin_anew(self) -> None:
        """Empty the file."""
        # Files have holes: this gives back the room of whatever was there.
        os.ftruncate(self._file, 0)
        os.ftruncate(self._file, self._size)
        os.pwrite(self._file, self._magic, 0)

    def _map(self) -> memoryview:
        """The bytes of the file.

        Raises:
            OSError: it is of another version, which others use.
        """
        if not self._is_known():
            raise OSError(errno.EBUSY, "is in use by another version")
        return memoryview(mmap(self._file, self._size))

    def _allocate(self, begin: int, size: int) -> None:
        """Have room on the disk for bytes that are written in the map next: where there is none,
        writing there kills the process. To be called while nobody else writes there.

        Raises:
            OSError: there is none. Where nothing can be had in advance, that is not told.
        """
        if sys.platform != "darwin":
            try:
                os.posix_fallocate(self._file, begin, size)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise

    def _is_known(self) -> bool:
        """Whether the file is one of this version."""
        return os.pread(self._file, len(self._magic), 0) == self._magic

    def _take_column(self) -> int:
        for number in range(PROCESSES):
            if self._try_lock(_COLUMN_LOCKS + number):
                self._column_taken(number)
                return number
        raise OSError(errno.EUSERS, "too many processes use it")

    def _is_free(self, number: int) -> bool:
        """Whether no process has column `number`."""
        if not self._try_column(number):
            return False
        self._release_column(number)
        return True

    def _try_column(self, number: int) -> bool:
        """Take the column of another process that is gone; False if it is not, or is being looked
        after by another."""
        return self._try_lock(_COLUMN_LOCKS + number)

    def _release_column(self, number: int) -> None:
        self._unlock(_COLUMN_LOCKS + number)

    def _locking(
        self, place: int = _TABLE_LOCK
    ) -> tuple[Callable[[], object], Callable[[], object]]:
        """What takes the lock at `place`, and what gives it back, made ready to be called."""
        return _changing(self._file, _LOCK, place), _changing(self._file, _UNLOCK, place)

    def _lock(self, place: int = _TABLE_LOCK) -> None:
        _change(self._file, _LOCK, place)

    def _unlock(self, place: int = _TABLE_LOCK) -> None:
        _change(self._file, _UNLOCK, place)

    def _try_lock(self, place: int) -> bool:
        try:
            _change(self._file, _TRY, place)
        except BlockingIOError:
            return False
        except PermissionError:  # what some systems say instead
            return False
        return True


_LOCK, _TRY, _UNLOCK = range(3)

if sys.platform == "linux":
    _FLOCK = struct.Struct("@hhqqi4x")
    """`struct flock`: type, whence, start, length, process (0 for these locks)."""
    _COMMANDS = (
        (fcntl.F_OFD_SETLKW, fcntl.F_WRLCK),
        (fcntl.F_OFD_SETLK, fcntl.F_WRLCK),
        (fcntl.F_OFD_SETLK, fcntl.F_UNLCK),
    )

    def _changing(file: int, what: int, place: int) -> Callable[[], object]:
        command, kind = _COMMANDS[what]
        return partial(fcntl.fcntl, file, command, _FLOCK.pack(kind, os.SEEK_SET, place, 1, 0))

    def _change(file: int, what: int, place: int) -> None:
        command, kind = _COMMANDS[what]
        fcntl.fcntl(file, command, _FLOCK.pack(kind, os.SEEK_SET, place, 1, 0))
else:
    _FLAGS = (fcntl.LOCK_EX, fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN)

    def _changing(file: int, what: int, place: int) -> Callable[[], object]:
        return partial(fcntl.lockf, file, _FLAGS[what], 1, place, os.SEEK_SET)

    def _change(file: int, what: int, place: int) -> None:
        fcntl.lockf(file, _FLAGS[what], 1, place, os.SEEK_SET)
