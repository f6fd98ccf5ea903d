"""What an outcome means for the account it happened to.

    decision = classify(symptom, rules)                            # a failure: what to do about it
    state = observe(state, Failed(decision), model, now, spread)   # any outcome: what is known now
    rest = active_rest(state, model, now)                             # may the account be used?

All functions are pure; rules are data (see `dragoman.accounts.decide.rules`). Traffic, probes, a
person and the configuration all go through `observe`, so that none of them knows an account
otherwise than the others. Times are Unix seconds. Outcomes of several workers may arrive late and
out of order: what is older than a rest changes nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from dragoman.accounts.decide.states import (
    FOREVER,
    AccountState,
    Decision,
    Disabled,
    Enabled,
    Entry,
    Failed,
    KeyChanged,
    Outcome,
    Rest,
    Source,
    Succeeded,
    Transition,
)
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.failing import Rule, Verdict

_HOUR = 3600.0
_DAY = 24 * _HOUR

_SOFT_BASE, _SOFT_MAX = 1.0, 30.0
_COOL_BASE, _COOL_MAX = 2.0, 120.0
_COOL_LEAST, _COOL_LEAST_MAX = 0.5, 8.0
_LONGEST_COOL = _HOUR
"""The longest rest for a rate limit, in seconds, whatever an upstream reports."""
_LONGEST_OF_SERVICE = 300.0
"""The longest rest for a failure of the service, which is no fault of one account, in seconds."""
_FORGET_ONE_AFTER = 600.0
"""Seconds without a failure that take one off the failures in a row."""

_EXHAUST_BASE, _EXHAUST_MAX = _HOUR, _DAY
_EXHAUST_LEAST, _EXHAUST_LEAST_MAX = 15.0, 900.0
_LONGEST_EXHAUSTION = 31 * _DAY
"""The longest period that quota is given for is a month."""
_FORGET_ONE_EXHAUSTION_AFTER = _DAY

_TRIED_FROM = 2
"""Failures in a row from which on an account comes back with one request at a time."""
_MOST_COOLING = 256
"""Models for which one account's rests are remembered."""
_LONGEST_WHY = 200
CLOCK_SLACK_S = 60.0
"""Seconds by which clocks may differ; a rest that began later than that is of a clock since set
back, and is over."""


def classify(symptom: Symptom, rules: Iterable[Rule]) -> Decision:
    """The decision of the first rule that fits; none fits: back to the client. Text that the client
    may have written takes no account out: another one is asked."""
    rule = fitting(symptom, rules)
    if rule is None:
        return Decision(Verdict.RETURN_TO_CLIENT)
    if rule.texts and symptom.is_quoted and rule.verdict is not Verdict.RETURN_TO_CLIENT:
        return Decision(Verdict.TRY_NEXT, rule.why)
    return Decision(rule.verdict, rule.why, rule.soft, symptom.retry_after, rule.every_model)


def fitting(symptom: Symptom, rules: Iterable[Rule]) -> Rule | None:
    """The first rule that fits."""
    return next((rule for rule in rules if _fits(rule, symptom)), None)


def _fits(rule: Rule, symptom: Symptom) -> bool:
    if rule.statuses and symptom.status not in rule.statuses:
        return False
    if rule.words and symptom.words.isdisjoint(rule.words):
        return False
    if rule.texts and not any(text in symptom.text for text in rule.texts):
        return False
    return not rule.headers or any(_carries(symptom, header) for header in rule.headers)


def _carries(symptom: Symptom, header: str) -> bool:
    name, colon, value = header.partition(":")
    found = symptom.headers.get(name.strip())
    return found is not None and (not colon or found.strip() == value.strip())


def active_rest(state: AccountState, model: str, now: float) -> Rest | None:
    """What keeps the account from being used for `model` at `now`; None if nothing does.

    Of several rests it is the one that ends last; a soft one only if there is no other.
    """
    if state.disabled:
        return Rest(FOREVER, state.disabled)
    rest = _running(state.exhausted, now)
    if state.cooling:
        for name in ("", model) if model else ("",):
            rest = _later(rest, _running(state.cooling.get(name), now))
    return rest


def on_trial(state: AccountState, model: str, now: float) -> bool:
    """Whether the account is to show with one request at a time that it can be used for `model`
    again: its exhaustion ended, or so did the last of several rests in a row, and no answer has
    been good since.
    """
    rest = active_rest(state, model, now)
    if rest is not None and not rest.soft:
        return False
    if state.exhausted is not None:
        return True
    return any(
        rest is not None and not rest.soft and _streak(rest, now) >= _TRIED_FROM
        for rest in (state.cooling.get(""), state.cooling.get(model))
    )


def without_ahead(state: AccountState, now: float) -> AccountState:
    """The state without rests that began later than now; `state` itself if it has none."""
    latest = now + CLOCK_SLACK_S
    exhausted = state.exhausted
    if exhausted is not None and exhausted.since > latest:
        exhausted = None
    cooling = state.cooling
    if any(rest.since > latest for rest in cooling.values()):
        cooling = {name: rest for name, rest in cooling.items() if rest.since <= latest}
    if exhausted is state.exhausted and cooling is state.cooling:
        return state
    return replace(state, exhausted=exhausted, cooling=cooling)


