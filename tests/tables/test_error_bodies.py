"""Error answers of upstreams: what is made of status, type and code, and of bodies of any shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.protocols import CODECS
from tests.tables.requests import A, C, JsonObject, R

Kind = FaultKind
EVERY = (C, A, R)
OPENAI = (C, R)


def read(protocol: str, status: int, error: JsonObject, **headers: str) -> Fault:
    """The fault in an error answer."""
    body: JsonObject = {"error": {"message": "m", **error}}
    if protocol == A:
        body["type"] = "error"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return CODECS[protocol].translate.read_error(status, named, json.dumps(body).encode())


KINDS: list[tuple[tuple[str, ...], int, JsonObject, FaultKind]] = [
    (OPENAI, 400, {}, Kind.INVALID_REQUEST),
    (OPENAI, 400, {"code": "context_length_exceeded"}, Kind.CONTEXT_TOO_LONG),
    (
        OPENAI,
        400,
        {"message": "This model's maximum context length is 8 tokens."},
        Kind.CONTEXT_TOO_LONG,
    ),
    ((C,), 413, {"message": "maximum context length is 8 tokens"}, Kind.CONTEXT_TOO_LONG),
    (OPENAI, 401, {"code": "invalid_api_key"}, Kind.UNAUTHENTICATED),
    (EVERY, 401, {}, Kind.UNAUTHENTICATED),
    (EVERY, 402, {}, Kind.PAYMENT_REQUIRED),
    (EVERY, 403, {}, Kind.FORBIDDEN),
    (EVERY, 404, {}, Kind.NOT_FOUND),
    (OPENAI, 404, {"code": "model_not_found"}, Kind.MODEL_NOT_FOUND),
    (EVERY, 405, {}, Kind.METHOD_NOT_ALLOWED),
    (EVERY, 408, {}, Kind.REQUEST_TIMEOUT),
    (EVERY, 409, {}, Kind.CONFLICT),
    (EVERY, 413, {}, Kind.TOO_LARGE),
    (EVERY, 415, {}, Kind.UNSUPPORTED_MEDIA_TYPE),
    (EVERY, 418, {}, Kind.INVALID_REQUEST),
    (EVERY, 422, {}, Kind.UNPROCESSABLE),
    (OPENAI, 429, {"code": "rate_limit_exceeded"}, Kind.RATE_LIMITED),
    (OPENAI, 429, {"code": "slow_down"}, Kind.RATE_LIMITED),
    (OPENAI, 429, {"type": "tokens"}, Kind.RATE_LIMITED),
    (OPENAI, 429, {"code": "insufficient_quota"}, Kind.PAYMENT_REQUIRED),
    (OPENAI, 429, {"type": "insufficient_quota"}, Kind.PAYMENT_REQUIRED),
    (OPENAI, 429, {"code": "credit_balance_exhausted"}, Kind.PAYMENT_REQUIRED),
    (OPENAI, 500, {"type": "server_error"}, Kind.UPSTREAM_FAILED),
    (EVERY, 502, {}, Kind.UPSTREAM_FAILED),
    (EVERY, 503, {}, Kind.OVERLOADED),
    (EVERY, 504, {}, Kind.UPSTREAM_TIMEOUT),
    (EVERY, 521, {}, Kind.UPSTREAM_FAILED),
    (EVERY, 529, {}, Kind.OVERLOADED),
    ((A,), 400, {"type": "invalid_request_error"}, Kind.INVALID_REQUEST),
    ((A,), 401, {"type": "authentication_error"}, Kind.UNAUTHENTICATED),
    ((A,), 402, {"type": "billing_error"}, Kind.PAYMENT_REQUIRED),
    ((A,), 403, {"type": "permission_error"}, Kind.FORBIDDEN),
    ((A,), 404, {"type": "not_found_error", "message": "path"}, Kind.NOT_FOUND),
    ((A,), 404, {"type": "not_found_error", "message": "model: x"}, Kind.MODEL_NOT_FOUND),
    ((A,), 408, {"type": "invalid_request_error"}, Kind.REQUEST_TIMEOUT),
    ((A,), 409, {"type": "conflict_error"}, Kind.CONFLICT),
    ((A,), 413, {"type": "request_too_large"}, Kind.TOO_LARGE),
    ((A,), 422, {"type": "invalid_request_error"}, Kind.UNPROCESSABLE),
    ((A,), 429, {"type": "rate_limit_error"}, Kind.RATE_LIMITED),
    (
        (A,),
        429,
        {
            "type": "rate_limit_error",
            "details": {"error_code": "enforced_spend_limit_reached"},
        },
        Kind.PAYMENT_REQUIRED,
    ),
    (
        (A,),
        429,
        {"type": "rate_limit_error", "details": {"error_code": "ramp_limit_exceeded"}},
        Kind.RATE_LIMITED,
    ),
    ((A,), 503, {"type": "api_error"}, Kind.OVERLOADED),
    (
        (A,),
        400,
        {
            "type": "invalid_request_error",
            "message": "prompt is too long: 9 tokens > 8 maximum",
        },
        Kind.CONTEXT_TOO_LONG,
    ),
    (
        (A,),
        400,
        {
            "type": "invalid_request_error",
            "message": "input length and `max_tokens` exceed context limit",
        },
        Kind.CONTEXT_TOO_LONG,
    ),
]


@pytest.mark.parametrize(
    ("protocol", "status", "error", "kind"),
    [
        pytest.param(name, *row, id=f"{name}-{row[0]}-{number}")
        for number, (names, *row) in enumerate(KINDS)
        for name in names
    ],
)
def test_kind(protocol: str, status: int, error: JsonObject, kind: FaultKind) -> None:
    """The kind from status, type and code; what is the client's fault keeps its status. req: 137"""
    fault = read(protocol, status, error)
    assert (fault.kind, fault.message) == (kind, error.get("message", "m"))
    if 400 <= status < 500 and kind not in (Kind.PAYMENT_REQUIRED, Kind.CONTEXT_TOO_LONG):
        assert CODECS[protocol].translate.write_error(fault, "req_1").status == status


