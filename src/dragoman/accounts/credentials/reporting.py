"""What the credential of an account means for its state."""

from __future__ import annotations

import logging
from math import inf

from dragoman.accounts.credentials.decide.refreshing import LASTING
from dragoman.accounts.credentials.holding import PREPARING, Held
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


def note_change(pool: AccountPool, held: Held, now: float) -> None:
    """Have the pool know that an account has a credential, or why it has none."""
    name = held.account.name
    try:
        account, state = pool.account(name), pool.state(name)
    except KeyError:
        return
    if account.fingerprint != held.account.fingerprint:
        return  # of another configuration
    lack = held.lack
    outcome: Outcome | None = None
    is_usable = held.usable(now) is not None
    is_preparing = not is_usable and lack is None
    pool.prepare(name, Rest(inf, PREPARING, soft=True, since=now) if is_preparing else None)
    if lack is not None and lack.failures == 1:
        _log.warning("account %s: no newer credential: %s", name, lack.why)
    if is_usable:
        if (
            state.disabled
            and not state.by_hand
            and (not state.refused_key or held.is_of_new_inputs)
        ):
            # It was for want of a credential (no key was refused), or with other ones.
            outcome = Enabled("configuration")
        elif held.was_reported and "" in state.cooling:
            outcome = Succeeded("probe")
        held.was_reported = False
    elif lack is not None:
        held.was_reported = True
        verdict = Verdict.DISABLE if lack.problem in LASTING else Verdict.COOL
        outcome = Failed(Decision(verdict, lack.why, every_model=True), "probe")
    if outcome is not None:
        pool.observe(Transition(name, outcome, now))
