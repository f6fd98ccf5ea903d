"""What failures mean, as rows, and what they do to an account."""

from __future__ import annotations

import pytest

from dragoman.accounts.decide.decisions import active_rest, classify, observe
from dragoman.accounts.decide.rules import DEFAULT, RULE_SETS, SOP
from dragoman.accounts.decide.states import AccountState, Decision, Failed, Succeeded
from dragoman.accounts.decide.symptoms import (
    UNREACHABLE,
    Symptom,
    symptom_of_fault,
)
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.failing import Verdict
from tests.accounts.shapes import symptom_of_body

RETURN, NEXT, COOL, EXHAUST, DISABLE = Verdict

QUOTA = b'{"error":{"message":"You exceeded your quota","type":"insufficient_quota",\
"code":"insufficient_quota"}}'
RATE = b'{"error":{"message":"Slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}'
SPEND = b'{"type":"error","error":{"type":"rate_limit_error","message":"spend",\
"details":{"error_code":"enforced_spend_limit_reached"}}}'
LOW_BALANCE = b'{"type":"error","error":{"type":"invalid_request_error",\
"message":"Your credit balance is too low to access the API."}}'


@pytest.mark.parametrize(
    ("status", "body", "default", "sop"),
    [
        (403, b'{"error":{"message":"Estimated cost 12 exceeds"}}', RETURN, RETURN),
        (403, b"insufficient tokens", NEXT, NEXT),
        (403, b'{"error":"Please UPGRADE your plan"}', NEXT, NEXT),
        (403, b'{"error":{"message":"monthly limit reached"}}', NEXT, NEXT),
        (403, b'{"error":{"message":"no access to this model"}}', NEXT, RETURN),
        (403, b"", NEXT, RETURN),
        (401, b"", DISABLE, DISABLE),
        (402, b"", EXHAUST, DISABLE),
        (429, b"", COOL, DISABLE),
        (429, RATE, COOL, DISABLE),
        (429, QUOTA, EXHAUST, DISABLE),
        (429, SPEND, EXHAUST, DISABLE),
        (403, QUOTA, EXHAUST, RETURN),
        (400, LOW_BALANCE, EXHAUST, RETURN),
        (400, b'{"error":{"message":"bad","type":"invalid_request_error"}}', RETURN, RETURN),
        (404, b"", RETURN, RETURN),
        (408, b"", NEXT, RETURN),
        (409, b"", RETURN, RETURN),
        (413, b"", RETURN, RETURN),
        (418, b"teapot", RETURN, RETURN),
        (422, b"", RETURN, RETURN),
        (500, b"", COOL, RETURN),
        (502, b"<html>", COOL, RETURN),
        (503, b"", COOL, RETURN),
        (529, b"", COOL, RETURN),
        (307, b"", NEXT, RETURN),
    ],
)
def test_verdicts(status: int, body: bytes, default: Verdict, sop: Verdict) -> None:
    """req: 133, 134, 135, 136, 137"""
    symptom = symptom_of_body(status, body)
    assert classify(symptom, DEFAULT.rules).verdict is default
    assert classify(symptom, SOP.rules).verdict is sop


@pytest.mark.parametrize("name", RULE_SETS)
def test_an_unreachable_upstream_is_no_fault_of_the_account(name: str) -> None:
    """req: 141"""
    decision = classify(UNREACHABLE, RULE_SETS[name].rules)
    assert decision.verdict is Verdict.TRY_NEXT
    before = AccountState("a")
    assert observe(before, Failed(decision), "m", 5.0) is before


@pytest.mark.parametrize(
    ("kind", "code", "verdict"),
    [
        (FaultKind.RATE_LIMITED, "rate_limit_exceeded", COOL),
        (FaultKind.RATE_LIMITED, "insufficient_quota", EXHAUST),
        (FaultKind.PAYMENT_REQUIRED, None, EXHAUST),
        (FaultKind.UNAUTHENTICATED, None, DISABLE),
        (FaultKind.OVERLOADED, None, COOL),
        (FaultKind.UPSTREAM_FAILED, "upstream_error", COOL),
        (FaultKind.INVALID_REQUEST, None, RETURN),
        (FaultKind.CONTEXT_TOO_LONG, "context_length_exceeded", RETURN),
        (FaultKind.TOO_LARGE, None, RETURN),
    ],
)
def test_errors_inside_a_200_count_like_their_status(
    kind: FaultKind, code: str | None, verdict: Verdict
) -> None:
    symptom = symptom_of_fault(Fault(kind, "Something", code=code))
    assert classify(symptom, DEFAULT.rules).verdict is verdict