def apply(state: AccountState, transition: Transition) -> AccountState:
    """The account's state after `transition`."""
    return observe(state, transition.outcome, transition.model, transition.at, transition.spread)


def observe(
    state: AccountState, outcome: Outcome, model: str, now: float, spread: float = 0.5
) -> AccountState:
    """The account's state after `outcome` at `now`, which concerns `model` (empty: every model).

    `spread` in [0, 1) varies the length of a rest of our own choosing, so that accounts that failed
    together do not return together. Returns `state` itself if nothing changes.
    """
    match outcome:
        case Succeeded():
            return _succeeded(state, outcome.source, model, now)
        case Failed():
            return _failed(state, outcome, model, now, spread)
        case Enabled():
            return AccountState(state.name, renewed=max(now, state.renewed), key=state.key)
        case Disabled():
            why = _brief(outcome.why) or "disabled"
            return replace(state, disabled=why, refused_key="", by_hand=True)
        case KeyChanged():
            if outcome.key in (state.key, state.refused_key):
                return state
            is_out = state.disabled or state.exhausted is not None
            if not is_out or state.by_hand:
                return replace(state, key=outcome.key)
            return AccountState(state.name, renewed=max(now, state.renewed), key=outcome.key)


def _failed(
    state: AccountState, outcome: Failed, model: str, now: float, spread: float
) -> AccountState:
    if state.disabled or _is_forgotten(state, outcome, now):
        return state
    decision = outcome.decision
    match decision.verdict:
        case Verdict.DISABLE:
            why = _brief(decision.why) or "disabled"
            return replace(state, disabled=why, refused_key=outcome.key)
        case Verdict.EXHAUST:
            rest = _exhaustion(state.exhausted, decision, now, spread)
            if rest is state.exhausted:
                return state
            return replace(state, exhausted=rest, refused_key=outcome.key)
        case Verdict.COOL:
            name = "" if decision.every_model else model
            before = state.cooling.get(name)
            cooled = _cooled(before, decision, now, spread)
            if cooled is before:
                return state
            return replace(state, cooling=_with(state.cooling, name, cooled, now))
    return state


def _is_forgotten(state: AccountState, outcome: Failed, now: float) -> bool:
    """Whether the request was sent before the account's failures were cleared, or with a key that
    it no longer has."""
    if outcome.key and state.key and outcome.key != state.key:
        return True
    began = outcome.began or now
    return bool(state.renewed) and began <= state.renewed <= now + CLOCK_SLACK_S


def _succeeded(state: AccountState, source: Source, model: str, now: float) -> AccountState:
    """Failures in a row are forgotten once their rest is over.

    A rest that goes on is not cut short by traffic, whose good answer may have begun before it,
    unless it is soft; a probe was sent in spite of it, and ends it. A passing limit whose end the
    upstream has stated is waited for even so: a probe is too small to run into it.
    """
    if source == "operator" and state.disabled and not state.by_hand:
        state = replace(state, disabled="", refused_key="")
    if state.exhausted is None and not state.cooling:
        return state
    probed = source != "traffic"
    exhausted = state.exhausted
    if exhausted is not None and now >= exhausted.since and (probed or exhausted.until <= now):
        exhausted = None
    ended = {
        name
        for name in ("", model)
        if (rest := state.cooling.get(name)) is not None
        and now >= rest.since
        and (rest.until <= now or rest.soft or (probed and not rest.by_upstream))
    }
    if exhausted is state.exhausted and not ended:
        return state
    cooling = state.cooling
    if ended:
        cooling = {name: rest for name, rest in cooling.items() if name not in ended}
    refused_key = state.refused_key if state.disabled or exhausted is not None else ""
    return replace(state, refused_key=refused_key, exhausted=exhausted, cooling=cooling)


def _cooled(before: Rest | None, decision: Decision, now: float, spread: float) -> Rest:
    """The rest after a passing failure. One that goes on is only extended by what the upstream
    itself reports, and counts as one failure however many requests met it.
    """
    by_upstream = decision.rest is not None
    soft = decision.soft and not by_upstream
    running = before if before is not None and _goes_on(before, now) else None
    if running is not None and not by_upstream and (soft or not running.soft):
        return running
    if running is not None and running.soft == soft:
        streak = running.streak
    else:
        streak = _streak(before, now, soft=soft) + 1
    if decision.rest is not None:
        least = min(_COOL_LEAST * 2.0 ** min(streak - 1, 16), _COOL_LEAST_MAX)
        longest = _LONGEST_OF_SERVICE if decision.soft else _LONGEST_COOL
        seconds = min(max(decision.rest, least), longest)
    else:
        base, longest = (_SOFT_BASE, _SOFT_MAX) if soft else (_COOL_BASE, _COOL_MAX)
        seconds = _back_off(base, longest, streak, spread)
    why = _brief(decision.why)
    if running is None:
        return Rest(now + seconds, why, soft, streak, now, by_upstream)
    until = now + seconds
    if until <= running.since:
        return running
    if running.by_upstream:
        until = max(running.until, until)
    since = max(running.since, now)
    if until == running.until and running.by_upstream == by_upstream and running.soft == soft:
        return running
    return Rest(until, why, soft, streak, since, by_upstream)


