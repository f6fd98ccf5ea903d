"""Decisions in the words of an operator: what the documentation and `dragoman classify` print."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from dragoman.accounts.decisions import classify, fitting, observe, on_trial, standing
from dragoman.accounts.states import AccountState, Decision, Failed, Rest
from dragoman.accounts.symptoms import Symptom
from dragoman.failing import Rule

UNCHANGED = "as before"
"""What becomes of an account to which an outcome means nothing."""

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


class Explanation(Struct, frozen=True):
    """Why something is done about a failure, and what.

    `row` is the number of the row that fits, from 1, with `rule` itself; 0 and None if none does.
    `request` and `account` tell what becomes of each.
    """

    row: int
    rule: Rule | None
    request: str
    account: str


def explain(symptom: Symptom, rules: Sequence[Rule], model: str = "") -> Explanation:
    """What a failure means by `rules` to an account of which nothing is known yet."""
    rule = fitting(symptom, rules)
    decision = classify(symptom, rules)
    before = AccountState("account")
    after = observe(before, Failed(decision), model, 0.0)
    row = 0 if rule is None else 1 + next(n for n, other in enumerate(rules) if other is rule)
    return Explanation(row, rule, of_request(decision), of_account(before, after, model, 0.0))


def of_request(decision: Decision) -> str:
    """What becomes of the request."""
    return "next account" if decision.tries_next else "back to the client"


def of_account(before: AccountState, after: AccountState, model: str, now: float) -> str:
    """What has become of the account at `now`, as far as `model` is concerned."""
    if before == after:
        return "stays active" if not before.disabled and _free(before, model, now) else UNCHANGED
    if after.disabled:
        end = "a person enables it"
        return f"out until {end if after.by_hand else f'its key changes or {end}'}"
    rest = standing(after, model, now)
    if rest is None:
        return "on trial" if on_trial(after, model, now) else "active"
    for_all = rest is after.exhausted or rest is after.cooling.get("")
    length = span(rest.until - now)
    if rest.soft:
        told = f"used last for {length}"
    elif rest is after.exhausted:
        return f"out for {length}, then on trial"
    else:
        told = f"rests {length}"
    return f"{told}, for {'every' if for_all else 'this'} model{_then(rest)}"


def _then(rest: Rest) -> str:
    return ", then on trial" if not rest.soft and rest.streak > 1 else ""


def _free(state: AccountState, model: str, now: float) -> bool:
    return state.exhausted is None and not state.cooling and standing(state, model, now) is None


def span(seconds: float) -> str:
    """A length of time in its largest unit that leaves a number of few digits: `1.5 s`, `2 h`."""
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.2g} s"
