"""Which account a conversation is with. Pure.

A conversation is known by the digest of its key; the account that answered it last has its prompt
cache, and its reasoning may be useless to other accounts.
"""

from __future__ import annotations

from collections import OrderedDict

MOST_PINS = 100_000
"""Conversations that are remembered for one upstream; the least recently used are forgotten."""

_REPUBLISH_AFTER = 0.25
"""Part of the time to live, or of that of a cache, after which a pin that is still used is
published again."""


class Affinity:
    """The pins of one upstream: digest to account, for `seconds` after the last use. The account's
    cache of the conversation is there for `cached_s` seconds."""

    def __init__(self, seconds: float, cached_s: float, most: int = MOST_PINS) -> None:
        self._seconds = seconds
        self._cached_s = cached_s
        self._most = most
        self._pins: OrderedDict[bytes, tuple[str, float, float]] = OrderedDict()
        self._next_end = 0.0
        """No pin at the front has expired before this time."""

    def __len__(self) -> int:
        return len(self._pins)

    def lasting(self, seconds: float, cached_s: float) -> Affinity:
        """These pins with other times; `self` if they are the same."""
        if (seconds, cached_s) == (self._seconds, self._cached_s):
            return self
        other = Affinity(seconds, cached_s, self._most)
        other._pins = self._pins.copy()
        return other

    def account(self, digest: bytes, now: float) -> str:
        """The account of the conversation, empty if none is known."""
        pin = self._pins.get(digest)
        return pin[0] if pin is not None and now - pin[1] <= self._seconds else ""

    def is_cold(self, digest: bytes, now: float) -> bool:
        """Whether the conversation was not used for so long that no cache has it."""
        pin = self._pins.get(digest)
        return pin is None or now - pin[1] > self._cached_s

    def pin(self, digest: bytes, account: str, now: float) -> bool:
        """Record that the account answered the conversation. Returns whether to publish that to
        other workers: the account changed, or it was published long ago.
        """
        pins = self._pins
        before = pins.get(digest)
        published = now
        if before is not None and before[0] == account:
            published = before[2]
            if now - published > min(self._seconds, self._cached_s) * _REPUBLISH_AFTER:
                published = now
        pins[digest] = account, now, published
        pins.move_to_end(digest)
        self._forget(now)
        return before is None or before[0] != account or published != before[2]

    def merge(self, digest: bytes, account: str, at: float) -> None:
        """Record a pin of another worker made at `at`; the later of two pins counts."""
        before = self._pins.get(digest)
        if before is None or before[1] < at:
            self._pins[digest] = account, at, at
            self._pins.move_to_end(digest)
            self._forget(at)

    def _forget(self, now: float) -> None:
        """Drop expired pins, two per call, so that no call takes long."""
        for _ in range(2):
            if len(self._pins) <= self._most and now <= self._next_end:
                break
            digest, (_, at, _) = next(iter(self._pins.items()))
            self._next_end = at + self._seconds
            if len(self._pins) > self._most or now > self._next_end:
                del self._pins[digest]
