"""Errors, both ways: `{"error": {"message", "type", "param", "code"}}`.

Status, type and code are those of protocols in use (OpenAI's error guide, `openai/_client.py`,
`types/shared/error_object.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from dragoman.canonical.errors import ErrorReport, Fault, FaultKind
from dragoman.canonical.options import Options
from dragoman.failing import retry_after
from dragoman.protocols.base import OFFICIAL, Rendered, to_json
from dragoman.protocols.error_body import read_error_body, report_of
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat import wire
from dragoman.sse import DONE, encode

# --- reading ------------------------------------------------------------------------------------

_BY_STATUS = {
    400: FaultKind.INVALID_REQUEST,
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
    524: FaultKind.UPSTREAM_TIMEOUT,
    529: FaultKind.OVERLOADED,
}

_BY_WORD = {
    "context_length_exceeded": FaultKind.CONTEXT_TOO_LONG,
    "model_not_found": FaultKind.MODEL_NOT_FOUND,
    "insufficient_quota": FaultKind.PAYMENT_REQUIRED,
    "credit_balance_exhausted": FaultKind.PAYMENT_REQUIRED,
    "billing_hard_limit_reached": FaultKind.PAYMENT_REQUIRED,
    "organization_spend_limit_exceeded": FaultKind.PAYMENT_REQUIRED,
    "organization_usage_limit_exceeded": FaultKind.PAYMENT_REQUIRED,
    "project_spend_limit_exceeded": FaultKind.PAYMENT_REQUIRED,
    "invalid_api_key": FaultKind.UNAUTHENTICATED,
    "authentication_error": FaultKind.UNAUTHENTICATED,
    "permission_error": FaultKind.FORBIDDEN,
    "rate_limit_exceeded": FaultKind.RATE_LIMITED,
    "rate_limit_error": FaultKind.RATE_LIMITED,
    "server_is_overloaded": FaultKind.OVERLOADED,
    "slow_down": FaultKind.OVERLOADED,
    "overloaded_error": FaultKind.OVERLOADED,
    "service_unavailable_error": FaultKind.OVERLOADED,
    "timeout": FaultKind.UPSTREAM_TIMEOUT,
    "invalid_request_error": FaultKind.INVALID_REQUEST,
}
"""Kinds by `code`, then by `type`, for errors that come without a status of their own."""

_REFINES = {
    400: ("context_length_exceeded", "model_not_found", "insufficient_quota"),
    403: ("insufficient_quota", "credit_balance_exhausted"),
    404: ("model_not_found",),
    413: ("context_length_exceeded",),
    429: (
        "insufficient_quota",
        "credit_balance_exhausted",
        "billing_hard_limit_reached",
        "organization_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "project_spend_limit_exceeded",
    ),
}
"""Words that say more than the status they come with."""

_TOO_LONG = re.compile(r"maximum context length|context (window|length)|prompt is too long", re.I)
_OWN_MEMBERS = frozenset({"message", "type", "param", "code", "detail", "object"})
_MAX_MESSAGE = 4096


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """What an upstream's error answer says.

    The message is kept, and the status if it puts the request at fault, except where each client
    protocol has one of its own for the kind (payment).
    """
    read = read_error_body(body)
    error = read.plain or read.value
    if isinstance(error, dict):
        # Some servers put the members at the top level.
        error = error.get("error") or error
    fault = read_error_object(error, status, read.report)
    if not fault.message:
        fault = _with_message(fault, f"The upstream answered with status {status}.")
    wait = retry_after(headers)
    return msgspec.structs.replace(fault, retry_after=wait) if wait else fault


def read_error_object(
    error: Any, status: int | None = None, report: ErrorReport | None = None
) -> Fault:
    """The fault in the `error` member of an answer, a stream frame, or an error body.

    `error` is an object, or with some servers a string. Without a `status` the kind is taken
    from the code (a number is a status, as routers send it), else from the type. `report` is that
    of the whole body, where the member is in one.
    """
    report = report or report_of(error)
    if type(error) is not dict:
        error = {"message": error if type(error) is str else ""}
    message = error.get("message") or error.get("detail") or ""
    message = message if type(message) is str else to_json(message).decode()
    code, kind_word = error.get("code"), error.get("type")
    if status is None and type(code) is int and 400 <= code <= 599:
        status = code
    words = [word for word in (code, kind_word) if type(word) is str]
    kind = _kind(status, words, message)
    details = {name: value for name, value in error.items() if name not in _OWN_MEMBERS}
    return Fault(
        kind,
        message[:_MAX_MESSAGE] or ("" if status else "The upstream reported an error."),
        param=error["param"] if type(error.get("param")) is str else None,
        code=code if type(code) is str else None,
        status=_kept_status(kind, status),
        details=details or None,
        report=report,
    )


def is_failure(reason: Any) -> bool:
    """Whether a finish reason says that the answer is not whole."""
    return type(reason) is str and reason.lower() in wire.FAILURE_WORDS


def failure(reason: str) -> Fault:
    """The fault that such a finish reason stands for."""
    message = f"The upstream stopped with the reason {reason}."
    return Fault(FaultKind.UPSTREAM_FAILED, message, code="upstream_error")


def _kind(status: int | None, words: list[str], message: str) -> FaultKind:
    if status is None:
        known = [_BY_WORD[word] for word in words if word in _BY_WORD]
        return known[0] if known else FaultKind.UPSTREAM_FAILED
    refined = [_BY_WORD[word] for word in words if word in _REFINES.get(status, ())]
    if refined:
        return refined[0]
    if status in (400, 413) and _TOO_LONG.search(message):
        return FaultKind.CONTEXT_TOO_LONG
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return FaultKind.INVALID_REQUEST if 400 <= status < 500 else FaultKind.UPSTREAM_FAILED


def _kept_status(kind: FaultKind, status: int | None) -> int | None:
    if status is None or kind in _OWN_STATUS or not 400 <= status < 500:
        return None
    return status


_OWN_STATUS = frozenset(
    {
        FaultKind.PAYMENT_REQUIRED,
        FaultKind.OVERLOADED,
        FaultKind.NO_ACCOUNT,
        FaultKind.UPSTREAM_TIMEOUT,
    }
)
"""Kinds whose status depends on the client's protocol alone."""


