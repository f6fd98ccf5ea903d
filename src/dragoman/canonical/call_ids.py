"""Ids of an answer's tool calls, unique because results refer to them."""

from __future__ import annotations

import hashlib


class CallIds:
    """The ids of the calls of one answer."""

    __slots__ = ("_prefix", "_taken")

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._taken: set[str] = set()

    def is_taken(self, given: str) -> bool:
        """Whether a call has this id."""
        return given in self._taken

    def take(self, given: str, seed: str) -> str:
        """The id of the next call: the upstream's, unless it is empty or taken by another call. An
        id made here depends on `seed` only, so that the same answer has the same ids, whole and
        streamed, and another answer of the conversation has other ones."""
        if not given or given in self._taken:
            given = made_id(self._prefix, seed)
        self._taken.add(given)
        return given


def made_id(prefix: str, seed: str) -> str:
    """An id that depends on `seed` only."""
    return prefix + hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:24]
