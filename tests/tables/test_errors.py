"""Errors before an answer: one kind, as each upstream tells it and as each client is shown it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.events import Failed
from dragoman.canonical.losses import Ledger
from dragoman.protocols import CODECS
from dragoman.protocols.base import Inbound
from dragoman.sse import Frame
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
        R: Shown(503, UNAVAILABLE, "server_is_overloaded"),
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


class Upstream(NamedTuple):
    """An upstream's error, whose shape all protocols read: status (None inside a stream), type and
    code."""

    status: int | None
    type: str | None = None
    code: str | int | None = None
    message: str = "m"


SAME: list[tuple[Upstream, FaultKind]] = [
    # Statuses that say by themselves what is wrong.
    (Upstream(400), Kind.INVALID_REQUEST),
    (Upstream(401), Kind.UNAUTHENTICATED),
    (Upstream(402), Kind.PAYMENT_REQUIRED),
    (Upstream(403), Kind.FORBIDDEN),
    (Upstream(404), Kind.NOT_FOUND),
    (Upstream(418), Kind.INVALID_REQUEST),
    (Upstream(422), Kind.UNPROCESSABLE),
    (Upstream(426), Kind.UPGRADE_REQUIRED),
    (Upstream(500), Kind.UPSTREAM_FAILED),
    (Upstream(503), Kind.OVERLOADED),
    (Upstream(504), Kind.UPSTREAM_TIMEOUT),
    (Upstream(521), Kind.UPSTREAM_FAILED),
    (Upstream(524), Kind.UPSTREAM_TIMEOUT),
    (Upstream(524, "server_error"), Kind.UPSTREAM_TIMEOUT),
    (Upstream(529), Kind.OVERLOADED),
    # A number in the place of the code, as routers send it, is a status.
    (Upstream(None, code=401), Kind.UNAUTHENTICATED),
    (Upstream(None, code=429), Kind.RATE_LIMITED),
    (Upstream(None, code=524), Kind.UPSTREAM_TIMEOUT),
    (Upstream(None, code=7), Kind.UPSTREAM_FAILED),
    # Words without a status, and beside one that says nothing by itself.
    *(
        (Upstream(status, *words), kind)
        for status in (None, 400, 418, 500, 502)
        for words, kind in (
            (("overloaded_error",), Kind.OVERLOADED),
            (("service_unavailable_error", "server_is_overloaded"), Kind.OVERLOADED),
            ((None, "slow_down"), Kind.OVERLOADED),
            ((None, "no_account_available"), Kind.OVERLOADED),
            (("authentication_error",), Kind.UNAUTHENTICATED),
            (("invalid_request_error", "invalid_api_key"), Kind.UNAUTHENTICATED),
            (("permission_error",), Kind.FORBIDDEN),
            (("timeout_error",), Kind.UPSTREAM_TIMEOUT),
            (("server_error", "timeout"), Kind.UPSTREAM_TIMEOUT),
            (("rate_limit_error",), Kind.RATE_LIMITED),
            (("too_many_requests",), Kind.RATE_LIMITED),
            ((None, "rate_limit_exceeded"), Kind.RATE_LIMITED),
            (("usage_limit_reached",), Kind.RATE_LIMITED),
            (("billing_error",), Kind.PAYMENT_REQUIRED),
            (("insufficient_quota",), Kind.PAYMENT_REQUIRED),
            ((None, "billing_hard_limit_reached"), Kind.PAYMENT_REQUIRED),
            ((None, "enforced_spend_limit_reached"), Kind.PAYMENT_REQUIRED),
            (("not_found_error",), Kind.NOT_FOUND),
            (("invalid_request_error", "model_not_found"), Kind.MODEL_NOT_FOUND),
            (("invalid_request_error", "context_length_exceeded"), Kind.CONTEXT_TOO_LONG),
            (("request_too_large",), Kind.TOO_LARGE),
            (("conflict_error",), Kind.CONFLICT),
        )
    ),
    # Without a status the request is at fault where a word says it; beside one, the status says.
    (Upstream(None), Kind.UPSTREAM_FAILED),
    (Upstream(None, "server_error"), Kind.UPSTREAM_FAILED),
    (Upstream(None, "api_error"), Kind.UPSTREAM_FAILED),
    (Upstream(None, "server_error", "vector_store_timeout"), Kind.UPSTREAM_FAILED),
    (Upstream(None, INVALID), Kind.INVALID_REQUEST),
    (Upstream(None, "server_error", "invalid_prompt"), Kind.INVALID_REQUEST),
    (Upstream(None, None, "image_parse_error"), Kind.INVALID_REQUEST),
    (Upstream(None, None, "invalid_value"), Kind.INVALID_REQUEST),
    (Upstream(500, INVALID), Kind.UPSTREAM_FAILED),
    (Upstream(400, "server_error"), Kind.INVALID_REQUEST),
    # A status that says by itself what is wrong holds, whatever the words; some add to it.
    (Upstream(429, "overloaded_error"), Kind.RATE_LIMITED),
    (Upstream(429, None, "slow_down"), Kind.RATE_LIMITED),
    (Upstream(503, None, "slow_down"), Kind.OVERLOADED),
    (Upstream(401, "permission_error"), Kind.UNAUTHENTICATED),
    (Upstream(403, None, "model_not_found"), Kind.FORBIDDEN),
    (Upstream(403, None, "insufficient_quota"), Kind.PAYMENT_REQUIRED),
    (Upstream(404, None, "model_not_found"), Kind.MODEL_NOT_FOUND),
    (Upstream(413, None, "context_length_exceeded"), Kind.CONTEXT_TOO_LONG),
    (Upstream(429, "insufficient_quota"), Kind.PAYMENT_REQUIRED),
    (Upstream(429, "rate_limit_error", "credit_balance_exhausted"), Kind.PAYMENT_REQUIRED),
    # A conversation that is too long may be told by the message alone.
    (Upstream(400, INVALID, message=LONG), Kind.CONTEXT_TOO_LONG),
    (Upstream(413, message=LONG), Kind.CONTEXT_TOO_LONG),
    (Upstream(None, INVALID, message=LONG), Kind.CONTEXT_TOO_LONG),
    (Upstream(400, message="maximum context length is 8 tokens"), Kind.CONTEXT_TOO_LONG),
    (Upstream(400, message="`max_tokens` exceed context limit: 9 > 8"), Kind.CONTEXT_TOO_LONG),
    (Upstream(400, message="input exceeds the context window"), Kind.CONTEXT_TOO_LONG),
    (Upstream(429, message=LONG), Kind.RATE_LIMITED),
    (Upstream(500, message=LONG), Kind.UPSTREAM_FAILED),
]
"""The same error means the same on every protocol, whole and inside a stream."""


def fault_on(protocol: str, error: Upstream) -> Fault:
    """The fault that a protocol reads, in an error answer or in a stream that begins with it."""
    members = {"type": error.type, "code": error.code, "message": error.message}
    body = {"error": {name: value for name, value in members.items() if value is not None}}
    codec = CODECS[protocol].translate
    if error.status is not None:
        return codec.read_error(error.status, {}, json.dumps(body).encode())
    reader = codec.stream_reader(Inbound(sealer=Sealer(), ledger=Ledger()))
    name = b"" if protocol == C else b"error"
    told = {"type": "error", **body} if name else body
    data = json.dumps(told).encode()
    events = list(reader.read(Frame(event=name, data=data)))
    assert isinstance(events[-1], Failed)
    return events[-1].fault


@pytest.mark.parametrize("protocol", [C, A, R])
@pytest.mark.parametrize(("error", "kind"), SAME, ids=lambda value: str(value))
def test_the_same_error_means_the_same(protocol: str, error: Upstream, kind: FaultKind) -> None:
    fault = fault_on(protocol, error)
    assert fault.kind is kind
    assert fault.message == error.message


@pytest.mark.parametrize("error", [error for error, _ in SAME])
def test_the_same_error_is_shown_the_same(error: Upstream) -> None:
    """Under the same status, whichever protocol the upstream speaks."""
    for client in (C, A, R):
        shown = {shown_to(client, fault_on(upstream, error))[:2] for upstream in (C, A, R)}
        assert len(shown) == 1


@pytest.mark.parametrize("protocol", [C, A, R])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":"text"}', "text"),
        (b'{"message":"flat"}', "flat"),
        (b'{"detail":"flat"}', "flat"),
        (b'[{"error":{"message":"in a list"}}]', "in a list"),
        (b"plain", "plain"),
        (b"<html>page</html>", "The upstream answered with status 502."),
        (b"[]", "The upstream answered with status 502."),
        (b'{"error":{"message":"%s"}}' % (b"x" * 5000), "x" * 4096),
    ],
)
def test_the_message_of_any_body(protocol: str, body: bytes, message: str) -> None:
    assert CODECS[protocol].translate.read_error(502, {}, body).message == message
