"""Errors before an answer: one kind, as each upstream tells it and as each client is shown it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.protocols import CODECS
from tests.tables.requests import A, C, R

Kind = FaultKind


class Told(NamedTuple):
    """How an upstream tells of it."""

    status: int
    type: str
    code: str | None = None
    message: str = "m"


class Shown(NamedTuple):
    """How a client is shown it; a Responses client always gets some code."""

    status: int
    type: str
    code: str | None = None


INVALID = "invalid_request_error"
UNAVAILABLE = "service_unavailable_error"
LONG = "prompt is too long: 9 tokens > 8 maximum"

ROWS: dict[FaultKind, tuple[dict[str, Told], dict[str, Shown]]] = {
    Kind.INVALID_REQUEST: (
        {C: Told(400, INVALID), A: Told(400, INVALID), R: Told(400, INVALID)},
        {C: Shown(400, INVALID), A: Shown(400, INVALID), R: Shown(400, INVALID, "invalid_request")},
    ),
    Kind.CONTEXT_TOO_LONG: (
        {
            C: Told(400, INVALID, "context_length_exceeded"),
            A: Told(400, INVALID, message=LONG),
            R: Told(400, INVALID, "context_length_exceeded"),
        },
        {
            C: Shown(400, INVALID, "context_length_exceeded"),
            A: Shown(400, INVALID),
            R: Shown(400, INVALID, "context_length_exceeded"),
        },
    ),
    Kind.PAYMENT_REQUIRED: (
        {
            C: Told(429, "insufficient_quota", "insufficient_quota"),
            A: Told(402, "billing_error"),
            R: Told(429, "insufficient_quota", "insufficient_quota"),
        },
        {
            C: Shown(429, "insufficient_quota", "insufficient_quota"),
            A: Shown(402, "billing_error"),
            R: Shown(429, "insufficient_quota", "insufficient_quota"),
        },
    ),
    Kind.MODEL_NOT_FOUND: (
        {
            C: Told(404, INVALID, "model_not_found"),
            A: Told(404, "not_found_error", message="model: m"),
            R: Told(404, INVALID, "model_not_found"),
        },
        {
            C: Shown(404, INVALID, "model_not_found"),
            A: Shown(404, "not_found_error"),
            R: Shown(404, INVALID, "model_not_found"),
        },
    ),
    Kind.TOO_LARGE: (
        {C: Told(413, INVALID), A: Told(413, "request_too_large"), R: Told(413, INVALID)},
        {
            C: Shown(413, INVALID),
            A: Shown(413, "request_too_large"),
            R: Shown(413, INVALID, "request_too_large"),
        },
    ),
    Kind.RATE_LIMITED: (
        {
            C: Told(429, "rate_limit_error", "rate_limit_exceeded"),
            A: Told(429, "rate_limit_error"),
            R: Told(429, "rate_limit_error", "rate_limit_exceeded"),
        },
        {
            C: Shown(429, "rate_limit_error", "rate_limit_exceeded"),
            A: Shown(429, "rate_limit_error"),
            R: Shown(429, "rate_limit_error", "rate_limit_exceeded"),
        },
    ),
    Kind.OVERLOADED: (
        {
            C: Told(503, UNAVAILABLE, "server_is_overloaded"),
            A: Told(529, "overloaded_error"),
            R: Told(503, UNAVAILABLE, "server_is_overloaded"),
        },
        {
            C: Shown(503, UNAVAILABLE, "server_is_overloaded"),
            A: Shown(529, "overloaded_error"),
            R: Shown(503, UNAVAILABLE, "server_is_overloaded"),
        },
    ),
    Kind.UPSTREAM_FAILED: (
        {C: Told(500, "server_error"), A: Told(500, "api_error"), R: Told(500, "server_error")},
        {
            C: Shown(502, "server_error", "upstream_error"),
            A: Shown(502, "api_error"),
            R: Shown(502, "server_error", "upstream_error"),
        },
    ),
    Kind.UPSTREAM_TIMEOUT: (
        {C: Told(504, "server_error"), A: Told(504, "timeout_error"), R: Told(504, "server_error")},
        {
            C: Shown(504, "server_error", "timeout"),
            A: Shown(504, "timeout_error"),
            R: Shown(504, "server_error", "timeout"),
        },
    ),
}
"""Kinds an upstream tells of."""

OWN: dict[FaultKind, dict[str, Shown]] = {
    Kind.UNAUTHENTICATED: {
        C: Shown(401, INVALID, "invalid_api_key"),
        A: Shown(401, "authentication_error"),
        R: Shown(401, INVALID, "invalid_api_key"),
    },
    Kind.FORBIDDEN: {
        C: Shown(403, "permission_error"),
        A: Shown(403, "permission_error"),
        R: Shown(403, "permission_error", "permission_denied"),
    },
    Kind.METHOD_NOT_ALLOWED: {
        C: Shown(405, INVALID),
        A: Shown(405, INVALID),
        R: Shown(405, INVALID, "method_not_allowed"),
    },
    Kind.UNSUPPORTED_MEDIA_TYPE: {
        C: Shown(415, INVALID),
        A: Shown(415, INVALID),
        R: Shown(415, INVALID, "unsupported_media_type"),
    },
    Kind.NO_ACCOUNT: {
        C: Shown(503, UNAVAILABLE, "no_account_available"),
        A: Shown(529, "overloaded_error"),
        R: Shown(503, UNAVAILABLE, "no_account_available"),
    },
    Kind.INTERNAL: {
        C: Shown(500, "server_error"),
        A: Shown(500, "api_error"),
        R: Shown(500, "server_error", "internal_error"),
    },
}
"""Kinds that are the gateway's own."""


def body_of(protocol: str, told: Told) -> dict[str, Any]:
    error = {"type": told.type, "message": told.message}
    if protocol == A:
        return {"type": "error", "error": error, "request_id": "req_1"}
    return {"error": {**error, "param": None, "code": told.code}}


def shown_to(client: str, fault: Fault) -> Shown:
    rendered = CODECS[client].translate.write_error(fault, "req_1")
    error = rendered.body["error"]
    assert error["message"]
    return Shown(rendered.status, error["type"], error.get("code"))


@pytest.mark.parametrize("client", [C, A, R])
@pytest.mark.parametrize("upstream", [C, A, R])
@pytest.mark.parametrize("kind", ROWS)
def test_row(kind: FaultKind, upstream: str, client: str) -> None:
    told, shown = ROWS[kind]
    body = json.dumps(body_of(upstream, told[upstream])).encode()
    headers = {"retry-after": "7"}
    fault = CODECS[upstream].translate.read_error(told[upstream].status, headers, body)
    assert fault.kind is kind
    assert fault.retry_after == 7
    if client != A and shown[client].code is None:
        # A code that an upstream gave stays.
        assert shown_to(client, fault)[:2] == shown[client][:2]
    else:
        assert shown_to(client, fault) == shown[client]


@pytest.mark.parametrize("client", [C, A, R])
@pytest.mark.parametrize("kind", OWN)
def test_row_of_the_gateways_own(kind: FaultKind, client: str) -> None:
    assert shown_to(client, Fault(kind, "m")) == OWN[kind][client]
