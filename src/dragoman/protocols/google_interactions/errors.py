"""Errors, both ways: `{"error": {"code", "message"}}`, with a word for a code.

Source: ai.google.dev, "Interactions API", errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from dragoman.canonical.errors import ErrorReport, Fault, FaultKind
from dragoman.canonical.options import Options
from dragoman.jsontext import object_of
from dragoman.protocols.base import OFFICIAL, Rendered, to_json
from dragoman.protocols.error_body import error_in, error_reader, is_readable, report_of
from dragoman.protocols.faults import (
    FIXED_STATUS,
    OPENAI_CODES,
    client_status,
    kind_of,
    message_of,
)
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_errors import too_long
from dragoman.protocols.google_interactions import wire
from dragoman.protocols.retrying import worded_for_stream
from dragoman.sse import encode

FILTERED: Final = "content_filter"
"""The code of the error for a request or an answer that a filter withheld, in all protocols."""

_SHOWN: Final[dict[FaultKind, tuple[int, str]]] = {
    FaultKind.INVALID_REQUEST: (400, "invalid_request"),
    FaultKind.CONTEXT_TOO_LONG: (400, "invalid_request"),
    FaultKind.POLICY_BLOCKED: (400, "invalid_request"),
    FaultKind.UNAUTHENTICATED: (401, "authentication"),
    FaultKind.PAYMENT_REQUIRED: (429, "quota_exceeded"),
    FaultKind.FORBIDDEN: (403, "permission_denied"),
    FaultKind.NOT_FOUND: (404, "not_found"),
    FaultKind.MODEL_NOT_FOUND: (404, "model_not_found"),
    FaultKind.METHOD_NOT_ALLOWED: (405, "unimplemented"),
    FaultKind.REQUEST_TIMEOUT: (408, "deadline_exceeded"),
    FaultKind.CONFLICT: (409, "aborted"),
    FaultKind.TOO_LARGE: (413, "invalid_request"),
    FaultKind.UNSUPPORTED_MEDIA_TYPE: (415, "invalid_request"),
    FaultKind.UNPROCESSABLE: (422, "invalid_request"),
    FaultKind.UPGRADE_REQUIRED: (426, "failed_precondition"),
    FaultKind.RATE_LIMITED: (429, "rate_limit_exceeded"),
    FaultKind.INTERNAL: (500, "api_error"),
    FaultKind.UPSTREAM_FAILED: (502, "api_error"),
    FaultKind.NO_ACCOUNT: (503, "service_unavailable"),
    FaultKind.OVERLOADED: (503, "service_unavailable"),
    FaultKind.UPSTREAM_TIMEOUT: (504, "deadline_exceeded"),
}
"""HTTP status and code of each kind."""

_OWN_CODES: Final = frozenset(
    {
        *("parameter_unknown", "failed_precondition", "already_exists", "aborted"),
        *("out_of_range", "too_many_requests", "cancelled", "unimplemented"),
        *wire.BLOCKED,
    }
)
"""Codes of the protocol that a fault may name more exactly than its kind does."""

_BUDGET_STATUSES: Final = {402: "payment_required", 403: "permission_denied"}

_MEANINGS: Final[Mapping[str, tuple[FaultKind, int]]] = {
    "parameter_unknown": (FaultKind.INVALID_REQUEST, 400),
    "failed_precondition": (FaultKind.INVALID_REQUEST, 400),
    "authentication": (FaultKind.UNAUTHENTICATED, 401),
    "payment_required": (FaultKind.PAYMENT_REQUIRED, 402),
    "permission_denied": (FaultKind.FORBIDDEN, 403),
    "not_found": (FaultKind.NOT_FOUND, 404),
    "model_not_found": (FaultKind.MODEL_NOT_FOUND, 404),
    "already_exists": (FaultKind.CONFLICT, 409),
    "aborted": (FaultKind.CONFLICT, 409),
    "out_of_range": (FaultKind.INVALID_REQUEST, 416),
    "rate_limit_exceeded": (FaultKind.RATE_LIMITED, 429),
    "too_many_requests": (FaultKind.RATE_LIMITED, 429),
    "quota_exceeded": (FaultKind.PAYMENT_REQUIRED, 429),
    "cancelled": (FaultKind.UPSTREAM_FAILED, 499),
    "unimplemented": (FaultKind.INVALID_REQUEST, 501),
    "service_unavailable": (FaultKind.OVERLOADED, 503),
    "deadline_exceeded": (FaultKind.UPSTREAM_TIMEOUT, 504),
    **dict.fromkeys(wire.BLOCKED, (FaultKind.INVALID_REQUEST, 400)),
}
"""What the codes of the services mean; others, as `api_error`, are unspecific."""


# --- to clients -----------------------------------------------------------------------------------


def write_error(fault: Fault, request_id: str, options: Options = OFFICIAL) -> Rendered:
    """The status and body of a fault."""
    status = _status_of(fault)
    error = error_object(fault)
    if fault.limited == "budget" and options.budget_status is not None:
        status = options.budget_status
        error["code"] = _BUDGET_STATUSES.get(status, error["code"])
    return Rendered(status, {"error": error})


def _status_of(fault: Fault) -> int:
    if fault.status is None or fault.kind in FIXED_STATUS or not 400 <= fault.status <= 599:
        return _SHOWN[fault.kind][0]
    return fault.status


def error_object(fault: Fault) -> JsonObject:
    """The error object of a fault."""
    code = fault.code or ""
    if code == FILTERED:
        code = wire.CONTENT_BLOCKED
    elif code not in _OWN_CODES:
        code = _SHOWN[fault.kind][1]
    is_long = fault.kind is FaultKind.CONTEXT_TOO_LONG
    return {"code": code, "message": too_long(fault.message) if is_long else fault.message}


def error_in_stream(fault: Fault) -> JsonObject:
    """The members of the event that ends a failed stream."""
    return {"error": error_object(worded_for_stream(fault))}


END: Final = encode(b"[DONE]", b"done")
"""The last frame of every stream."""


def blocked(category: str | None) -> Fault:
    """The fault for an answer that a filter withheld."""
    word = (category or "").lower()
    code = word if word in wire.BLOCKED else wire.CONTENT_BLOCKED
    message = f"The answer was withheld by a filter ({code})."
    return Fault(FaultKind.INVALID_REQUEST, message, code=code, status=400)


def is_own_error(body: bytes) -> bool:
    """Whether a body is an error as its clients read it."""
    error = (object_of(body) or {}).get("error")
    return isinstance(error, dict) and is_readable(error) and type(error.get("code")) is str


# --- from upstreams -------------------------------------------------------------------------------


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
    code = error.get("code")
    word = code if type(code) is str else ""
    meant = _MEANINGS.get(word)
    message = message_of(error, status)
    if status is None and meant is not None:
        status = meant[1]
    kind = kind_of(status, (word,), message)
    if meant is not None and kind in (
        FaultKind.INVALID_REQUEST,
        FaultKind.UPSTREAM_FAILED,
        FaultKind.RATE_LIMITED,
        FaultKind.NOT_FOUND,
    ):
        kind = meant[0]
    if kind is FaultKind.PAYMENT_REQUIRED:
        # In the words of the rules of accounts: it has no more for a long time.
        report = replace(report, words=(OPENAI_CODES[kind], *report.words))
    shown = FILTERED if word in wire.BLOCKED else OPENAI_CODES.get(kind) or word or None
    return Fault(
        kind,
        message,
        code=shown,
        status=client_status(kind, status) if kind is not FaultKind.UNAUTHENTICATED else None,
        retry_after=retry_after,
        report=report,
    )


read_error = error_reader(fault_of)
"""The fault in an upstream's error answer (status, headers with lower-case names, body)."""


def code_of(error: Any) -> str:
    """The code of an error object, empty if it has none."""
    code = error_in(error).get("code")
    return code if type(code) is str else ""


def frame(event: JsonObject) -> bytes:
    """An event as a frame, named by its type."""
    return encode(to_json(event), str(event["event_type"]).encode())
