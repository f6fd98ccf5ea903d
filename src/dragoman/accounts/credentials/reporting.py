"""What the credential of an account means for its state."""

from __future__ import annotations

import logging
from math import inf

from dragoman.accounts.credentials.account_credentials import PREPARING, AccountCredential
from dragoman.accounts.credentials.decide.refreshing import LASTING
from dragoman.accounts.decide.states import (
    Decision,
    Enabled,
    Failed,
    Outcome,
    Rest,
    Succeeded,
    Transition,
)
from dragoman.accounts.pool import AccountPool
from dragoman.failing import Verdict

_log = logging.getLogger("dragoman.accounts")


def note_change(pool: AccountPool, entry: AccountCredential, now: float) -> None:
    """Have the pool know that an account has a credential, or why it has none."""
    name = entry.account.name
    try:
        account, state = pool.account(name), pool.state(name)
    except KeyError:
        return
    if account.fingerprint != entry.account.fingerprint:
        return  # of another configuration
    failure = entry.failure
    outcome: Outcome | None = None
    is_usable = entry.usable(now) is not None
    # Also between the end of its rest and the next attempt to obtain one, it is chosen last.
    why = PREPARING if failure is None else failure.why
    pool.prepare(name, None if is_usable else Rest(inf, why, soft=True, since=now))
    if failure is not None and failure.failures == 1:
        _log.warning("account %s: no newer credential: %s", name, failure.why)
    if is_usable:
        if (
            state.disabled
            and not state.by_hand
            and (not state.refused_key or entry.is_of_new_inputs)
        ):
            # It was for want of a credential (no key was refused), or with other ones.
            outcome = Enabled("configuration")
        elif entry.was_reported and "" in state.cooling:
            outcome = Succeeded("probe")
        entry.was_reported = False
    elif failure is not None:
        entry.was_reported = True
        verdict = Verdict.DISABLE if failure.problem in LASTING else Verdict.COOL
        outcome = Failed(Decision(verdict, failure.why, every_model=True), "probe")
    if outcome is not None:
        pool.observe(Transition(name, outcome, now))
