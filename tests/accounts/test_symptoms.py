"""What failures look like, from the body of an answer or from an error inside a stream."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.accounts.decide.decisions import classify
from dragoman.accounts.decide.rules import DEFAULT
from dragoman.accounts.decide.symptoms import symptom_of_answer, symptom_of_fault
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.failing import Verdict
from dragoman.protocols import CODECS
from dragoman.protocols import openai_errors as openai
from dragoman.protocols.anthropic_messages import errors as messages
from tests.accounts.shapes import NOW, symptom_of_body

AT_LEISURE = settings(deadline=None)
"""Machines that are busy with other things are slow."""
SPENT_CODES = (
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "project_spend_limit_exceeded",
)


@pytest.mark.parametrize(
    ("body", "words", "text"),
    [
        ({"error": {"type": "A", "code": "B", "message": "Text"}}, {"a", "b"}, "text"),
        (
            {"type": "error", "error": {"type": "a", "details": {"error_code": "b"}}},
            {"a", "b"},
            None,
        ),
        ([{"error": {"status": "A", "details": [{"reason": "B"}, 3]}}], {"a", "b"}, None),
        ({"code": "A", "error": "Text"}, {"a"}, "text"),
        ({"detail": "Text"}, set(), "text"),
        ({"error": {"code": 429, "type": None, "message": "Text"}}, set(), "text"),
        ({"error": {"details": {"message": "Inner"}, "message": "Outer"}}, set(), "outer"),
        ({"error": {"type": "x" * 5000}}, {"x" * 200}, None),
    ],
)
def test_words_and_text_of_every_shape(body: Any, words: set[str], text: str | None) -> None:
    symptom = symptom_of_body(400, msgspec.json.encode(body))
    assert symptom.words == words
    if text is not None:
        assert symptom.text == text


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize(
    ("body", "words", "text"),
    [
        (b"upstream quota exceeded", set(), "upstream quota exceeded"),
        (b"<html><h1>No quota</h1>", set(), "<html><h1>no quota</h1>"),
        (b'{"detail": "No quota"}', set(), "no quota"),
        (b'{"detail": [{"msg": "No quota"}]}', set(), '{"detail": [{"msg": "no quota"}]}'),
        (b'"No quota"', set(), '"no quota"'),
        (b'[{"error": {"status": "SPENT", "message": "No quota"}}]', {"spent"}, "no quota"),
        (b'{"error": {"type": "a", "code": "b", "message": "No"}}', {"a", "b"}, "no"),
        (b"x" * 100_000, set(), "x" * 10_000),
    ],
)
def test_rules_see_what_no_protocol_has_a_shape_for(
    name: str, body: bytes, words: set[str], text: str
) -> None:
    """The fault that a protocol reads from an answer holds all that the rules look at."""
    fault = CODECS[name].translate.read_error(403, {}, body)
    symptom = symptom_of_answer(403, {}, fault.report, NOW)
    assert symptom.words == words
    assert symptom.text == text


@pytest.mark.parametrize("name", CODECS)
def test_what_a_body_says_of_its_reset_is_in_the_fault(name: str) -> None:
    for reset, seconds in (
        ({"resets_in_seconds": 90}, 90.0),
        ({"resets_at": NOW + 60}, 60.0),
        ({"details": [{"retryDelay": "34s"}]}, 34.0),
        ({"resets_in_seconds": "soon"}, None),
        ({"resets_in_seconds": -1, "resets_at": True}, None),
    ):
        body = msgspec.json.encode({"error": {"message": "Later", **reset}})
        fault = CODECS[name].translate.read_error(429, {}, body)
        assert symptom_of_answer(429, {}, fault.report, NOW).retry_after == seconds


@AT_LEISURE
@given(st.binary(max_size=200), st.integers(0, 999))
def test_any_bytes_can_be_looked_at(body: bytes, status: int) -> None:
    assert symptom_of_body(status, body).status == status


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "type", "code", "details", "message", "resets_at"]), inner
        )
    ),
    max_leaves=12,
)


@AT_LEISURE
@given(json_values)
def test_any_json_can_be_looked_at(value: Any) -> None:
    symptom = symptom_of_body(429, msgspec.json.encode(value))
    assert classify(symptom, DEFAULT.rules).tries_next


@pytest.mark.parametrize("code", SPENT_CODES)
@pytest.mark.parametrize("kind", ["insufficient_quota", "rate_limit_error"])
def test_spent_quota_is_known_inside_a_stream(code: str, kind: str) -> None:
    """In the vendors' own frames, as each protocol reads them."""
    error = {"message": "No", "type": kind, "code": code}
    for fault in (openai.fault_of(error), messages.fault_of(error)):
        decision = classify(symptom_of_fault(fault, NOW), DEFAULT.rules)
        assert decision.verdict is Verdict.EXHAUST, fault


def test_a_spend_limit_is_known_inside_a_messages_stream() -> None:
    error = {
        "type": "rate_limit_error",
        "message": "You have reached your API usage limits. You will regain access on 2026-12-01.",
        "details": {"error_code": "enforced_spend_limit_reached"},
    }
    decision = classify(symptom_of_fault(messages.fault_of(error), NOW), DEFAULT.rules)
    assert (decision.verdict, decision.rest) == (Verdict.EXHAUST, 10 * 86400.0)


def test_a_subscription_at_its_end_is_known_inside_a_stream() -> None:
    error = {"type": "usage_limit_reached", "message": "Limit", "resets_in_seconds": 9568}
    decision = classify(symptom_of_fault(openai.fault_of(error), NOW), DEFAULT.rules)
    assert (decision.verdict, decision.rest) == (Verdict.EXHAUST, 9568.0)
    unsaid = openai.fault_of({"type": "usage_limit_reached", "resets_in_seconds": "soon"})
    assert unsaid.retry_after is None
    assert unsaid.kind is FaultKind.RATE_LIMITED


def test_what_a_fault_says_of_its_status_and_wait_counts() -> None:
    fault = Fault(FaultKind.INVALID_REQUEST, "Try again in 5s", status=418, retry_after=3.0)
    symptom = symptom_of_fault(fault)
    assert (symptom.status, symptom.retry_after) == (418, 3.0)
    assert symptom_of_fault(Fault(FaultKind.RATE_LIMITED, "Try again in 5s")).retry_after == 5.0


@pytest.mark.parametrize("kind", FaultKind)
def test_every_kind_of_fault_has_a_status(kind: FaultKind) -> None:
    assert 400 <= symptom_of_fault(Fault(kind, "")).status < 600
