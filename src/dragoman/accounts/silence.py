"""Calls without an answer for far longer than usual, and the accounts avoided for it. Pure.

How long an upstream commonly takes to begin its answer is learned from its good answers. A call
that takes far longer may be at work or may hang: that is unknown, and a second call may cost
twice. So the call goes on by default, but its account is avoided until one call, a trial, is
answered as usual.
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.accounts.decide.proxies import same_failure
from dragoman.accounts.decide.states import Rest

SILENT = "it was silent for far longer than usual"

_SLOTS = 24
"""Times are counted by powers of two of a millisecond, up to some hours."""
_LEARN_AFTER, _LEARN_EVERY = 32, 64
"""Answers after which something is known, and those after which it is looked at again; what was
counted before then counts half."""
_RARE = 0.01
"""Share of the answers that take longer than is usual."""
_FAR_LONGER = 4.0
_LEAST_S = 5.0
"""No call is far too late before: service and network may have a bad moment."""
UNKNOWN_LIMIT_S = 30.0
"""Seconds after which a call is far too late, once it has ended, where too little is known."""

_BASE, _LONGEST = 30.0, 3600.0
_FORGET_ONE_AFTER = 3600.0
_LEAST_TRIAL_S = 10.0


class UsualWait:
    """How long it commonly takes until an answer begins.

    `limit` is the number of seconds after which a call is far too late; 0 while too little is
    known. It is one of few values, so that they can share timers.
    """

    __slots__ = ("_counts", "_left", "limit")

    def __init__(self) -> None:
        self._counts = [0] * _SLOTS
        self._left = _LEARN_AFTER
        self.limit = 0.0

    def heard(self, seconds: float) -> None:
        """A good answer began after so many seconds."""
        slot = int(seconds * 1000.0).bit_length()
        self._counts[slot if slot < _SLOTS else -1] += 1
        self._left -= 1
        if not self._left:
            self._learn()

    def _learn(self) -> None:
        beyond = sum(self._counts) * _RARE
        slot = _SLOTS
        while slot > 0 and beyond >= 0:
            slot -= 1
            beyond -= self._counts[slot]
        self.limit = max(_LEAST_S, _FAR_LONGER * (1 << slot) / 1000.0)
        self._counts = [count // 2 for count in self._counts]
        self._left = _LEARN_EVERY


def rest_after_silence(
    before: Rest | None, taken: float, now: float, spread: float, patience: float = 0.0
) -> Rest | None:
    """The rest of an account of which a call, begun at `taken`, has been silent for too long at
    `now`; None if this was known. `before` is its last such rest; `spread` in [0, 1) varies the new
    one by a quarter either way. It does not end before the call itself does, in `patience` seconds:
    until then nothing more can be known than that it is silent. And as a trial costs its client as
    much, it grows from there.
    """
    if same_failure(before, taken, now):
        return None
    streak = 1
    if before is not None:
        calm = int(max(0.0, now - before.until) / _FORGET_ONE_AFTER)
        streak = max(0, before.streak - calm) + 1
    seconds = _back_off(streak, patience) * (0.75 + 0.5 * spread)
    return Rest(now + max(seconds, patience), SILENT, True, streak, now)


def after_late_answer(rest: Rest, now: float) -> Rest:
    """The rest once a call is answered after all, far too late: the account is slow and does not
    hang, so no more than the back-off is waited for."""
    return replace(rest, until=min(rest.until, max(now, rest.since + _back_off(rest.streak))))


def _back_off(streak: int, patience: float = 0.0) -> float:
    return min(max(_BASE, patience) * 2.0 ** min(streak - 1, 16), _LONGEST)


def trial(rest: Rest, limit: float, now: float) -> Rest | None:
    """The rest during a trial, a call given to an account whose rest is over: others avoid it until
    the call is answered, or is silent for `limit` seconds itself. None if the rest is not over.
    """
    if rest.until > now:
        return None
    return replace(rest, until=now + max(limit, _LEAST_TRIAL_S))