def _exhaustion(before: Rest | None, decision: Decision, now: float, spread: float) -> Rest:
    """The rest after a failure for want of quota. While it goes on, only a report of the
    upstream changes its end, and the last report counts.
    """
    by_upstream = decision.rest is not None
    running = before if before is not None and _goes_on(before, now) else None
    if running is not None and (not by_upstream or (running.by_upstream and now < running.since)):
        return running
    streak = running.streak if running is not None else _streak_exhausted(before, now) + 1
    if decision.rest is not None:
        least = min(_EXHAUST_LEAST * 2.0 ** min(streak - 1, 16), _EXHAUST_LEAST_MAX)
        seconds = min(max(decision.rest, least), _LONGEST_EXHAUSTION)
    else:
        seconds = _back_off(_EXHAUST_BASE, _EXHAUST_MAX, streak, spread)
    until = now + seconds
    if running is not None and running.by_upstream and now == running.since:
        until = max(running.until, until)
    return Rest(until, _brief(decision.why), False, streak, now, by_upstream)


def _with(cooling: Mapping[str, Rest], model: str, rest: Rest, now: float) -> Mapping[str, Rest]:
    """`cooling` and one rest more. Those forgotten are dropped, and so is the first to end of too
    many: clients name the models, and must not make them pile up.
    """
    remaining = {
        name: other
        for name, other in cooling.items()
        if name != model and (other.until > now or _streak(other, now) > 0)
    }
    if len(remaining) >= _MOST_COOLING:
        del remaining[
            min((name for name in remaining if name), key=lambda name: remaining[name].until)
        ]
    remaining[model] = rest
    return remaining


def _back_off(base: float, longest: float, streak: int, spread: float) -> float:
    """Seconds that double with every failure in a row, varied by a quarter either way."""
    return min(base * 2.0 ** min(streak - 1, 16), longest) * (0.75 + 0.5 * spread)


def _goes_on(rest: Rest, now: float) -> bool:
    return rest.until > now >= rest.since - CLOCK_SLACK_S


def _running(rest: Rest | None, now: float) -> Rest | None:
    return rest if rest is not None and _goes_on(rest, now) else None


def _later(one: Rest | None, other: Rest | None) -> Rest | None:
    if one is None or other is None:
        return one or other
    if one.soft is not other.soft:
        return other if one.soft else one
    return other if other.until > one.until else one


def _streak(rest: Rest | None, now: float, *, soft: bool = True) -> int:
    """Failures in a row that still count at `now`; those of the service (`soft`) do not count for
    the account."""
    if rest is not None and rest.soft and not soft:
        return 0
    return _still(rest, now, _FORGET_ONE_AFTER)


def _streak_exhausted(rest: Rest | None, now: float) -> int:
    return _still(rest, now, _FORGET_ONE_EXHAUSTION_AFTER)


def _still(rest: Rest | None, now: float, forget_one_after: float) -> int:
    if rest is None:
        return 0
    return max(0, rest.streak - int(max(0.0, now - rest.until) / forget_one_after))


def _brief(why: str) -> str:
    return why[:_LONGEST_WHY]


def entry_of(before: AccountState, after: AccountState, transition: Transition) -> Entry | None:
    """The line of history for a transition that led from `before` to `after`; None if it changed
    nothing that is worth a line.
    """
    if replace(before, renewed=after.renewed, key=after.key) == after:
        return None
    outcome, at = transition.outcome, transition.at
    source = outcome.source
    status = outcome.status if isinstance(outcome, Failed) else 0
    if after.disabled and (after.disabled, after.by_hand) != (before.disabled, before.by_hand):
        return Entry(after.name, at, "disabled", after.disabled, status=status, source=source)
    if before.disabled and not after.disabled:
        why = "its key changed" if isinstance(outcome, KeyChanged) else ""
        return Entry(after.name, at, "enabled", why, source=source)
    if isinstance(outcome, Enabled):
        return Entry(after.name, at, "enabled", source=source)
    if after.exhausted is not None and after.exhausted != before.exhausted:
        rest = after.exhausted
        return Entry(after.name, at, "exhausted", rest.why, "", status, rest.until, source)
    if before.exhausted is not None and after.exhausted is None:
        return Entry(after.name, at, "restored", before.exhausted.why, source=source)
    for model, rest in after.cooling.items():
        if before.cooling.get(model) != rest:
            return Entry(after.name, at, "cooled", rest.why, model, status, rest.until, source)
    for model, rest in before.cooling.items():
        if model not in after.cooling and (rest.streak >= _TRIED_FROM or rest.until > at):
            return Entry(after.name, at, "restored", rest.why, model, source=source)
    return None
