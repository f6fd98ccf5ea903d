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
        self._republish_s = min(seconds, cached_s) * _REPUBLISH_AFTER
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

    def find(self, digest: bytes, now: float) -> tuple[str, bool]:
        """The account of the conversation, empty if none is known, and whether it was used so
        lately that a cache may have it."""
        pin = self._pins.get(digest)
        if pin is None:
            return "", False
        account, at, _ = pin
        unused_s = now - at
        return account if unused_s <= self._seconds else "", unused_s <= self._cached_s

    def pin(self, digest: bytes, account: str, now: float) -> bool:
        """Record that the account answered the conversation. Returns whether to publish that to
        other workers: the account changed, or it was published long ago.
        """
        before, published = self._pins.get(digest), now
        if before is not None and before[0] == account and now - before[2] <= self._republish_s:
            published = before[2]
        self._put(digest, account, now, published)
        return before is None or before[0] != account or published != before[2]

    def merge(self, digest: bytes, account: str, at: float) -> None:
        """Record a pin of another worker made at `at`; the later of two pins counts."""
        before = self._pins.get(digest)
        if before is None or before[1] < at:
            self._put(digest, account, at, at)

    def _put(self, digest: bytes, account: str, now: float, published: float) -> None:
        pins, dropped = self._pins, 0
        pins[digest] = account, now, published
        pins.move_to_end(digest)
        # Expired pins are dropped two at a time, so that no call takes long.
        while dropped < 2 and (len(pins) > self._most or now > self._next_end):
            dropped += 1
            digest, (_, at, _) = next(iter(pins.items()))
            self._next_end = at + self._seconds
            if len(pins) > self._most or now > self._next_end:
                del pins[digest]
