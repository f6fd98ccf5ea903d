"""The counts of all workers, for whichever of them is asked."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from mmap import mmap

import msgspec

from dragoman.observability.metrics.counts import Counts

_SLOT_BYTES = 1024 * 1024
_HEAD_BYTES = 8
_READS = 3


class Board:
    """The published counts of all workers: shared memory with a slot for each. The processes that
    share it are forked after it was made."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._memory = mmap(-1, slots * _SLOT_BYTES)

    def publish(self, slot: int, counts: Counts) -> None:
        """Write the counts of a worker. Only one process may use a slot."""
        data = msgspec.msgpack.encode(counts)
        if len(data) > _SLOT_BYTES - _HEAD_BYTES:
            return
        start = slot * _SLOT_BYTES
        # By the checksum a reader sees that a slot is half-written.
        head = len(data).to_bytes(4, "big") + zlib.crc32(data).to_bytes(4, "big")
        self._memory[start : start + _HEAD_BYTES + len(data)] = head + data

    def read(self, slot: int) -> Counts | None:
        """The counts in a slot. None if it is empty, or was being written at each of several
        reads."""
        start = slot * _SLOT_BYTES
        for _ in range(_READS):
            head = self._memory[start : start + _HEAD_BYTES]
            size = int.from_bytes(head[:4], "big")
            if not 0 < size <= _SLOT_BYTES - _HEAD_BYTES:
                return None
            data = self._memory[start + _HEAD_BYTES : start + _HEAD_BYTES + size]
            if zlib.crc32(data).to_bytes(4, "big") == head[4:]:
                return msgspec.msgpack.decode(data, type=Counts)
        return None

    def others(self, slot: int) -> Iterator[Counts]:
        """The counts in all other slots."""
        for number in range(self._slots):
            if number != slot and (found := self.read(number)) is not None:
                yield found
