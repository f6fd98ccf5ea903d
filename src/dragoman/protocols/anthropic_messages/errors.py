"""Errors, both ways: an upstream's answer as a fault, a fault as a client sees it."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.errors import ErrorReport, Fault, FaultKind
from dragoman.canonical.options import Options
from dragoman.protocols.base import OFFICIAL, Rendered, to_json
from dragoman.protocols.error_body import error_in, error_reader, report_of
from dragoman.protocols.faults import (
    FIXED_STATUS,
    OPENAI_CODES,
    client_status,
    kind_of,
    message_of,
)
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.overflow import message_for_messages
from dragoman.protocols.retrying import worded_for_stream
from dragoman.sse import encode

_SHOWN: dict[FaultKind, tuple[int, str]] = {
    FaultKind.INVALID_REQUEST: (400, "invalid_request_error"),
    FaultKind.CONTEXT_TOO_LONG: (400, "invalid_request_error"),
    FaultKind.POLICY_BLOCKED: (400, "policy_blocked"),
    FaultKind.UNAUTHENTICATED: (401, "authentication_error"),
    FaultKind.PAYMENT_REQUIRED: (402, "billing_error"),
    FaultKind.FORBIDDEN: (403, "permission_error"),
    FaultKind.NOT_FOUND: (404, "not_found_error"),
    FaultKind.MODEL_NOT_FOUND: (404, "not_found_error"),
    FaultKind.METHOD_NOT_ALLOWED: (405, "invalid_request_error"),
    FaultKind.REQUEST_TIMEOUT: (408, "invalid_request_error"),
    FaultKind.CONFLICT: (409, "conflict_error"),
    FaultKind.TOO_LARGE: (413, "request_too_large"),
    FaultKind.UNSUPPORTED_MEDIA_TYPE: (415, "invalid_request_error"),
    FaultKind.UNPROCESSABLE: (422, "invalid_request_error"),
    FaultKind.UPGRADE_REQUIRED: (426, "invalid_request_error"),
    FaultKind.RATE_LIMITED: (429, "rate_limit_error"),
    FaultKind.INTERNAL: (500, "api_error"),
    FaultKind.UPSTREAM_FAILED: (502, "api_error"),
    FaultKind.NO_ACCOUNT: (529, "overloaded_error"),
    FaultKind.OVERLOADED: (529, "overloaded_error"),
    FaultKind.UPSTREAM_TIMEOUT: (504, "timeout_error"),
}
"""Status and `error.type` of each kind, as the service itself uses them."""

_BUDGET_TYPES = {
    400: "invalid_request_error",
    402: "billing_error",
    403: "permission_error",
    429: "rate_limit_error",
}
"""The type that belongs to each status of a spent budget."""

REASONING_REFUSALS = ("`signature` in `thinking`", "signature in thinking block")
"""Error texts for thinking with a foreign signature."""


def fault_of(
    error: Any,
    status: int | None = None,
    retry_after: float | None = None,
    report: ErrorReport | None = None,
) -> Fault:
    """The fault for an error object or text. `status` is None inside a stream or an answer of
    status 200. `report` is the one of the whole body, if the object is in one."""
    report = report or report_of(error)
    error = error_in(error)
    details = error.get("details")
    details = details if isinstance(details, dict) else None
    given_code = (details or {}).get("error_code") or error.get("code")
    if status is None and type(given_code) is int and 400 <= given_code <= 599:
        status = given_code
    message = message_of(error, status)
    kind = kind_of(status, (given_code, error.get("type")), message)
    if kind is FaultKind.NOT_FOUND and message.startswith("model:"):
        kind = FaultKind.MODEL_NOT_FOUND
    return Fault(
        kind,
        message,
        code=OPENAI_CODES.get(kind) or (given_code if isinstance(given_code, str) else None),
        status=client_status(kind, status),
        retry_after=retry_after,
        details=details,
        report=report,
    )


read_error = error_reader(fault_of)
"""The fault in an upstream's error answer (status, headers with lower-case names, body)."""


def error_object(fault: Fault) -> JsonObject:
    """The `error` member of an error body or event."""
    message = fault.message
    if fault.kind is FaultKind.CONTEXT_TOO_LONG:
        message = message_for_messages(message)
    error: JsonObject = {"type": _SHOWN[fault.kind][1], "message": message}
    if fault.details is not None:
        error["details"] = fault.details
    return error


def write_error(fault: Fault, request_id: str, options: Options = OFFICIAL) -> Rendered:
    """The status and body of a fault."""
    status = fault.status
    is_fixed = fault.kind in FIXED_STATUS and fault.limited != "budget"
    if status is None or is_fixed:
        status = _SHOWN[fault.kind][0]
    error = error_object(fault)
    if fault.limited == "budget" and fault.status is None and options.budget_status is not None:
        status = options.budget_status
        error["type"] = _BUDGET_TYPES[status]
    return Rendered(status, {"type": "error", "error": error, "request_id": request_id})


def error_event(fault: Fault, request_id: str = "") -> bytes:
    """The event that ends a failed stream. It carries the request id, as the service does, so that
    qwen-code retries."""
    event: JsonObject = {"type": "error", "error": error_object(worded_for_stream(fault))}
    if request_id:
        event["request_id"] = request_id
    return encode(to_json(event), b"error")