def cool(rest: float | None = None, soft: bool = False) -> Failed:
    return Failed(Decision(Verdict.COOL, "rate limited", soft, rest))


def test_cooling_is_for_the_model_that_was_asked_for() -> None:
    state = observe(AccountState("a"), cool(20.0), "m", 100.0)
    assert active_rest(state, "m", 119.9) is not None
    assert active_rest(state, "m", 120.0) is None
    assert active_rest(state, "other", 100.0) is None


def test_rests_for_many_models_are_forgotten() -> None:
    """Clients name the models; they must not make rests pile up."""
    state = AccountState("a")
    for number in range(2000):
        state = observe(state, cool(), f"model-{number}", float(number) / 100)
    assert len(state.cooling) <= 256
    assert "model-1999" in state.cooling


def test_cooling_without_a_wish_of_the_upstream_doubles_and_is_bounded() -> None:
    state, now, rests = AccountState("a"), 0.0, []
    for _ in range(12):
        state = observe(state, cool(), "m", now)
        rests.append(state.cooling["m"].until - now)
        now = state.cooling["m"].until
    assert rests[:4] == [2.0, 4.0, 8.0, 16.0]
    assert rests[-1] == rests[-2] == 120.0


def test_a_good_answer_ends_the_streak_but_not_a_rest_that_was_asked_for() -> None:
    cooled = observe(AccountState("a"), cool(30.0), "m", 0.0)
    assert active_rest(observe(cooled, Succeeded(), "m", 1.0), "m", 1.0) is not None
    rested = observe(cooled, Succeeded(), "m", 31.0)
    assert observe(rested, cool(), "m", 31.0).cooling["m"].streak == 1
    avoided = observe(AccountState("a"), cool(soft=True), "m", 0.0)
    assert active_rest(observe(avoided, Succeeded(), "m", 0.1), "m", 0.1) is None


def test_exhaustion_is_for_every_model_and_ends_by_itself() -> None:
    state = observe(AccountState("a"), Failed(Decision(Verdict.EXHAUST, "out of quota")), "m", 0.0)
    assert active_rest(state, "other", 3599.0) is not None
    assert active_rest(state, "other", 3600.0) is None
    week = Failed(Decision(Verdict.EXHAUST, rest=7 * 86400.0))
    believed = observe(AccountState("a"), week, "m", 0.0)
    assert active_rest(believed, "m", 6 * 86400.0) is not None
    assert active_rest(believed, "m", 7 * 86400.0) is None


def test_a_disabled_account_stays_so() -> None:
    state = observe(AccountState("a"), Failed(Decision(Verdict.DISABLE, "refused")), "m", 0.0)
    rest = active_rest(state, "m", 1e12)
    assert rest is not None
    assert rest.why == "refused"
    assert observe(state, Succeeded(), "m", 1.0).disabled == "refused"


def test_models_named_by_clients_do_not_pile_up() -> None:
    state = AccountState("a")
    for number in range(50):
        state = observe(state, cool(1.0), f"m{number}", number * 10_000.0)
    assert len(state.cooling) == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b'{"error":null}', b'{"error":{"code":429}}', b"\xff\xfe", b"[" * 5000],
)
def test_any_body_can_be_looked_at(body: bytes) -> None:
    assert symptom_of_body(429, body).status == 429


def test_words_are_found_in_every_vendors_place() -> None:
    google = b'[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Quota"}}]'
    assert symptom_of_body(429, google).words == {"resource_exhausted"}
    assert symptom_of_body(429, SPEND).words >= {"enforced_spend_limit_reached"}
    flat = symptom_of_body(400, b'{"code":"x","error":"Text"}')
    assert (flat.words, flat.text) == (frozenset({"x"}), "text")


def test_nothing_fits_means_back_to_the_client() -> None:
    """req: 137"""
    assert classify(Symptom(499), ()).verdict is Verdict.RETURN_TO_CLIENT
