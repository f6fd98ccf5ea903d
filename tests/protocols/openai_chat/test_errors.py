"""Errors of a Chat upstream, and errors as a Chat client sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.protocols.openai_chat import CODEC
from dragoman.protocols.openai_errors import FORMS


def read(status: int, error: Any = None, headers: dict[str, str] | None = None) -> Fault:
    """The fault in an error answer."""
    body = json.dumps({"error": error or {"message": "boom"}}).encode()
    return CODEC.translate.read_error(status, headers or {}, body)


@pytest.mark.parametrize(
    ("status", "error", "kind", "kept"),
    [
        (400, {}, FaultKind.INVALID_REQUEST, 400),
        (400, {"code": "context_length_exceeded"}, FaultKind.CONTEXT_TOO_LONG, 400),
        (
            400,
            {"message": "This model's maximum context length is 8"},
            FaultKind.CONTEXT_TOO_LONG,
            400,
        ),
        (401, {"code": "invalid_api_key"}, FaultKind.UNAUTHENTICATED, 401),
        (402, {}, FaultKind.PAYMENT_REQUIRED, None),
        (403, {}, FaultKind.FORBIDDEN, 403),
        (404, {}, FaultKind.NOT_FOUND, 404),
        (404, {"code": "model_not_found"}, FaultKind.MODEL_NOT_FOUND, 404),
        (405, {}, FaultKind.METHOD_NOT_ALLOWED, 405),
        (408, {}, FaultKind.REQUEST_TIMEOUT, 408),
        (409, {}, FaultKind.CONFLICT, 409),
        (413, {}, FaultKind.TOO_LARGE, 413),
        (415, {}, FaultKind.UNSUPPORTED_MEDIA_TYPE, 415),
        (418, {}, FaultKind.INVALID_REQUEST, 418),
        (422, {}, FaultKind.UNPROCESSABLE, 422),
        (429, {"code": "rate_limit_exceeded"}, FaultKind.RATE_LIMITED, 429),
        (429, {"type": "tokens"}, FaultKind.RATE_LIMITED, 429),
        (429, {"code": "insufficient_quota"}, FaultKind.PAYMENT_REQUIRED, None),
        (429, {"type": "insufficient_quota"}, FaultKind.PAYMENT_REQUIRED, None),
        (429, {"code": "credit_balance_exhausted"}, FaultKind.PAYMENT_REQUIRED, None),
        (500, {"type": "server_error"}, FaultKind.UPSTREAM_FAILED, None),
        (502, {}, FaultKind.UPSTREAM_FAILED, None),
        (503, {}, FaultKind.OVERLOADED, None),
        (504, {}, FaultKind.UPSTREAM_TIMEOUT, None),
        (524, {}, FaultKind.UPSTREAM_TIMEOUT, None),
        (521, {}, FaultKind.UPSTREAM_FAILED, None),
        (529, {}, FaultKind.OVERLOADED, None),
    ],
)
def test_statuses_and_codes(status: int, error: Any, kind: FaultKind, kept: int | None) -> None:
    """What is the client's fault keeps its status. req: 137"""
    fault = read(status, {"message": "boom", **error})
    assert (fault.kind, fault.status) == (kind, kept)


def test_message_param_and_code_are_kept() -> None:
    error = {"message": "boom", "type": "t", "param": "temperature", "code": "unsupported_value"}
    fault = read(400, {**error, "misalignment": {"error_type": "other"}})
    assert (fault.message, fault.param, fault.code) == ("boom", "temperature", "unsupported_value")
    assert fault.details == {"misalignment": {"error_type": "other"}}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":"boom"}', "boom"),
        (b'{"object":"error","message":"boom","code":400}', "boom"),
        (b'{"detail":"boom"}', "boom"),
        (b'{"detail":[{"loc":["body"]}]}', '[{"loc":["body"]}]'),
        (b"boom", "boom"),
        (b"<html>secret</html>", "The upstream answered with status 500."),
        (b"", "The upstream answered with status 500."),
        (b"\xff", "\ufffd"),
        (b"[1]", "The upstream answered with status 500."),
    ],
)
def test_bodies_of_all_kinds(body: bytes, message: str) -> None:
    assert CODEC.translate.read_error(500, {}, body).message == message


def test_a_message_is_bounded() -> None:
    assert len(CODEC.translate.read_error(500, {}, b"x" * 100_000).message) <= 4096


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        (
            {
                "retry-after": "Fri, 31 Dec 1999 23:59:59 GMT",
                "date": "Fri, 31 Dec 1999 23:59:00 GMT",
            },
            59.0,
        ),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "1e999"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    """Retry-After reaches whoever retries. req: 144"""
    assert read(429, headers=headers).retry_after == seconds


@pytest.mark.parametrize(
    ("kind", "status", "type_", "code"),
    [
        (FaultKind.INVALID_REQUEST, 400, "invalid_request_error", None),
        (FaultKind.CONTEXT_TOO_LONG, 400, "invalid_request_error", "context_length_exceeded"),
        (FaultKind.UNAUTHENTICATED, 401, "invalid_request_error", "invalid_api_key"),
        (FaultKind.PAYMENT_REQUIRED, 429, "insufficient_quota", "insufficient_quota"),
        (FaultKind.FORBIDDEN, 403, "permission_error", None),
        (FaultKind.MODEL_NOT_FOUND, 404, "invalid_request_error", "model_not_found"),
        (FaultKind.METHOD_NOT_ALLOWED, 405, "invalid_request_error", None),
        (FaultKind.TOO_LARGE, 413, "invalid_request_error", None),
        (FaultKind.UNSUPPORTED_MEDIA_TYPE, 415, "invalid_request_error", None),
        (FaultKind.RATE_LIMITED, 429, "rate_limit_error", "rate_limit_exceeded"),
        (FaultKind.OVERLOADED, 503, "service_unavailable_error", "server_is_overloaded"),
        (FaultKind.UPSTREAM_FAILED, 502, "server_error", "upstream_error"),
        (FaultKind.UPSTREAM_TIMEOUT, 504, "server_error", "timeout"),
        (FaultKind.NO_ACCOUNT, 503, "service_unavailable_error", "no_account_available"),
        (FaultKind.INTERNAL, 500, "server_error", None),
    ],
)
def test_how_a_client_sees_them(kind: FaultKind, status: int, type_: str, code: str | None) -> None:
    """JSON with message, type, param and code. req: 152, 153"""
    rendered = CODEC.translate.write_error(Fault(kind, "boom", param="p"), "req_1")
    assert rendered.status == status
    assert rendered.body == {
        "error": {"message": "boom", "type": type_, "param": "p", "code": code}
    }


def test_every_kind_has_a_form() -> None:
    assert set(FORMS) == set(FaultKind)


def test_a_status_of_the_upstreams_own_is_shown() -> None:
    assert (
        CODEC.translate.write_error(Fault(FaultKind.INVALID_REQUEST, "x", status=418), "r").status
        == 418
    )
    # 529 is a word of another protocol.
    assert (
        CODEC.translate.write_error(Fault(FaultKind.OVERLOADED, "x", status=529), "r").status == 503
    )


def test_details_are_shown_but_replace_nothing() -> None:
    fault = Fault(
        FaultKind.INVALID_REQUEST, "boom", details={"misalignment": {"a": 1}, "message": "no"}
    )
    error = CODEC.translate.write_error(fault, "r").body["error"]
    assert error["misalignment"] == {"a": 1}
    assert error["message"] == "boom"
