"""Errors, both ways: an upstream's answer as a fault, a fault as a client sees it.

Shape: `{"error": {message, type, param, code}}` (shared/error_object.py). Inside a stream the
`error` event carries the same both nested and flat, for some clients read only one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.errors import ErrorReport, Fault, FaultKind
from dragoman.canonical.options import Options
from dragoman.failing import retry_after
from dragoman.protocols.base import OFFICIAL, Rendered
from dragoman.protocols.error_body import read_error_body, report_of
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.settings import ResponsesOptions

_SHOWN: dict[FaultKind, tuple[int, str, str]] = {
    FaultKind.INVALID_REQUEST: (400, "invalid_request_error", "invalid_request"),
    FaultKind.CONTEXT_TOO_LONG: (400, "invalid_request_error", "context_length_exceeded"),
    FaultKind.UNAUTHENTICATED: (401, "invalid_request_error", "invalid_api_key"),
    FaultKind.PAYMENT_REQUIRED: (429, "insufficient_quota", "insufficient_quota"),
    FaultKind.FORBIDDEN: (403, "permission_error", "permission_denied"),
    FaultKind.NOT_FOUND: (404, "invalid_request_error", "not_found"),
    FaultKind.MODEL_NOT_FOUND: (404, "invalid_request_error", "model_not_found"),
    FaultKind.METHOD_NOT_ALLOWED: (405, "invalid_request_error", "method_not_allowed"),
    FaultKind.REQUEST_TIMEOUT: (408, "invalid_request_error", "request_timeout"),
    FaultKind.CONFLICT: (409, "invalid_request_error", "conflict"),
    FaultKind.TOO_LARGE: (413, "invalid_request_error", "request_too_large"),
    FaultKind.UNSUPPORTED_MEDIA_TYPE: (415, "invalid_request_error", "unsupported_media_type"),
    FaultKind.UNPROCESSABLE: (422, "invalid_request_error", "unprocessable_entity"),
    FaultKind.UPGRADE_REQUIRED: (426, "invalid_request_error", "upgrade_required"),
    FaultKind.RATE_LIMITED: (429, "rate_limit_error", "rate_limit_exceeded"),
    FaultKind.INTERNAL: (500, "server_error", "internal_error"),
    FaultKind.UPSTREAM_FAILED: (502, "server_error", "upstream_error"),
    FaultKind.NO_ACCOUNT: (503, "service_unavailable_error", "no_account_available"),
    FaultKind.OVERLOADED: (503, "service_unavailable_error", "server_is_overloaded"),
    FaultKind.UPSTREAM_TIMEOUT: (504, "server_error", "timeout"),
}
"""Status, `type` and the `code` used when the fault has none."""

_OWN_STATUS = frozenset({FaultKind.NO_ACCOUNT, FaultKind.OVERLOADED, FaultKind.PAYMENT_REQUIRED})
"""Kinds whose status is this protocol's own whatever another upstream's was."""

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
    426: FaultKind.UPGRADE_REQUIRED,
    429: FaultKind.RATE_LIMITED,
    503: FaultKind.OVERLOADED,
    504: FaultKind.UPSTREAM_TIMEOUT,
    529: FaultKind.OVERLOADED,
}

_BY_CODE = {
    "rate_limit_exceeded": FaultKind.RATE_LIMITED,
    "slow_down": FaultKind.RATE_LIMITED,
    "insufficient_quota": FaultKind.PAYMENT_REQUIRED,
    "credit_balance_exhausted": FaultKind.PAYMENT_REQUIRED,
    "billing_hard_limit_reached": FaultKind.PAYMENT_REQUIRED,
    "organization_spend_limit_exceeded": FaultKind.PAYMENT_REQUIRED,
    "organization_usage_limit_exceeded": FaultKind.PAYMENT_REQUIRED,
    "project_spend_limit_exceeded": FaultKind.PAYMENT_REQUIRED,
    "usage_limit_reached": FaultKind.RATE_LIMITED,
    "context_length_exceeded": FaultKind.CONTEXT_TOO_LONG,
    "model_not_found": FaultKind.MODEL_NOT_FOUND,
    "server_is_overloaded": FaultKind.OVERLOADED,
    "server_error": FaultKind.UPSTREAM_FAILED,
    "vector_store_timeout": FaultKind.UPSTREAM_FAILED,
}
"""Codes that say more than the status, or stand without one inside a stream."""

_USED_UP = "usage_limit_reached"
"""Type of the error, which has no code, when a ChatGPT subscription's window is at its end."""

_SPENT = frozenset(code for code, kind in _BY_CODE.items() if kind is FaultKind.PAYMENT_REQUIRED)

_CLIENT_CODES = frozenset(
    {
        "bio_policy",
        "data_residency_mismatch",
        "empty_image_file",
        "failed_to_download_image",
        "image_content_policy_violation",
        "image_file_not_found",
        "image_file_too_large",
        "image_parse_error",
        "image_too_large",
        "image_too_small",
        "invalid_base64_image",
        "invalid_image",
        "invalid_image_format",
        "invalid_image_mode",
        "invalid_image_url",
        "invalid_prompt",
        "misalignment_policy_violation",
        "unsupported_image_media_type",
    }
)
"""Codes of a failed response that are the request's fault (responses/response_error.py); so
are others that begin with `invalid_`."""

_FAILED_AS = {
    FaultKind.INVALID_REQUEST: "invalid_prompt",
    FaultKind.CONTEXT_TOO_LONG: "context_length_exceeded",
    FaultKind.PAYMENT_REQUIRED: "insufficient_quota",
    FaultKind.RATE_LIMITED: "rate_limit_exceeded",
    FaultKind.OVERLOADED: "server_is_overloaded",
}
"""Code of a failed response for each kind; `server_error` for the others. Clients compact the
conversation, wait or give up by it."""

