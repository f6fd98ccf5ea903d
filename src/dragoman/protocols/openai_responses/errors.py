"""Errors as Responses clients see them.

Inside a stream the `error` event has the error both nested and flat, since some clients read only
one of them."""

from __future__ import annotations

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.options import Options
from dragoman.protocols.base import OFFICIAL, Rendered
from dragoman.protocols.faults import REQUEST_CODES
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_errors import FORMS, shown_status, shown_type
from dragoman.protocols.openai_responses.settings import ResponsesOptions
from dragoman.protocols.retrying import BROKEN_CODES, OVERLOADED_TYPE, worded_for_stream

_FAILED_AS = {
    FaultKind.INVALID_REQUEST: "invalid_prompt",
    FaultKind.CONTEXT_TOO_LONG: "context_length_exceeded",
    FaultKind.POLICY_BLOCKED: "invalid_prompt",
    FaultKind.PAYMENT_REQUIRED: "insufficient_quota",
    FaultKind.RATE_LIMITED: "rate_limit_exceeded",
    FaultKind.OVERLOADED: "server_is_overloaded",
}
"""Code of a failed response for each kind; `server_error` for the others. Clients compact the
conversation, wait or give up by it."""

_FAILED_CODES = REQUEST_CODES | {
    "billing_hard_limit_reached",
    "context_length_exceeded",
    "credit_balance_exhausted",
    "insufficient_quota",
    "model_not_found",
    "organization_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "project_spend_limit_exceeded",
    "rate_limit_exceeded",
    "server_error",
    "server_is_overloaded",
    "slow_down",
    "usage_limit_reached",
    "vector_store_timeout",
}
"""Upstream codes that a failed response shows unchanged."""

_OVERLOADED_CODES = ("server_is_overloaded", "slow_down")

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
    if FORMS[fault.kind].status >= 500:
        return 500, "server_error"
    return 401 if fault.kind is FaultKind.UNAUTHENTICATED else 400, "invalid_request"


def error_object(fault: Fault, options: Options = OFFICIAL) -> JsonObject:
    """The `error` member of an error body or event.

    `param` and `code` are always strings: @ai-sdk/open-responses shows no other errors.
    """
    form = FORMS[fault.kind]
    kind = shown_type(fault)
    code = fault.code or form.code
    if fault.kind is FaultKind.NO_ACCOUNT:
        # Of other codes Codex tries again by two counters, one within the other.
        code = "server_is_overloaded"
    if options.of(ResponsesOptions).error_style == "openresponses":
        kind = _open_responses(fault)[1]
    error: JsonObject = {
        "message": fault.message,
        "type": kind,
        "param": fault.param or "",
        "code": code,
    }
    if fault.limited == "budget" and fault.details is not None:
        error.update(fault.details)
    if fault.details is not None and "misalignment" in fault.details:
        error["misalignment"] = fault.details["misalignment"]
    return error


def failed_object(fault: Fault, options: Options = OFFICIAL) -> JsonObject:
    """The `error` member of a failed response."""
    code = _FAILED_AS.get(fault.kind, "server_error")
    if fault.code in _FAILED_CODES:
        code = fault.code
    kind = error_object(fault, options)["type"]
    return {"code": code, "message": fault.message, "type": kind}


def error_members(fault: Fault, options: Options = OFFICIAL) -> JsonObject:
    """The members of the `error` event that ends a stream."""
    error = error_object(worded_for_stream(fault), options)
    error["code"] = BROKEN_CODES.get(fault.kind, error["code"])
    if fault.kind in (FaultKind.OVERLOADED, FaultKind.NO_ACCOUNT):
        error["type"] = OVERLOADED_TYPE
    flat = {name: error[name] for name in ("code", "message", "param")}
    return {**flat, "error": error}


def failed_in_stream(fault: Fault, options: Options = OFFICIAL) -> JsonObject:
    """The `error` member of a failed response that ends a stream.

    Codex does not retry an error with the overload code.
    """
    failed = failed_object(worded_for_stream(fault), options)
    if failed["code"] in _OVERLOADED_CODES:
        failed["code"] = "server_error"
    return failed


def write_error(fault: Fault, request_id: str, options: Options = OFFICIAL) -> Rendered:
    """The status and body of a fault. The request id has its place in a header."""
    if options.of(ResponsesOptions).error_style == "openresponses":
        status, _ = _open_responses(fault)
        return Rendered(status, {"error": error_object(fault, options)})
    return Rendered(shown_status(fault, options), {"error": error_object(fault)})
