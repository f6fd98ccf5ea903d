"""Accounts of one upstream that are refused alike: each for itself, or all, which is the upstream's
own failure. Pure.

A vendor whose sign-in or billing fails refuses every account, also those that it served a moment
ago. Where several are refused for the same reason one after another, with no good answer of the
upstream between, those that were refused are not taken out for good; where none is left to try, the
upstream rests, and one account at a time is the trial.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from dragoman.accounts.decide.proxies import rest_after
from dragoman.accounts.decide.states import Decision, Rest
from dragoman.failing import Verdict

ALL_REFUSED = "the upstream refuses several accounts alike"

_ACCOUNTS = 3
"""Accounts refused alike from which on the upstream may be at fault."""

_FORGET_AFTER_S = 600.0
"""Seconds after which a refusal is not counted with a later one."""

_TRIAL_S = 10.0
"""Seconds for which a trial keeps other requests away, unless its outcome is known before."""


class Refusals:
    """The accounts of an upstream that were refused since its last good answer, with the reason
    `why`, and the `rest` of the upstream, None if it has none. `for_quota`: they were refused for
    want of quota. `noted`: there is something that a good answer may change."""

    __slots__ = ("_refused", "_suspects", "_tried", "for_quota", "noted", "rest", "why")

    def __init__(self) -> None:
        self._refused: dict[str, float] = {}
        self._suspects: set[str] = set()
        """Accounts that were held innocent of a refusal and have not worked since: they alone are
        no sign that the upstream fails again."""
        self._tried: set[str] = set()
        self.why = ""
        self.for_quota = self.noted = False
        self.rest: Rest | None = None

    def refused(self, name: str, decision: Decision, now: float) -> list[str]:
        """Record what was decided on a refused account at `now`, in seconds. Returns the accounts
        that were refused alike, this one included; none while each may be at fault itself."""
        oldest = now - _FORGET_AFTER_S
        recent = {other: at for other, at in self._refused.items() if at > oldest}
        if decision.why != self.why:
            recent = {}
        self.why, self.for_quota = decision.why, decision.verdict is Verdict.EXHAUST
        self._refused = {**recent, name: now}
        self.noted = True
        if len(self._refused) < _ACCOUNTS or self._suspects.issuperset(self._refused):
            return []
        return list(self._refused)

    def succeeded(self, name: str, taken: float) -> bool:
        """Record a good answer to a request of the account that began at `taken`. Returns whether
        the upstream's rest is over by it."""
        self._suspects.discard(name)
        rest = self.rest
        if rest is not None and taken < rest.since:
            return False
        self._refused.clear()
        self.rest = None
        self.noted = bool(self._suspects)
        return rest is not None

    def begin_rest(self, now: float, spread: float) -> Rest:
        """Have the upstream rest, since all accounts that could be tried were refused."""
        self._suspects.update(self._refused)
        self._tried = set(self._refused)
        self._refused.clear()
        self.rest = replace(rest_after(self.rest, now, spread), why=f"{ALL_REFUSED}: {self.why}")
        return self.rest

    def refused_again(self, name: str, taken: float, now: float, spread: float) -> None:
        """Record that an account was refused by an upstream that rests: the trial, if it began
        since."""
        assert self.rest is not None
        self._suspects.add(name)
        self._tried.add(name)
        if taken >= self.rest.since:
            self.rest = replace(rest_after(self.rest, now, spread), why=self.rest.why)

    def begin_trial(self, now: float) -> None:
        """Keep others away while a request shows whether the upstream's failure is over."""
        assert self.rest is not None
        self.rest = replace(self.rest, until=now + _TRIAL_S)

    def left_out(self, tried: Collection[str]) -> Collection[str]:
        """Accounts not to be the trial: those of `tried`, and those that were it already."""
        return self._tried.union(tried)

    def try_all(self) -> None:
        """Let each account be the trial once more: all were."""
        self._tried.clear()

    def is_resting(self, now: float) -> bool:
        """Whether no request may take an account."""
        return self.rest is not None and self.rest.until > now

    def is_counting(self) -> bool:
        """Whether an account was refused, and none answered well since."""
        return bool(self._refused)

    def forget(self, name: str) -> None:
        """Drop what is known of an account that was removed or has another key."""
        self._suspects.discard(name)
        self._refused.pop(name, None)
        self._tried.discard(name)


def counts(decision: Decision) -> bool:
    """Whether what was decided on an account would keep it from use for long without its upstream
    having said until when."""
    if decision.verdict is Verdict.EXHAUST:
        return decision.rest is None
    return decision.verdict is Verdict.DISABLE
