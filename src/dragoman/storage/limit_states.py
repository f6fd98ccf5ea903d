"""The use of limits within windows shorter than an hour, which rows of usage do not record. A
gateway writes it when it ends, and the next one reads it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.limits.counters import CounterState
from dragoman.storage.ownership import guard

_log = logging.getLogger("dragoman.limits")

_decode = msgspec.msgpack.Decoder(dict[str, CounterState]).decode


class LimitStates:
    """A file with the states of counters, by the names of their ledgers."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def take(self) -> Mapping[str, CounterState]:
        """The states, which are read once: whoever crashes must not leave old ones behind."""
        try:
            guard(self._path)
            stored = self._path.read_bytes()
            self._path.unlink()
            return _decode(stored)
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("%s: windows of limits begin empty: %s", self._path, error)
            return {}

    def write(self, states: Mapping[str, CounterState]) -> None:
        """Store the states for the next gateway."""
        if not states:
            return
        draft = self._path.with_name(f"{self._path.name}-{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        try:
            with open(os.open(draft, flags, 0o600), "wb") as file:
                file.write(msgspec.msgpack.encode(states))
            draft.replace(self._path)
        except OSError as error:
            _log.warning("%s: windows of limits will begin empty: %s", self._path, error)
            with suppress(OSError):
                draft.unlink()
