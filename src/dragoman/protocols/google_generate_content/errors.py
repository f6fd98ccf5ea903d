"""Errors, both ways (google/rpc/status.proto, google/rpc/error_details.proto; "Gemini API
troubleshooting").

A refused key is a 400. A quota of a day has the same status, and the same short delay, as a limit
of a minute, and is known by the name of the quota."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from dragoman.canonical.errors import ErrorReport, Fault, FaultKind
from dragoman.canonical.options import Options
from dragoman.jsontext import JsonError, decode
from dragoman.protocols.base import OFFICIAL, AnswerNames, Rendered, to_json
from dragoman.protocols.error_body import error_in, error_reader, is_readable, report_of
from dragoman.protocols.faults import FIXED_STATUS, OPENAI_CODES, client_status, kind_of, message_of
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


_STATUS: Final[Mapping[str, int]] = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "DATA_LOSS": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
"""The HTTP status of each status of the service (google/rpc/code.proto)."""

_KEY_REASONS: Final = frozenset({"API_KEY_INVALID", "ACCESS_TOKEN_EXPIRED", "CREDENTIALS_MISSING"})
_KEY_TEXTS: Final = re.compile(r"api key not valid|api key expired|reported as leaked", re.I)
_BILLING: Final = re.compile(r"\bbilling\b", re.I)
_NOT_IN_PLAN: Final = re.compile(r"\blimit: 0\b(?!\.\d*[1-9])", re.I)
_MODEL: Final = re.compile(r"\bmodels?/|publisher model", re.I)

_OUT_OF_QUOTA: Final = OPENAI_CODES[FaultKind.PAYMENT_REQUIRED]

_DAY_S: Final = 24 * 3600
_PACIFIC: Final = "America/Los_Angeles"


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
    word = error.get("status")
    if status is None:
        status = _status_in(error, word)
    details = _Details(error.get("details"))
    message = message_of(error, status)
    kind = _kind(status, details, message)
    report = _refined(report, details, status, message)
    param = details.field
    return Fault(
        kind,
        message,
        param=param if kind is FaultKind.INVALID_REQUEST else None,
        code=OPENAI_CODES.get(kind) or details.reason or (word if type(word) is str else None),
        status=client_status(kind, status) if kind is not FaultKind.UNAUTHENTICATED else None,
        retry_after=retry_after,
        report=report,
    )


read_error = error_reader(fault_of)
"""The fault in an upstream's error answer (status, headers with lower-case names, body)."""


def _status_in(error: JsonObject, word: Any) -> int | None:
    code = error.get("code")
    if type(code) is int and 400 <= code <= 599:
        return code
    return _STATUS.get(word) if type(word) is str else None


class _Details:
    """The details of an error that are read: the reason, the quotas, and the field at fault."""

    __slots__ = ("delay", "field", "quotas", "reason", "values")

    def __init__(self, details: Any) -> None:
        self.reason = self.field = self.delay = ""
        self.quotas: list[str] = []
        self.values: list[str] = []
        """The amounts of the quotas."""
        for detail in _objects(details):
            self.reason = self.reason or _text(detail.get("reason"))
            for violation in _objects(detail.get("violations")):
                self.quotas.append(_text(violation.get("quotaId")))
                self.values.append(str(violation.get("quotaValue", "")))
            for violation in _objects(detail.get("fieldViolations")):
                self.field = self.field or _text(violation.get("field"))
            metadata = detail.get("metadata")
            if type(metadata) is dict:
                self.delay = self.delay or _text(metadata.get("quotaResetDelay"))
                self.quotas.append(_text(metadata.get("quota_limit")))

    @property
    def is_of_day(self) -> bool:
        """Whether a quota of a day is spent."""
        return any("perday" in quota.lower() for quota in self.quotas)

    @property
    def is_of_model(self) -> bool:
        """Whether all such quotas are of one model."""
        of_day = [quota.lower() for quota in self.quotas if "perday" in quota.lower()]
        return all("permodel" in quota for quota in of_day)

    @property
    def is_none(self) -> bool:
        """Whether the plan has nothing of a quota."""
        return "0" in self.values


def _kind(status: int | None, details: _Details, message: str) -> FaultKind:
    if status in (400, 401, 403) and (
        details.reason in _KEY_REASONS or _KEY_TEXTS.search(message) is not None
    ):
        return FaultKind.UNAUTHENTICATED
    if status == 429 and (
        details.is_of_day or details.is_none or _NOT_IN_PLAN.search(message) is not None
    ):
        return FaultKind.PAYMENT_REQUIRED
    if _is_billing(status, details, message):
        return FaultKind.PAYMENT_REQUIRED
    kind = kind_of(status, (), message)
    if kind is FaultKind.NOT_FOUND and _MODEL.search(message) is not None:
        return FaultKind.MODEL_NOT_FOUND
    return kind


def _is_billing(status: int | None, details: _Details, message: str) -> bool:
    if details.reason == "BILLING_DISABLED":
        return True
    return status in (400, 403) and _BILLING.search(message) is not None


def _refined(
    report: ErrorReport, details: _Details, status: int | None, message: str
) -> ErrorReport:
    """The report in the terms that the rules of accounts have: quota that is gone for the day, and
    when it is renewed."""
    words, resets = report.words, report.resets
    if not resets and details.delay:
        resets = (("retryDelay", details.delay),)
    if status == 429 and (details.is_none or _NOT_IN_PLAN.search(message) is not None):
        resets = (("resets_in_seconds", float(_DAY_S)),)
    elif status == 429 and details.is_of_day:
        # The stated delay is that of a minute's limit.
        resets = (("resets_in_seconds", seconds_to_midnight()),)
        if not details.is_of_model:
            words = (_OUT_OF_QUOTA, *words)
    elif _is_billing(status, details, message):
        words = ("billing_not_active", *words)
    if _kind(status, details, message) is FaultKind.UNAUTHENTICATED:
        words = ("api_key_invalid", *words)
    return replace(report, words=words, resets=resets)


def seconds_to_midnight() -> float:
    """Seconds to midnight in California, when quotas of a day are renewed."""
    from datetime import datetime, timedelta  # slow to import, and only for errors
    from zoneinfo import ZoneInfo

    now = datetime.now(ZoneInfo(_PACIFIC))
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return max(60.0, midnight.timestamp() - now.timestamp())


def _objects(value: Any) -> Iterator[JsonObject]:
    if type(value) is list:
        yield from (one for one in value[:20] if type(one) is dict)


def _text(value: Any) -> str:
    return value if type(value) is str else ""
