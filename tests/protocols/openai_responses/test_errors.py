"""Errors of upstreams are told apart, and errors are shown in the protocol's own shape."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.protocols.openai_responses import CODEC

NO_HEADERS: dict[str, str] = {}


def body(**error: Any) -> bytes:
    return msgspec.json.encode({"error": error})


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, None, FaultKind.INVALID_REQUEST),
        (400, "context_length_exceeded", FaultKind.CONTEXT_TOO_LONG),
        (401, "invalid_api_key", FaultKind.UNAUTHENTICATED),
        (402, None, FaultKind.PAYMENT_REQUIRED),
        (403, None, FaultKind.FORBIDDEN),
        (404, None, FaultKind.NOT_FOUND),
        (404, "model_not_found", FaultKind.MODEL_NOT_FOUND),
        (405, None, FaultKind.METHOD_NOT_ALLOWED),
        (408, None, FaultKind.REQUEST_TIMEOUT),
        (409, None, FaultKind.CONFLICT),
        (413, None, FaultKind.TOO_LARGE),
        (415, None, FaultKind.UNSUPPORTED_MEDIA_TYPE),
        (418, None, FaultKind.INVALID_REQUEST),
        (422, None, FaultKind.UNPROCESSABLE),
        (429, "rate_limit_exceeded", FaultKind.RATE_LIMITED),
        (429, "slow_down", FaultKind.RATE_LIMITED),
        (429, "insufficient_quota", FaultKind.PAYMENT_REQUIRED),
        (429, "credit_balance_exhausted", FaultKind.PAYMENT_REQUIRED),
        (500, "server_error", FaultKind.UPSTREAM_FAILED),
        (502, None, FaultKind.UPSTREAM_FAILED),
        (503, "server_is_overloaded", FaultKind.OVERLOADED),
        (504, None, FaultKind.UPSTREAM_TIMEOUT),
        (529, None, FaultKind.OVERLOADED),
    ],
)
def test_statuses_and_codes_tell_the_kind(status: int, code: str | None, kind: FaultKind) -> None:
    answer = body(message="told so", type="x_error", param="input", code=code)
    fault = CODEC.translate.read_error(status, NO_HEADERS, answer)
    assert (fault.kind, fault.message, fault.param) == (kind, "told so", "input")
    if code is not None:
        assert fault.code == code


def test_quota_may_be_told_by_the_type_alone() -> None:
    answer = body(message="pay", type="insufficient_quota", code=None)
    assert CODEC.translate.read_error(429, NO_HEADERS, answer).kind is FaultKind.PAYMENT_REQUIRED


def test_a_long_context_may_be_told_by_the_message_alone() -> None:
    answer = body(message="This model's maximum context length is 8192 tokens.")
    assert CODEC.translate.read_error(400, NO_HEADERS, answer).kind is FaultKind.CONTEXT_TOO_LONG


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b'{"error":"plain"}', "plain"),
        (b'{"message":"flat"}', "flat"),
        (b'{"detail":"flask"}', "flask"),
        (b'{"type":"error","error":{"type":"api_error","message":"theirs"}}', "theirs"),
        (b"bad gateway", "bad gateway"),
        (b"<html>bad gateway</html>", "The upstream answered with status 502."),
        (b"", "The upstream answered with status 502."),
        (b"[]", "The upstream answered with status 502."),
        (b"\xff", "\ufffd"),
        (b"x" * 9000, "The upstream answered with status 502."),
        (b'{"error":{"message":5,"code":7,"type":[]}}', "The upstream answered with status 502."),
    ],
)
def test_bodies_of_any_shape_are_read(answer: bytes, message: str) -> None:
    fault = CODEC.translate.read_error(502, NO_HEADERS, answer)
    assert (fault.kind, fault.message) == (FaultKind.UPSTREAM_FAILED, message)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        (
            {
                "retry-after": "Sat, 21 Nov 2026 00:01:00 GMT",
                "date": "Sat, 21 Nov 2026 00:00:00 GMT",
            },
            60.0,
        ),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    """Retry-After is kept for the client. req: 144"""
    assert CODEC.translate.read_error(429, headers, b"{}").retry_after == seconds


@pytest.mark.parametrize(
    ("kind", "status", "word", "code"),
    [
        (FaultKind.INVALID_REQUEST, 400, "invalid_request_error", "invalid_request"),
        (FaultKind.CONTEXT_TOO_LONG, 400, "invalid_request_error", "context_length_exceeded"),
        (FaultKind.UNAUTHENTICATED, 401, "invalid_request_error", "invalid_api_key"),
        (FaultKind.PAYMENT_REQUIRED, 429, "insufficient_quota", "insufficient_quota"),
        (FaultKind.FORBIDDEN, 403, "permission_error", "permission_denied"),
        (FaultKind.NOT_FOUND, 404, "invalid_request_error", "not_found"),
        (FaultKind.MODEL_NOT_FOUND, 404, "invalid_request_error", "model_not_found"),
        (FaultKind.METHOD_NOT_ALLOWED, 405, "invalid_request_error", "method_not_allowed"),
        (FaultKind.REQUEST_TIMEOUT, 408, "invalid_request_error", "request_timeout"),
        (FaultKind.CONFLICT, 409, "invalid_request_error", "conflict"),
        (FaultKind.TOO_LARGE, 413, "invalid_request_error", "request_too_large"),
        (FaultKind.UNSUPPORTED_MEDIA_TYPE, 415, "invalid_request_error", "unsupported_media_type"),
        (FaultKind.UNPROCESSABLE, 422, "invalid_request_error", "unprocessable_entity"),
        (FaultKind.UPGRADE_REQUIRED, 426, "invalid_request_error", "upgrade_required"),
        (FaultKind.RATE_LIMITED, 429, "rate_limit_error", "rate_limit_exceeded"),
        (FaultKind.INTERNAL, 500, "server_error", "internal_error"),
        (FaultKind.UPSTREAM_FAILED, 502, "server_error", "upstream_error"),
        (FaultKind.NO_ACCOUNT, 503, "service_unavailable_error", "no_account_available"),
        (FaultKind.OVERLOADED, 503, "service_unavailable_error", "server_is_overloaded"),
        (FaultKind.UPSTREAM_TIMEOUT, 504, "server_error", "timeout"),
    ],
)
def test_every_kind_has_its_status_type_and_code(
    kind: FaultKind, status: int, word: str, code: str
) -> None:
    """JSON with type, param, message and code, all strings. req: 152, 153"""
    rendered = CODEC.translate.write_error(Fault(kind, "told so"), "req_1")
    assert rendered.status == status
    assert rendered.body == {
        "error": {"message": "told so", "type": word, "param": "", "code": code}
    }


def test_the_field_and_the_code_of_a_fault_are_shown() -> None:
    """A missing model names `model`. req: 154"""
    fault = Fault(FaultKind.INVALID_REQUEST, "model: is required", param="model", code="missing")
    error = CODEC.translate.write_error(fault, "req_1").body["error"]
    assert (error["param"], error["code"]) == ("model", "missing")


@pytest.mark.parametrize(
    ("kind", "given", "status"),
    [
        (FaultKind.INVALID_REQUEST, 418, 418),
        (FaultKind.PAYMENT_REQUIRED, 402, 429),
        (FaultKind.OVERLOADED, 529, 503),
        (FaultKind.NO_ACCOUNT, 529, 503),
    ],
)
def test_the_status_is_the_upstreams_own_where_this_protocol_has_it(
    kind: FaultKind, given: int, status: int
) -> None:
    assert CODEC.translate.write_error(Fault(kind, "x", status=given), "req_1").status == status


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 418, 422, 429])
def test_an_error_of_the_client_keeps_its_status(status: int) -> None:
    fault = CODEC.translate.read_error(status, NO_HEADERS, body(message="no"))
    assert CODEC.translate.write_error(fault, "req_1").status == status


def test_what_a_block_explains_is_carried() -> None:
    misalignment = {"error_type": "other", "detailed_explanation": "why"}
    fault = CODEC.translate.read_error(
        400, NO_HEADERS, body(message="no", misalignment=misalignment)
    )
    assert CODEC.translate.write_error(fault, "req_1").body["error"]["misalignment"] == misalignment