UNREADABLE = "The upstream answered with status 502."
BODIES: list[tuple[tuple[str, ...], bytes, str]] = [
    (EVERY, b"", UNREADABLE),
    (EVERY, b"<html>Bad gateway</html>", UNREADABLE),
    (EVERY, b"upstream connect error", "upstream connect error"),
    (EVERY, b'{"error":"text"}', "text"),
    (EVERY, b'{"error":{"message":"theirs"}}', "theirs"),
    (EVERY, b'{"type":"error","error":{"type":"api_error","message":"theirs"}}', "theirs"),
    (EVERY, b"[]", UNREADABLE),
    (EVERY, b"x" * 9000, UNREADABLE),
    (OPENAI, b'{"object":"error","message":"flat","code":400}', "flat"),
    (OPENAI, b'{"detail":"flask"}', "flask"),
    ((C,), b'{"detail":[{"loc":["body"]}]}', '[{"loc":["body"]}]'),
    (OPENAI, b"\xff", "\ufffd"),
    ((R,), b'{"error":{"message":5,"code":7,"type":[]}}', UNREADABLE),
]


@pytest.mark.parametrize(
    ("protocol", "body", "message"),
    [(name, body, message) for names, body, message in BODIES for name in names],
)
def test_body(protocol: str, body: bytes, message: str) -> None:
    fault = CODECS[protocol].translate.read_error(502, {}, body)
    assert (fault.kind, fault.message) == (Kind.UPSTREAM_FAILED, message)


@pytest.mark.parametrize("protocol", EVERY)
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "12"}, 12.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after_ms": "1500", "retry_after": "12"}, 1.5),
        (
            {
                "retry_after": "Sat, 21 Nov 2026 10:00:30 GMT",
                "date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            30.0,
        ),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "1e999"}, None),
        ({"retry_after": "-1"}, None),
    ],
)
def test_how_long_to_wait(protocol: str, headers: dict[str, str], seconds: float | None) -> None:
    """Retry-After reaches whoever retries. req: 144"""
    assert read(protocol, 429, {}, **headers).retry_after == seconds


@pytest.mark.parametrize("protocol", OPENAI)
def test_param_code_and_details_are_kept(protocol: str) -> None:
    """What explains a block included."""
    why = {"error_type": "other", "detailed_explanation": "why"}
    error = {"type": "t", "param": "temperature", "code": "odd", "misalignment": why}
    fault = read(protocol, 400, error)
    shown = CODECS[protocol].translate.write_error(fault, "req_1").body["error"]
    assert shown == {**error, "type": "invalid_request_error", "message": "m"}


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (402, {"type": "billing_error"}, "insufficient_quota"),
        (404, {"type": "not_found_error", "message": "model: x"}, "model_not_found"),
        (
            400,
            {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"},
            "context_length_exceeded",
        ),
        (400, {"type": "invalid_request_error"}, "theirs"),
    ],
)
def test_kinds_have_the_codes_of_openai(status: int, error: JsonObject, code: str) -> None:
    """In place of the upstream's own, where clients know one."""
    assert read(A, status, {**error, "code": "theirs"}).code == code


@pytest.mark.parametrize("protocol", [C, A])
def test_details_replace_nothing(protocol: str) -> None:
    fault = Fault(Kind.INVALID_REQUEST, "m", details={"error_code": "e", "message": "no"})
    error = CODECS[protocol].translate.write_error(fault, "req_1").body["error"]
    assert error["message"] == "m"
    assert error.get("details", error)["error_code"] == "e"


@pytest.mark.parametrize(
    ("protocol", "kind", "given", "status"),
    [
        *((name, Kind.INVALID_REQUEST, 418, 418) for name in EVERY),
        *((name, Kind.OVERLOADED, 529, 503) for name in OPENAI),
        (A, Kind.OVERLOADED, 503, 529),
        (R, Kind.PAYMENT_REQUIRED, 402, 429),
        (R, Kind.NO_ACCOUNT, 529, 503),
    ],
)
def test_a_status_is_shown_where_the_protocol_has_it(
    protocol: str, kind: FaultKind, given: int, status: int
) -> None:
    assert (
        CODECS[protocol].translate.write_error(Fault(kind, "m", status=given), "r").status == status
    )


def test_agents_recognise_a_full_context() -> None:
    """Claude Code compacts the conversation on these words."""
    told: list[Any] = []
    for message in ("maximum context length is 8 tokens", "prompt is too long: 9 > 8"):
        fault = Fault(Kind.CONTEXT_TOO_LONG, message)
        told.append(CODECS[A].translate.write_error(fault, "r").body["error"]["message"])
    assert told == [
        "prompt is too long: maximum context length is 8 tokens",
        "prompt is too long: 9 > 8",
    ]


@pytest.mark.parametrize("protocol", CODECS)
@pytest.mark.parametrize("kind", FaultKind)
def test_every_kind_has_its_form(protocol: str, kind: FaultKind) -> None:
    """JSON with the words of the error, and a status of an error. req: 152, 153"""
    rendered = CODECS[protocol].translate.write_error(Fault(kind, "told so"), "req_1")
    assert 400 <= rendered.status < 600
    assert "told so" in rendered.body["error"]["message"]
    if protocol == A:
        assert (rendered.body["type"], rendered.body["request_id"]) == ("error", "req_1")
