"""Errors of OpenAI's protocols: `{"error": {"message", "type", "param", "code"}}`.

Shape: shared/error_object.py; statuses, types and codes: OpenAI's guide to error codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dragoman.canonical.errors import ErrorReport, Fault, FaultKind
from dragoman.canonical.options import Options
from dragoman.protocols.base import OFFICIAL
from dragoman.protocols.error_body import error_in, error_reader, report_of
from dragoman.protocols.faults import FIXED_STATUS, client_status, kind_of, message_of

_USED_UP = "usage_limit_reached"
"""Type of the error, which has no code, for a used-up window of a ChatGPT subscription."""

_TOO_LONG = "context_length_exceeded"
"""The code by which clients recognise it, whatever the upstream's is."""

_READ = frozenset({"message", "type", "param", "code", "detail", "object", "sequence_number"})
_OF_ACCOUNT = frozenset({"plan_type", "resets_at", "resets_in_seconds"})
"""Members about the account; they are not for clients."""

REASONING_REFUSALS = ("invalid_encrypted_content", "encrypted content", "encrypted_content")
"""Error codes and texts for encrypted reasoning that cannot be decrypted."""


def fault_of(
    error: Any,
    status: int | None = None,
    retry_after: float | None = None,
    report: ErrorReport | None = None,
) -> Fault:
    """The fault for an error object or text.

    `status` is None inside a stream or an answer of status 200; then a numeric code is the status,
    as routers send it. `report` is the one of the whole body, if the object is in one."""
    report = report or report_of(error)
    error = error_in(error)
    code, word = error.get("code"), error.get("type")
    if status is None and type(code) is int and 400 <= code <= 599:
        status = code
    if word == _USED_UP:
        code = code or word
        retry_after = _resets(error) if retry_after is None else retry_after
    message = message_of(error, status)
    kind = kind_of(status, (code, word), message)
    is_long = kind is FaultKind.CONTEXT_TOO_LONG
    param = error.get("param")
    details = {
        name: value
        for name, value in error.items()
        if name not in _READ and name not in _OF_ACCOUNT
    }
    return Fault(
        kind,
        message,
        param=param if type(param) is str and param else None,
        code=_TOO_LONG if is_long else code if type(code) is str and code else None,
        status=client_status(kind, status),
        retry_after=retry_after,
        details=details or None,
        report=report,
    )


read_error = error_reader(fault_of)
"""The fault in an upstream's error answer (status, headers with lower-case names, body)."""


def _resets(error: Mapping[str, Any]) -> float | None:
    """Seconds until a subscription's window begins anew."""
    seconds = error.get("resets_in_seconds")
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return None
    return float(seconds) if 0 <= seconds < 1e9 else None


class Form(NamedTuple):
    """The rendering of a kind of fault: `code` is used if the fault has none of its own, and an
    `optional` one only if the protocol's clients require a code."""

    status: int
    type: str
    code: str
    optional: bool = False


_INVALID = "invalid_request_error"
_UNAVAILABLE = "service_unavailable_error"

FORMS: Mapping[FaultKind, Form] = {
    FaultKind.INVALID_REQUEST: Form(400, _INVALID, "invalid_request", optional=True),
    FaultKind.CONTEXT_TOO_LONG: Form(400, _INVALID, "context_length_exceeded"),
    FaultKind.POLICY_BLOCKED: Form(400, _INVALID, "policy_blocked"),
    FaultKind.UNAUTHENTICATED: Form(401, _INVALID, "invalid_api_key"),
    FaultKind.PAYMENT_REQUIRED: Form(429, "insufficient_quota", "insufficient_quota"),
    FaultKind.FORBIDDEN: Form(403, "permission_error", "permission_denied", optional=True),
    FaultKind.NOT_FOUND: Form(404, _INVALID, "not_found", optional=True),
    FaultKind.MODEL_NOT_FOUND: Form(404, _INVALID, "model_not_found"),
    FaultKind.METHOD_NOT_ALLOWED: Form(405, _INVALID, "method_not_allowed", optional=True),
    FaultKind.REQUEST_TIMEOUT: Form(408, _INVALID, "request_timeout"),
    FaultKind.CONFLICT: Form(409, _INVALID, "conflict", optional=True),
    FaultKind.TOO_LARGE: Form(413, _INVALID, "request_too_large", optional=True),
    FaultKind.UNSUPPORTED_MEDIA_TYPE: Form(415, _INVALID, "unsupported_media_type", optional=True),
    FaultKind.UNPROCESSABLE: Form(422, _INVALID, "unprocessable_entity", optional=True),
    FaultKind.UPGRADE_REQUIRED: Form(426, _INVALID, "upgrade_required", optional=True),
    FaultKind.RATE_LIMITED: Form(429, "rate_limit_error", "rate_limit_exceeded"),
    FaultKind.INTERNAL: Form(500, "server_error", "internal_error", optional=True),
    FaultKind.UPSTREAM_FAILED: Form(502, "server_error", "upstream_error"),
    FaultKind.NO_ACCOUNT: Form(503, _UNAVAILABLE, "no_account_available"),
    FaultKind.OVERLOADED: Form(503, _UNAVAILABLE, "server_is_overloaded"),
    FaultKind.UPSTREAM_TIMEOUT: Form(504, "server_error", "timeout"),
}
"""The rendering of each kind. A payment problem is 429: the SDKs do not know 402."""


def shown_type(fault: Fault) -> str:
    """The type of a fault. A rate limit's type names what it counts (OpenAI's guide to rate
    limits)."""
    if fault.kind is FaultKind.RATE_LIMITED and fault.limited in ("requests", "tokens"):
        return fault.limited
    return FORMS[fault.kind].type


def shown_status(fault: Fault, options: Options = OFFICIAL) -> int:
    """The status of a fault: the upstream's own, or one that its client needs, if it is set."""
    if fault.limited == "budget" and fault.status is None and options.budget_status is not None:
        return options.budget_status
    if fault.status is None or fault.kind in FIXED_STATUS:
        return FORMS[fault.kind].status
    return fault.status
