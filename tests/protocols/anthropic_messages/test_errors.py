"""Errors of an upstream, and errors as a Messages client sees them."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx2
import msgspec
import pytest

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.protocols.anthropic_messages.errors import read_error, write_error


def body_of(kind: str, message: str = "m", **error: Any) -> bytes:
    return msgspec.json.encode(
        {"type": "error", "error": {"type": kind, "message": message, **error}}
    )


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (400, "invalid_request_error", FaultKind.INVALID_REQUEST),
        (401, "authentication_error", FaultKind.UNAUTHENTICATED),
        (402, "billing_error", FaultKind.PAYMENT_REQUIRED),
        (403, "permission_error", FaultKind.FORBIDDEN),
        (404, "not_found_error", FaultKind.NOT_FOUND),
        (408, "invalid_request_error", FaultKind.REQUEST_TIMEOUT),
        (409, "conflict_error", FaultKind.CONFLICT),
        (413, "request_too_large", FaultKind.TOO_LARGE),
        (422, "invalid_request_error", FaultKind.UNPROCESSABLE),
        (429, "rate_limit_error", FaultKind.RATE_LIMITED),
        (500, "api_error", FaultKind.UPSTREAM_FAILED),
        (503, "api_error", FaultKind.OVERLOADED),
        (504, "timeout_error", FaultKind.UPSTREAM_TIMEOUT),
        (529, "overloaded_error", FaultKind.OVERLOADED),
        (418, "new_error", FaultKind.INVALID_REQUEST),
        (520, "new_error", FaultKind.UPSTREAM_FAILED),
    ],
)
def test_upstream_errors(status: int, kind: str, expected: FaultKind) -> None:
    """The kind from type and status, the message as it is. req: 137"""
    fault = read_error(status, {}, body_of(kind, "what happened"))
    assert (fault.kind, fault.message) == (expected, "what happened")


def test_a_clients_own_fault_keeps_its_status() -> None:
    fault = read_error(418, {}, body_of("invalid_request_error"))
    assert write_error(fault, "req_1").status == 418
    assert read_error(402, {}, body_of("billing_error")).status is None


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (
            400,
            body_of("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            FaultKind.CONTEXT_TOO_LONG,
            "context_length_exceeded",
        ),
        (
            400,
            body_of("invalid_request_error", "input length and `max_tokens` exceed context limit"),
            FaultKind.CONTEXT_TOO_LONG,
            "context_length_exceeded",
        ),
        (
            404,
            body_of("not_found_error", "model: claude-0"),
            FaultKind.MODEL_NOT_FOUND,
            "model_not_found",
        ),
        (
            429,
            body_of("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}),
            FaultKind.PAYMENT_REQUIRED,
            "insufficient_quota",
        ),
        (
            429,
            body_of("rate_limit_error", details={"error_code": "ramp_limit_exceeded"}),
            FaultKind.RATE_LIMITED,
            "ramp_limit_exceeded",
        ),
    ],
)
def test_upstream_errors_in_detail(status: int, body: bytes, kind: Any, code: str) -> None:
    fault = read_error(status, {}, body)
    assert (fault.kind, fault.code) == (kind, code)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The upstream answered with status 502."),
        (b"<html>Bad gateway</html>", "The upstream answered with status 502."),
        (b"upstream connect error", "upstream connect error"),
        (b'{"error":"text"}', "text"),
        (b'{"error":{"message":"openai shape"}}', "openai shape"),
        (b"[]", "The upstream answered with status 502."),
        (b"x" * 5000, "The upstream answered with status 502."),
    ],
)
def test_errors_in_other_shapes(body: bytes, message: str) -> None:
    fault = read_error(502, {}, body)
    assert (fault.kind, fault.message) == (FaultKind.UPSTREAM_FAILED, message)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after-ms": "1500", "retry-after": "12"}, 1.5),
        (
            {
                "retry-after": "Sat, 21 Nov 2026 10:00:30 GMT",
                "date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            30.0,
        ),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-1"}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], expected: float | None) -> None:
    assert read_error(429, headers, body_of("rate_limit_error")).retry_after == expected


@pytest.mark.parametrize(
    ("kind", "status", "word", "error"),
    [
        (FaultKind.INVALID_REQUEST, 400, "invalid_request_error", anthropic.BadRequestError),
        (FaultKind.CONTEXT_TOO_LONG, 400, "invalid_request_error", anthropic.BadRequestError),
        (FaultKind.UNAUTHENTICATED, 401, "authentication_error", anthropic.AuthenticationError),
        (FaultKind.PAYMENT_REQUIRED, 402, "billing_error", anthropic.APIStatusError),
        (FaultKind.FORBIDDEN, 403, "permission_error", anthropic.PermissionDeniedError),
        (FaultKind.NOT_FOUND, 404, "not_found_error", anthropic.NotFoundError),
        (FaultKind.MODEL_NOT_FOUND, 404, "not_found_error", anthropic.NotFoundError),
        (FaultKind.METHOD_NOT_ALLOWED, 405, "invalid_request_error", anthropic.APIStatusError),
        (FaultKind.REQUEST_TIMEOUT, 408, "invalid_request_error", anthropic.APIStatusError),
        (FaultKind.CONFLICT, 409, "conflict_error", anthropic.ConflictError),
        (FaultKind.TOO_LARGE, 413, "request_too_large", anthropic.APIStatusError),
        (FaultKind.UNSUPPORTED_MEDIA_TYPE, 415, "invalid_request_error", anthropic.APIStatusError),
        (FaultKind.UNPROCESSABLE, 422, "invalid_request_error", anthropic.UnprocessableEntityError),
        (FaultKind.UPGRADE_REQUIRED, 426, "invalid_request_error", anthropic.APIStatusError),
        (FaultKind.RATE_LIMITED, 429, "rate_limit_error", anthropic.RateLimitError),
        (FaultKind.INTERNAL, 500, "api_error", anthropic.InternalServerError),
        (FaultKind.UPSTREAM_FAILED, 502, "api_error", anthropic.InternalServerError),
        (FaultKind.UPSTREAM_TIMEOUT, 504, "timeout_error", anthropic.APIStatusError),
        (FaultKind.NO_ACCOUNT, 529, "overloaded_error", anthropic.APIStatusError),
        (FaultKind.OVERLOADED, 529, "overloaded_error", anthropic.APIStatusError),
    ],
)
def test_errors_for_clients(
    kind: FaultKind, status: int, word: str, error: type[anthropic.APIStatusError]
) -> None:
    """JSON with the request's id, in a shape the SDK makes an exception of. req: 152, 153"""
    rendered = write_error(Fault(kind, "what happened"), "req_1")
    assert rendered.status == status
    assert rendered.body["type"] == "error"
    assert rendered.body["error"]["type"] == word
    assert "what happened" in rendered.body["error"]["message"]
    assert rendered.body["request_id"] == "req_1"
    client = anthropic.Anthropic(api_key="k")
    response = httpx2.Response(
        status, request=httpx2.Request("POST", "http://localhost/v1/messages")
    )
    made = client._make_status_error("m", body=rendered.body, response=response)
    assert isinstance(made, error)
    assert made.type == word


def test_every_kind_has_its_form() -> None:
    for kind in FaultKind:
        assert 400 <= write_error(Fault(kind, "m"), "r").status < 600


def test_overload_is_529_whatever_another_upstream_called_it() -> None:
    fault = Fault(FaultKind.OVERLOADED, "m", status=503)
    assert write_error(fault, "r").status == 529


def test_details_are_shown() -> None:
    details = {"error_code": "thread_unsupported_request"}
    fault = Fault(FaultKind.INVALID_REQUEST, "m", param="thread", details=details)
    assert write_error(fault, "r").body["error"]["details"] == details


def test_agents_recognise_a_full_context() -> None:
    """Claude Code compacts the conversation on these words."""
    fault = Fault(FaultKind.CONTEXT_TOO_LONG, "maximum context length is 8 tokens")
    message = write_error(fault, "r").body["error"]["message"]
    assert message == "prompt is too long: maximum context length is 8 tokens"
    own = Fault(FaultKind.CONTEXT_TOO_LONG, "prompt is too long: 9 > 8")
    assert write_error(own, "r").body["error"]["message"] == own.message
