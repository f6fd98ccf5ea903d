"""Errors, both ways: an upstream's answer as a fault, a fault as a client sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.errors import ErrorReport, Fault, FaultKind
from dragoman.canonical.options import Options
from dragoman.failing import retry_after
from dragoman.protocols.base import OFFICIAL, Rendered, to_json
from dragoman.protocols.error_body import read_error_body, report_of
from dragoman.protocols.fields import JsonObject
from dragoman.sse import encode

_KINDS = {
    "authentication_error": FaultKind.UNAUTHENTICATED,
    "billing_error": FaultKind.PAYMENT_REQUIRED,
    "conflict_error": FaultKind.CONFLICT,
    "invalid_request_error": FaultKind.INVALID_REQUEST,
    "not_found_error": FaultKind.NOT_FOUND,
    "overloaded_error": FaultKind.OVERLOADED,
    "permission_error": FaultKind.FORBIDDEN,
    "rate_limit_error": FaultKind.RATE_LIMITED,
    "request_too_large": FaultKind.TOO_LARGE,
    "timeout_error": FaultKind.UPSTREAM_TIMEOUT,
}
"""`error.type` to kind; `api_error` and unknown types are told by the status."""

_BY_STATUS = {
    401: FaultKind.UNAUTHENTICATED,
    402: FaultKind.PAYMENT_REQUIRED,
    403: FaultKind.FORBIDDEN,
    404: FaultKind.NOT_FOUND,
    405: FaultKind.METHOD_NOT_ALLOWED,
    408: FaultKind.REQUEST_TIMEOUT,
    409: FaultKind.CONFLICT,
    413: FaultKind.TOO_LARGE,
    415: FaultKind.UNSUPPORTED_MEDIA_TYPE,
    422: FaultKind.UNPROCESSABLE,
    429: FaultKind.RATE_LIMITED,
    503: FaultKind.OVERLOADED,
    504: FaultKind.UPSTREAM_TIMEOUT,
    529: FaultKind.OVERLOADED,
}

_SHOWN: dict[FaultKind, tuple[int, str]] = {
    FaultKind.INVALID_REQUEST: (400, "invalid_request_error"),
    FaultKind.CONTEXT_TOO_LONG: (400, "invalid_request_error"),
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

_OWN_STATUS = frozenset({FaultKind.NO_ACCOUNT, FaultKind.OVERLOADED})
"""Kinds whose status is this protocol's own whatever another upstream's was: 529."""

_SPENT = frozenset(
    {
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
        "linked_organization_spend_limit_reached",
        "linked_organization_billing_unavailable",
    }
)
"""`details.error_code` of errors that waiting a little does not cure."""

_TOO_LONG = "prompt is too long"
"""How the service's own message begins; agents start to compact the conversation on it."""
_TOO_LONG_SIGNS = (_TOO_LONG, "exceed context limit", "exceeds the context window")


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """The fault in an upstream's error answer (`headers` with lower-case names)."""
    read = read_error_body(body)
    error = read.value.get("error") if isinstance(read.value, dict) else None
    if isinstance(error, str):
        error = {"message": error}
    if not isinstance(error, dict):
        error = {"message": read.plain}
    return fault_of(error, status, retry_after(headers), read.report)


def fault_of(
    error: Mapping[str, Any],
    status: int | None,
    retry_after: float | None,
    report: ErrorReport | None = None,
) -> Fault:
    """The fault an error object tells of; `status` is None inside a stream. `report` is that of the
    whole body, where the object is in one."""
    message = error.get("message")
    if not isinstance(message, str) or not message:
        message = f"The upstream answered with status {status}." if status else "Upstream error."
    details = error.get("details")
    details = details if isinstance(details, dict) else None
    kind = _kind(str(error.get("type", "")), status, message)
    code = None
    if kind is FaultKind.CONTEXT_TOO_LONG:
        code = "context_length_exceeded"
    elif kind is FaultKind.MODEL_NOT_FOUND:
        code = "model_not_found"
    elif kind is FaultKind.PAYMENT_REQUIRED or (details or {}).get("error_code") in _SPENT:
        kind, code = FaultKind.PAYMENT_REQUIRED, "insufficient_quota"
    elif details is not None and isinstance(details.get("error_code"), str):
        code = details["error_code"]
    own = status if status is not None and 400 <= status < 500 else None
    return Fault(
        kind,
        message,
        code=code,
        status=None if own == _SHOWN[kind][0] else own,
        retry_after=retry_after,
        details=details,
        report=report or report_of(error),
    )


def _kind(word: str, status: int | None, message: str) -> FaultKind:
    kind = _KINDS.get(word)
    by_status = _BY_STATUS.get(status or 0)
    if kind is None:
        in_range = status is not None and 400 <= status < 500
        kind = by_status or (FaultKind.INVALID_REQUEST if in_range else FaultKind.UPSTREAM_FAILED)
    elif kind is FaultKind.INVALID_REQUEST and by_status is not None:
        # The service has one type for several statuses; the status says more.
        kind = by_status
    if kind is FaultKind.INVALID_REQUEST:
        lowered = message.lower()
        if any(sign in lowered for sign in _TOO_LONG_SIGNS):
            return FaultKind.CONTEXT_TOO_LONG
    if kind is FaultKind.NOT_FOUND and message.startswith("model:"):
        return FaultKind.MODEL_NOT_FOUND
    return kind


def error_object(fault: Fault) -> JsonObject:
    """The `error` member of an error body or event."""
    message = fault.message
    if fault.kind is FaultKind.CONTEXT_TOO_LONG and _TOO_LONG not in message.lower():
        message = f"{_TOO_LONG}: {message}"
    error: JsonObject = {"type": _SHOWN[fault.kind][1], "message": message}
    if fault.details is not None:
        error["details"] = fault.details
    return error


def write_error(fault: Fault, request_id: str, options: Options = OFFICIAL) -> Rendered:
    """The status and body of a fault."""
    status = _SHOWN[fault.kind][0]
    if fault.status is not None and fault.kind not in _OWN_STATUS:
        status = fault.status
    body = {"type": "error", "error": error_object(fault), "request_id": request_id}
    return Rendered(status, body)


def error_event(fault: Fault) -> bytes:
    """The event that ends a stream that failed."""
    return encode(to_json({"type": "error", "error": error_object(fault)}), b"error")