def _with_message(fault: Fault, message: str) -> Fault:
    return msgspec.structs.replace(fault, message=message)


# --- writing ------------------------------------------------------------------------------------


class _Form(NamedTuple):
    status: int
    type: str
    code: str | None = None


_INVALID = "invalid_request_error"
_UNAVAILABLE = "service_unavailable_error"

FORMS: dict[FaultKind, _Form] = {
    FaultKind.INVALID_REQUEST: _Form(400, _INVALID),
    FaultKind.CONTEXT_TOO_LONG: _Form(400, _INVALID, "context_length_exceeded"),
    FaultKind.UNAUTHENTICATED: _Form(401, _INVALID, "invalid_api_key"),
    FaultKind.PAYMENT_REQUIRED: _Form(429, "insufficient_quota", "insufficient_quota"),
    FaultKind.FORBIDDEN: _Form(403, "permission_error"),
    FaultKind.NOT_FOUND: _Form(404, _INVALID),
    FaultKind.MODEL_NOT_FOUND: _Form(404, _INVALID, "model_not_found"),
    FaultKind.METHOD_NOT_ALLOWED: _Form(405, _INVALID),
    FaultKind.REQUEST_TIMEOUT: _Form(408, _INVALID, "request_timeout"),
    FaultKind.CONFLICT: _Form(409, _INVALID),
    FaultKind.TOO_LARGE: _Form(413, _INVALID),
    FaultKind.UNSUPPORTED_MEDIA_TYPE: _Form(415, _INVALID),
    FaultKind.UNPROCESSABLE: _Form(422, _INVALID),
    FaultKind.UPGRADE_REQUIRED: _Form(426, _INVALID),
    FaultKind.RATE_LIMITED: _Form(429, "rate_limit_error", "rate_limit_exceeded"),
    FaultKind.INTERNAL: _Form(500, "server_error"),
    FaultKind.UPSTREAM_FAILED: _Form(502, "server_error", "upstream_error"),
    FaultKind.NO_ACCOUNT: _Form(503, _UNAVAILABLE, "no_account_available"),
    FaultKind.OVERLOADED: _Form(503, _UNAVAILABLE, "server_is_overloaded"),
    FaultKind.UPSTREAM_TIMEOUT: _Form(504, "server_error", "timeout"),
}
"""How each kind looks to a Chat client. A payment problem is 429 there: its SDKs know no 402."""


def write_error(fault: Fault, request_id: str, options: Options = OFFICIAL) -> Rendered:
    """The error as a Chat client is to see it; the request id has no place in the body."""
    form = FORMS[fault.kind]
    status = form.status if fault.status is None or fault.kind in _OWN_STATUS else fault.status
    return Rendered(status, {"error": error_object(fault)})


def error_object(fault: Fault) -> JsonObject:
    """The `error` member of a body or a stream frame."""
    form = FORMS[fault.kind]
    return {
        **(fault.details or {}),
        "message": fault.message,
        "type": form.type,
        "param": fault.param,
        "code": fault.code or form.code,
    }


def error_frames(fault: Fault) -> bytes:
    """What ends a stream that failed: the error, then the terminator, so that no reader hangs.

    The error is an object: of a string, the SDKs would not show the message.
    """
    return encode(to_json({"error": error_object(fault)})) + encode(DONE)
