"""Decisions in the words of an operator: what the documentation and `dragoman classify` print."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from dragoman.accounts.decide.decisions import active_rest, classify, fitting, observe, on_trial
from dragoman.accounts.decide.states import AccountState, Decision, Failed
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.failing import Rule

UNCHANGED = "as before"
"""What becomes of an account to which an outcome means nothing."""

_UNCHANGED = (UNCHANGED, "stays active")
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


class Explanation(Struct, frozen=True):
    """Why something is done about a failure, and what.

    `row` is the number of the row that fits, from 1, with `rule` itself; 0 and None if none does.
    `request` and `account` describe what happens to each.
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
    rest, trial = active_rest(after, model, now), on_trial(after, model, now)
    if (rest, trial) == (active_rest(before, model, now), on_trial(before, model, now)) and (
        before.by_hand == after.by_hand
    ):
        return UNCHANGED if rest is not None or trial else "stays active"
    if after.disabled:
        return "disabled by hand" if after.by_hand else "disabled"
    if rest is None:
        return "on trial" if trial else "active"
    length = span(rest.until - now)
    then = ", then on trial" if on_trial(after, model, rest.until) else ""
    if rest is after.exhausted:
        return f"out for {length}{then}"
    models = "every model" if rest is after.cooling.get("") else "this model"
    if rest.soft:
        return f"used last for {length}, for {models}"
    return f"rests {length}, for {models}{then}"


def change_of(
    before: AccountState, after: AccountState, model: str, now: float
) -> tuple[str, bool] | None:
    """What has become of an account, with the reason, for the log; and whether it concerns all that
    it serves, rather than a rest. None if it is as before."""
    became = of_account(before, after, model, now)
    if became in _UNCHANGED:
        return None
    rest = active_rest(after, model, now)
    why = after.disabled or ("" if rest is None else rest.why)
    was_out = bool(before.disabled or before.exhausted)
    is_out = bool(after.disabled) or (rest is not None and rest is after.exhausted)
    return f"{became}: {why}" if why else became, was_out or is_out


def span(seconds: float) -> str:
    """A length of time in its largest unit that leaves a number of few digits: `1.5 s`, `2 h`."""
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.2g} s"
