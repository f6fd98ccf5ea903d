"""Ids of an answer's tool calls: each call has one of its own, for results name the call by it."""

from __future__ import annotations

import hashlib


class CallIds:
    """The ids that the calls of one answer have."""

    __slots__ = ("_prefix", "_taken")

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._taken: set[str] = set()

    def is_taken(self, told: str) -> bool:
        """Whether a call has this id."""
        return told in self._taken

    def take(self, told: str, seed: str) -> str:
        """The id of the next call: as the upstream has it, unless it has none or gave it to another
        call. One that is made here depends on `seed` only, so that the same answer has the same
        ids, whole and streamed, and another answer of the conversation other ones.
        """
        if not told or told in self._taken:
            told = made_id(self._prefix, seed)
        self._taken.add(told)
        return told


def made_id(prefix: str, seed: str) -> str:
    """An id that depends on `seed` only."""
    return prefix + hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:24]