_TOO_LONG_SIGNS = ("maximum context length", "context window")


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """The fault in an upstream's error answer (`headers` with lower-case names)."""
    read = read_error_body(body)
    value = read.value
    error = value.get("error", value) if isinstance(value, dict) else read.plain
    return fault_of(error, status, retry_after(headers), read.report)


def fault_of(
    error: Any,
    status: int | None = None,
    retry_after: float | None = None,
    report: ErrorReport | None = None,
) -> Fault:
    """The fault an error object or text tells of; `status` is None inside a stream or a failed
    response. `report` is that of the whole body, where the object is in one.
    """
    report = report or report_of(error)
    if not isinstance(error, dict):
        error = {"message": error}
    message = _word(error, "message") or _word(error, "detail")
    if not message:
        message = f"The upstream answered with status {status}." if status else "Upstream error."
    code, told = _word(error, "code"), _word(error, "type")
    if told == _USED_UP:
        code = code or told
        retry_after = _resets(error) if retry_after is None else retry_after
    if code in _BY_CODE or told not in _SPENT:
        told = code or told
    kind = _kind(told or "", status, message)
    shown, _, usual_code = _SHOWN[kind]
    own = status if status is not None and 400 <= status < 500 else None
    misalignment = error.get("misalignment")
    return Fault(
        kind,
        message,
        param=_word(error, "param"),
        code=code or usual_code,
        status=None if own == shown else own,
        retry_after=retry_after,
        details={"misalignment": misalignment} if isinstance(misalignment, dict) else None,
        report=report,
    )


def _resets(error: Mapping[str, Any]) -> float | None:
    """Seconds until a subscription's window begins anew."""
    seconds = error.get("resets_in_seconds")
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return None
    return float(seconds) if 0 <= seconds < 1e9 else None


def _word(error: Mapping[str, Any], name: str) -> str | None:
    value = error.get(name)
    return value if isinstance(value, str) and value else None


def _kind(code: str, status: int | None, message: str) -> FaultKind:
    if status == 429:
        return FaultKind.PAYMENT_REQUIRED if code in _SPENT else FaultKind.RATE_LIMITED
    by_code = _BY_CODE.get(code)
    if status is None:
        if by_code is None and (code in _CLIENT_CODES or code.startswith("invalid_")):
            by_code = FaultKind.INVALID_REQUEST
        return by_code or FaultKind.UPSTREAM_FAILED
    if status in (400, 404) and by_code is not None:
        return by_code
    by_status = _BY_STATUS.get(status)
    if by_status is not None:
        return by_status
    if not 400 <= status < 500:
        return FaultKind.UPSTREAM_FAILED
    lowered = message.lower()
    if any(sign in lowered for sign in _TOO_LONG_SIGNS):
        return FaultKind.CONTEXT_TOO_LONG
    return FaultKind.INVALID_REQUEST


_OPEN_RESPONSES = {
    FaultKind.NOT_FOUND: (404, "not_found"),
    FaultKind.MODEL_NOT_FOUND: (404, "not_found"),
    FaultKind.METHOD_NOT_ALLOWED: (405, "invalid_request"),
    FaultKind.TOO_LARGE: (413, "invalid_request"),
    FaultKind.UNSUPPORTED_MEDIA_TYPE: (415, "invalid_request"),
    FaultKind.PAYMENT_REQUIRED: (429, "too_many_requests"),
    FaultKind.RATE_LIMITED: (429, "too_many_requests"),
    FaultKind.UPSTREAM_FAILED: (500, "model_error"),
}
"""Status and type where errors have the names of Open Responses (its specification, "Errors")."""


def _open_responses(fault: Fault) -> tuple[int, str]:
    """Status and type of a fault in the names of Open Responses, which knows five."""
    named = _OPEN_RESPONSES.get(fault.kind)
    if named is not None:
        return named
    if _SHOWN[fault.kind][0] >= 500:
        return 500, "server_error"
    return 401 if fault.kind is FaultKind.UNAUTHENTICATED else 400, "invalid_request"


def error_object(fault: Fault, options: Options = OFFICIAL) -> JsonObject:
    """The `error` member of an error body or event.

    `param` and `code` are always strings: @ai-sdk/open-responses shows no other errors.
    """
    _, kind, code = _SHOWN[fault.kind]
    if options.of(ResponsesOptions).error_style == "openresponses":
        kind = _open_responses(fault)[1]
    error: JsonObject = {
        "message": fault.message,
        "type": kind,
        "param": fault.param or "",
        "code": fault.code or code,
    }
    if fault.details is not None and "misalignment" in fault.details:
        error["misalignment"] = fault.details["misalignment"]
    return error


def failed_object(fault: Fault, options: Options = OFFICIAL) -> JsonObject:
    """The `error` member of a failed response."""
    code = _FAILED_AS.get(fault.kind, "server_error")
    if fault.code in _CLIENT_CODES or fault.code in _BY_CODE:
        code = fault.code
    kind = error_object(fault, options)["type"]
    return {"code": code, "message": fault.message, "type": kind}


def write_error(fault: Fault, request_id: str, options: Options = OFFICIAL) -> Rendered:
    """The status and body of a fault. The request id has its place in a header."""
    if options.of(ResponsesOptions).error_style == "openresponses":
        status, _ = _open_responses(fault)
        return Rendered(status, {"error": error_object(fault, options)})
    status = _SHOWN[fault.kind][0]
    if fault.status is not None and fault.kind not in _OWN_STATUS:
        status = fault.status
    return Rendered(status, {"error": error_object(fault)})
