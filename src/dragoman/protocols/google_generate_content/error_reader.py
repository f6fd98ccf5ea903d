"""An upstream's errors (`google.rpc.Status`) as faults.

Sources: "Gemini API troubleshooting"; `google/rpc/error_details.proto`. A refused key is a 400; a
quota of a day has the same status, and the same short delay, as a limit of a minute, and is known
by the name of the quota."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from dragoman.canonical.errors import ErrorReport, Fault, FaultKind
from dragoman.failing import retry_after
from dragoman.protocols.error_body import error_in, read_error_body, report_of
from dragoman.protocols.faults import OPENAI_CODES, client_status, kind_of, message_of
from dragoman.protocols.fields import JsonObject

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


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """The fault in an upstream's error answer (`headers` with lower-case names)."""
    read = read_error_body(body)
    return fault_of(read.error, status, retry_after(headers), read.report)


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
