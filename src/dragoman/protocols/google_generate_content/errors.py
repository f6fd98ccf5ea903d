"""Errors as a client sees them (google/rpc/status.proto, google/rpc/error_details.proto)."""

from __future__ import annotations

import math
from typing import Any

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.options import Options
from dragoman.jsontext import JsonError, decode
from dragoman.protocols.base import OFFICIAL, AnswerNames, Rendered, to_json
from dragoman.protocols.error_body import is_readable
from dragoman.protocols.faults import FIXED_STATUS
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_errors import too_long
from dragoman.protocols.retrying import worded_for_stream
from dragoman.sse import encode

_ARGUMENT, _UNAVAILABLE = "INVALID_ARGUMENT", "UNAVAILABLE"
_EXHAUSTED = "RESOURCE_EXHAUSTED"

_SHOWN: dict[FaultKind, tuple[int, str]] = {
    FaultKind.INVALID_REQUEST: (400, _ARGUMENT),
    FaultKind.CONTEXT_TOO_LONG: (400, _ARGUMENT),
    FaultKind.POLICY_BLOCKED: (400, _ARGUMENT),
    FaultKind.UNAUTHENTICATED: (401, "UNAUTHENTICATED"),
    FaultKind.PAYMENT_REQUIRED: (429, _EXHAUSTED),
    FaultKind.FORBIDDEN: (403, "PERMISSION_DENIED"),
    FaultKind.NOT_FOUND: (404, "NOT_FOUND"),
    FaultKind.MODEL_NOT_FOUND: (404, "NOT_FOUND"),
    FaultKind.METHOD_NOT_ALLOWED: (405, _ARGUMENT),
    FaultKind.REQUEST_TIMEOUT: (408, "DEADLINE_EXCEEDED"),
    FaultKind.CONFLICT: (409, "ABORTED"),
    FaultKind.TOO_LARGE: (413, _ARGUMENT),
    FaultKind.UNSUPPORTED_MEDIA_TYPE: (415, _ARGUMENT),
    FaultKind.UNPROCESSABLE: (422, _ARGUMENT),
    FaultKind.UPGRADE_REQUIRED: (426, "FAILED_PRECONDITION"),
    FaultKind.RATE_LIMITED: (429, _EXHAUSTED),
    FaultKind.INTERNAL: (500, "INTERNAL"),
    FaultKind.UPSTREAM_FAILED: (502, _UNAVAILABLE),
    FaultKind.NO_ACCOUNT: (503, _UNAVAILABLE),
    FaultKind.OVERLOADED: (503, _UNAVAILABLE),
    FaultKind.UPSTREAM_TIMEOUT: (504, "DEADLINE_EXCEEDED"),
}
"""HTTP status and `status` of each kind."""

_BUDGET_STATUSES = {400: "FAILED_PRECONDITION", 402: _EXHAUSTED, 403: "PERMISSION_DENIED"}
"""The `status` that belongs to each status of a spent budget, where it is another."""

_TYPE = "type.googleapis.com/google.rpc."
_DOMAIN = "dragoman"

_LONG_WAIT_S = 300
"""Seconds from which on a client should not wait: Gemini CLI takes longer ones for a day's quota
that is used up, if the violation says so."""


def write_error(fault: Fault, request_id: str, options: Options = OFFICIAL) -> Rendered:
    """The status and body of a fault."""
    status = _status_of(fault)
    word = _SHOWN[fault.kind][1]
    if fault.limited == "budget" and options.budget_status is not None:
        status = options.budget_status
        word = _BUDGET_STATUSES.get(status, word)
    return Rendered(status, {"error": _error_object(fault, status, word, request_id)})


def error_frame(fault: Fault, request_id: str = "") -> bytes:
    """The frame that ends a failed stream."""
    worded = worded_for_stream(fault)
    error = _error_object(worded, _status_of(fault), _SHOWN[fault.kind][1], request_id)
    return encode(to_json({"error": error}))


def _status_of(fault: Fault) -> int:
    if fault.status is None or fault.kind in FIXED_STATUS or not 400 <= fault.status <= 599:
        return _SHOWN[fault.kind][0]
    return fault.status


def _error_object(fault: Fault, status: int, word: str, request_id: str) -> JsonObject:
    details: list[JsonObject] = []
    message = fault.message
    if fault.kind is FaultKind.CONTEXT_TOO_LONG:
        message = too_long(message)
    if fault.kind is FaultKind.PAYMENT_REQUIRED or fault.limited == "budget" or _is_long(fault):
        violation = {"quotaId": "BudgetPerDay", "quotaMetric": f"{_DOMAIN}/budget"}
        details.append({"@type": f"{_TYPE}QuotaFailure", "violations": [violation]})
    if fault.retry_after is not None:
        seconds = max(1, math.ceil(fault.retry_after))
        details.append({"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{seconds}s"})
        if status == 429:
            message = f"{message} Please retry in {seconds}s."
    if fault.param is not None and status < 429:
        violation = {"field": fault.param, "description": fault.message}
        details.append({"@type": f"{_TYPE}BadRequest", "fieldViolations": [violation]})
    if fault.code:
        details.append(_info(fault.code.upper()))
    if request_id:
        details.append({"@type": f"{_TYPE}RequestInfo", "requestId": request_id})
    return {"code": status, "message": message, "status": word, "details": details}


def _info(reason: str) -> JsonObject:
    return {"@type": f"{_TYPE}ErrorInfo", "reason": reason, "domain": _DOMAIN}


def _is_long(fault: Fault) -> bool:
    after = fault.retry_after
    return fault.kind is FaultKind.RATE_LIMITED and after is not None and after > _LONG_WAIT_S


_INTERNAL = b"google.rpc.DebugInfo"
"""The type of details that are not for clients: they quote what the server was sent, keys too."""


def is_own_error(body: bytes) -> bool:
    """Whether a body is an error as its clients read it, an object or the one of an array, with
    nothing in it that is not for them."""
    value = _object_in(body)
    error = value.get("error")
    if not isinstance(error, dict) or _INTERNAL in body:
        return False
    return is_readable(error) and type(error.get("code")) is int


def answer_names(data: bytes) -> AnswerNames:
    """What an answer is known by: `responseId` and `modelVersion`."""
    value = _object_in(data)
    name, model = value.get("responseId"), value.get("modelVersion")
    return AnswerNames(
        name if isinstance(name, str) else "", model if isinstance(model, str) else ""
    )


def _object_in(body: bytes) -> dict[str, Any]:
    """The object that a body is, or the first one of its array."""
    try:
        value = decode(body)
    except JsonError:
        return {}
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, dict) else {}
