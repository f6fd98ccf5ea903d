"""What an upstream's answer says about the account it was asked with.

    symptom = symptom_of_answer(status, headers, body, wall_now)
    decision = classify(symptom, rules)
    state = observe(state, decision, model, now)

All functions are pure; rules are data (see `dragoman.accounts.rules`). Times are seconds of one
monotonic clock, except where a wall clock is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.states import FOREVER, AccountState, Decision, Rest
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.failing import Rule, Verdict, retry_after

MAX_ATTEMPTS = 10
"""Accounts tried for one request at most (requirement 138)."""

_BODY_READ = 64 * 1024
"""Bytes of an error body that are looked at."""

_SOFT_BASE, _SOFT_MAX = 1.0, 30.0
_COOL_BASE, _COOL_MAX = 2.0, 120.0
_LONGEST_COOL = 3600.0
_MOST_COOLING = 256
"""Models for which one account's rests are remembered."""
_EXHAUSTED = 3600.0
_LONGEST_EXHAUSTION = 24 * 3600.0


class Symptom(Struct, frozen=True):
    """What a failure looks like.

    `status` is the upstream's HTTP status, 0 when there was no answer at all; `words` are its
    machine-readable types and codes, `text` is its message; both in lower case. `retry_after` is
    in seconds.
    """

    status: int
    words: frozenset[str] = frozenset()
    text: str = ""
    retry_after: float | None = None


def standing(state: AccountState, model: str, now: float) -> Rest | None:
    """What keeps the account from being used for `model` at `now`; None if nothing does."""
    if state.disabled:
        return Rest(FOREVER, state.disabled)
    if state.exhausted is not None and state.exhausted.until > now:
        return state.exhausted
    if state.cooling:
        rest = state.cooling.get(model)
        if rest is not None and rest.until > now:
            return rest
    return None


def classify(symptom: Symptom, rules: Iterable[Rule]) -> Decision:
    """The decision of the first rule that fits; none fits: back to the client."""
    for rule in rules:
        if _fits(rule, symptom):
            return Decision(rule.verdict, rule.why, rule.soft, symptom.retry_after)
    return Decision(Verdict.RETURN_TO_CLIENT)


def _fits(rule: Rule, symptom: Symptom) -> bool:
    if rule.statuses and symptom.status not in rule.statuses:
        return False
    if rule.words and symptom.words.isdisjoint(rule.words):
        return False
    return not rule.texts or any(text in symptom.text for text in rule.texts)


def observe(state: AccountState, decision: Decision, model: str, now: float) -> AccountState:
    """The account's state after a failure that was decided upon as `decision`."""
    match decision.verdict:
        case Verdict.DISABLE:
            return replace(state, disabled=decision.why or "disabled")
        case Verdict.EXHAUST:
            seconds = min(decision.rest or _EXHAUSTED, _LONGEST_EXHAUSTION)
            return replace(state, exhausted=Rest(now + seconds, decision.why))
        case Verdict.COOL:
            return replace(state, cooling=_cooled(state, decision, model, now))
    return state


def succeeded(state: AccountState, model: str, now: float) -> AccountState:
    """The account's state after a good answer: failures in a row are forgotten.

    A rest that the upstream asked for goes on: the answer may have begun before it.
    """
    if state.exhausted is None and not state.cooling:
        return state
    exhausted = state.exhausted
    if exhausted is not None and exhausted.until <= now:
        exhausted = None
    cooling = state.cooling
    rest = cooling.get(model)
    if rest is not None and (rest.soft or rest.until <= now):
        cooling = {name: other for name, other in cooling.items() if name != model}
    return replace(state, exhausted=exhausted, cooling=cooling)


def _cooled(state: AccountState, decision: Decision, model: str, now: float) -> Mapping[str, Rest]:
    before = state.cooling.get(model)
    streak = before.streak + 1 if before is not None else 1
    if decision.rest is not None:
        seconds = min(decision.rest, _LONGEST_COOL)
    elif decision.soft:
        seconds = _back_off(_SOFT_BASE, _SOFT_MAX, streak)
    else:
        seconds = _back_off(_COOL_BASE, _COOL_MAX, streak)
    # Rests long over are dropped, and so are the first to end of many: clients name the models,
    # and must not make them pile up.
    kept = {
        name: rest
        for name, rest in state.cooling.items()
        if rest.until > now - _LONGEST_COOL and name != model
    }
    if len(kept) >= _MOST_COOLING:
        del kept[min(kept, key=lambda name: kept[name].until)]
    soft = decision.soft and decision.rest is None
    return {**kept, model: Rest(now + seconds, decision.why, soft, streak)}


def _back_off(base: float, longest: float, streak: int) -> float:
    return min(base * 2.0 ** min(streak - 1, 16), longest)


def symptom_of_answer(
    status: int, headers: Mapping[str, str], body: bytes, wall_now: float
) -> Symptom:
    """What an upstream's error answer looks like.

    `headers` have lower-case names; `wall_now` is Unix time, against which a Retry-After date is
    measured.
    """
    words, message = _words(body[:_BODY_READ])
    return Symptom(status, words, message, retry_after(headers, wall_now))


_STATUS_OF_KIND = {
    FaultKind.INVALID_REQUEST: 400,
    FaultKind.CONTEXT_TOO_LONG: 400,
    FaultKind.UNAUTHENTICATED: 401,
    FaultKind.PAYMENT_REQUIRED: 402,
    FaultKind.FORBIDDEN: 403,
    FaultKind.NOT_FOUND: 404,
    FaultKind.MODEL_NOT_FOUND: 404,
    FaultKind.TOO_LARGE: 413,
    FaultKind.UNPROCESSABLE: 422,
    FaultKind.RATE_LIMITED: 429,
    FaultKind.OVERLOADED: 529,
    FaultKind.UPSTREAM_TIMEOUT: 504,
}


def symptom_of_fault(fault: Fault) -> Symptom:
    """What an error inside an answer with status 200 looks like: as if it had its own status."""
    words = frozenset({fault.code.lower()}) if fault.code else frozenset()
    status = _STATUS_OF_KIND.get(fault.kind, 502)
    return Symptom(status, words, fault.message.lower(), fault.retry_after)


UNREACHABLE = Symptom(0)
"""There was no answer: refused, reset, or timed out."""


def _words(body: bytes) -> tuple[frozenset[str], str]:
    """Types and codes of an error body in any vendor's shape, and its message."""
    text = body.decode("utf-8", "replace").lower()
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return frozenset(), text
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return frozenset(), text
    error = value.get("error", value)
    if not isinstance(error, dict):
        error = {**value, "message": error}
    details = error.get("details")
    found = [error.get("type"), error.get("code"), error.get("status"), value.get("code")]
    if isinstance(details, dict):
        found.append(details.get("error_code"))
    words = frozenset(word.lower() for word in found if isinstance(word, str))
    message = error.get("message")
    return words, message.lower() if isinstance(message, str) else text
