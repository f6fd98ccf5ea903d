"""Errors of upstreams of Google's generateContent, and what becomes of the account."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.accounts.decide.decisions import fitting
from dragoman.accounts.decide.rules import DEFAULT
from dragoman.accounts.decide.symptoms import symptom_of_answer
from dragoman.canonical.errors import FaultKind
from dragoman.failing import Verdict
from dragoman.protocols import CODECS

TRANSLATE = CODECS["google_generate_content"].translate
GOOGLE = "type.googleapis.com/google.rpc."


def error(code: int, status: str, message: str, *details: dict[str, Any]) -> bytes:
    inner = {"code": code, "message": message, "status": status, "details": list(details)}
    return json.dumps({"error": inner}).encode()


def info(reason: str, **metadata: str) -> dict[str, Any]:
    return {"@type": GOOGLE + "ErrorInfo", "reason": reason, "metadata": metadata}


def quota(name: str, value: str = "20") -> dict[str, Any]:
    violation = {"quotaId": name, "quotaMetric": "requests", "quotaValue": value}
    return {"@type": GOOGLE + "QuotaFailure", "violations": [violation]}


def retry(delay: str) -> dict[str, Any]:
    return {"@type": GOOGLE + "RetryInfo", "retryDelay": delay}


MINUTE = "GenerateRequestsPerMinutePerProjectPerModel"
DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
DAY_OF_ALL = "GenerateTokensPerDayPerProject"
EXCEEDED = "You exceeded your current quota, please check your plan and billing details."
TOO_LONG = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
UNSIGNED = "Function call is missing a thought_signature in functionCall parts."

CASES: dict[str, tuple[int, bytes, FaultKind, Verdict | None]] = {
    "field": (
        400,
        error(400, "INVALID_ARGUMENT", "Unknown name"),
        FaultKind.INVALID_REQUEST,
        None,
    ),
    "key": (
        400,
        error(400, "INVALID_ARGUMENT", "API key not valid.", info("API_KEY_INVALID")),
        FaultKind.UNAUTHENTICATED,
        Verdict.DISABLE,
    ),
    "leaked key": (
        403,
        error(403, "PERMISSION_DENIED", "Your API key was reported as leaked."),
        FaultKind.UNAUTHENTICATED,
        Verdict.DISABLE,
    ),
    "token": (
        401,
        error(401, "UNAUTHENTICATED", "Request had invalid credentials."),
        FaultKind.UNAUTHENTICATED,
        Verdict.DISABLE,
    ),
    "billing": (
        400,
        error(400, "FAILED_PRECONDITION", "Enable billing on your project."),
        FaultKind.PAYMENT_REQUIRED,
        Verdict.EXHAUST,
    ),
    "too long": (
        400,
        error(400, "INVALID_ARGUMENT", TOO_LONG),
        FaultKind.CONTEXT_TOO_LONG,
        None,
    ),
    "model": (
        404,
        error(404, "NOT_FOUND", "models/x is not found for API version v1beta"),
        FaultKind.MODEL_NOT_FOUND,
        None,
    ),
    "minute": (
        429,
        error(429, "RESOURCE_EXHAUSTED", EXCEEDED, quota(MINUTE), retry("39.5s")),
        FaultKind.RATE_LIMITED,
        Verdict.COOL,
    ),
    "day of a model": (
        429,
        error(429, "RESOURCE_EXHAUSTED", EXCEEDED, quota(DAY), retry("36s")),
        FaultKind.PAYMENT_REQUIRED,
        Verdict.COOL,
    ),
    "day": (
        429,
        error(429, "RESOURCE_EXHAUSTED", EXCEEDED, quota(DAY_OF_ALL), retry("36s")),
        FaultKind.PAYMENT_REQUIRED,
        Verdict.EXHAUST,
    ),
    "not in the plan": (
        429,
        error(429, "RESOURCE_EXHAUSTED", f"{EXCEEDED} limit: 0, model: gemini-3-pro"),
        FaultKind.PAYMENT_REQUIRED,
        Verdict.COOL,
    ),
    "overloaded": (
        503,
        error(503, "UNAVAILABLE", "The model is overloaded."),
        FaultKind.OVERLOADED,
        Verdict.COOL,
    ),
    "in an array": (
        429,
        b"[" + error(429, "RESOURCE_EXHAUSTED", "slow") + b"]",
        FaultKind.RATE_LIMITED,
        Verdict.COOL,
    ),
    "page": (502, b"<html>Bad Gateway</html>", FaultKind.UPSTREAM_FAILED, Verdict.COOL),
}


@pytest.mark.parametrize(("status", "body", "kind", "verdict"), CASES.values(), ids=CASES)
def test_errors(status: int, body: bytes, kind: FaultKind, verdict: Verdict | None) -> None:
    fault = TRANSLATE.read_error(status, {}, body)
    assert fault.kind is kind
    rule = fitting(symptom_of_answer(status, {}, fault.report, 0.0), DEFAULT.rules)
    assert (None if rule is None else rule.verdict) is verdict


WAITS: dict[str, tuple[bytes, float, float]] = {
    "fraction": (
        error(429, "RESOURCE_EXHAUSTED", "slow", quota(MINUTE), retry("45.837906927s")),
        45,
        46,
    ),
    "metadata": (
        error(429, "RESOURCE_EXHAUSTED", "slow", info("X", quotaResetDelay="39.2s")),
        39,
        40,
    ),
    "message": (error(429, "RESOURCE_EXHAUSTED", "Please retry in 39.5s."), 39, 40),
    "day, not its delay": (
        error(429, "RESOURCE_EXHAUSTED", "slow", quota(DAY), retry("36s")),
        59,
        25 * 3600 + 1,
    ),
}


@pytest.mark.parametrize(("body", "least", "most"), WAITS.values(), ids=WAITS)
def test_waits(body: bytes, least: float, most: float) -> None:
    fault = TRANSLATE.read_error(429, {}, body)
    wait = symptom_of_answer(429, {}, fault.report, 0.0).retry_after
    assert wait is not None
    assert least < wait < most


def test_the_field_at_fault_is_named() -> None:
    violation = {"field": "contents[0].parts", "description": "x"}
    detail = {"@type": GOOGLE + "BadRequest", "fieldViolations": [violation]}
    fault = TRANSLATE.read_error(400, {}, error(400, "INVALID_ARGUMENT", "bad", detail))
    assert fault.param == "contents[0].parts"


@pytest.mark.parametrize("message", ["Corrupted thought signature.", UNSIGNED])
def test_refused_signatures_are_known(message: str) -> None:
    assert any(text in message.lower() for text in TRANSLATE.reasoning_refusals)
