"""Reports of limits that fill up or refuse requests, in the log and by the webhook."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from math import isfinite

from dragoman.accounts.decide.alerts import Alert, LimitOf, of_limit
from dragoman.config.windows import Rolling
from dragoman.limits.counters import counts_until
from dragoman.limits.rules import Rule

_log = logging.getLogger("dragoman.limits")
_HOUR_S = 3600


class LimitAlerts:
    """Reports limits that fill up or refuse requests, to the log and to `notify`. Rolling windows
    of less than an hour are left out: they are full again and again."""

    def __init__(self, notify: Callable[[Alert], None] = lambda alert: None) -> None:
        self._notify = notify

    def reached(self, rule: Rule, percent: int) -> None:
        """A share of the limit was reached by what was used here."""
        if _is_reported(rule):
            _log.warning("%d %% of %s of %s are used", percent, rule.name, rule.owner)
        self.found(rule, percent)

    def found(self, rule: Rule, percent: int) -> None:
        """A share of the limit is used, as is seen when it is first asked for: nobody may have
        reported it before another process ended, or it was changed to less than is used."""
        if rule.window is not None:
            now = time.time()
            self._alert(rule, percent, counts_until(rule.window, now), now)

    def refused(self, rule: Rule, used: int, now: float) -> None:
        """The limit refuses requests, which it does before all is used: reported once in its
        window."""
        if rule.window is None or now < rule.reported_until:
            return
        rule.reported_until = counts_until(rule.window, now)
        amount = rule.amount(now)
        percent = 100 * used // amount if amount else 100
        self._alert(rule, percent, rule.reported_until, now, refuses=True)

    def _alert(
        self, rule: Rule, percent: int, ends: float, now: float, *, refuses: bool = False
    ) -> None:
        if _is_reported(rule):
            models, settings = tuple(rule.limit.models or ()), repr(rule.limit)
            limit = LimitOf(rule.owner, rule.name, rule.is_team, models, settings)
            until = ends if isfinite(ends) else None
            self._notify(of_limit(limit, percent, until, now, refuses=refuses))


def _is_reported(rule: Rule) -> bool:
    window = rule.window
    return not isinstance(window, Rolling) or window.seconds >= _HOUR_S
