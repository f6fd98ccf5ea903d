"""What a failure of an upstream looks like, whoever the vendor is. Pure.

symptom = symptom_of_answer(status, headers, report, now)   # an answer with an error status
symptom = symptom_of_fault(fault)                           # an error inside an answer of 200
symptom = UNREACHABLE                                       # no answer at all
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from dragoman.accounts.decide.limits import limits_of
from dragoman.canonical.errors import ErrorReport, Fault, FaultKind

_LONGEST_WORD = 200
_LONGEST_TEXT = 10_000
"""Characters of an error message that rules are compared with."""
_NAMED = "x-amzn-errortype"
"""The header in which AWS names an error, commonly with a URL after it."""
_NO_HEADERS: Mapping[str, str] = {}
_NO_REPORT = ErrorReport()


class Symptom(Struct, frozen=True):
    """What a failure looks like.

    `status` is the upstream's HTTP status, 0 when there was no answer at all; `words` are its
    machine-readable types and codes, `text` is the beginning of its message, `headers` those of the
    answer by lower-case name; words, text and header values are in lower case. `retry_after` is for
    how many seconds the upstream wants to be left alone, None if it is not reported. `is_quoted`:
    what rules look for in the text are words of the request, which the upstream may have quoted."""

    status: int
    words: frozenset[str] = frozenset()
    text: str = ""
    retry_after: float | None = None
    headers: Mapping[str, str] = _NO_HEADERS
    is_quoted: bool = False


UNREACHABLE = Symptom(0)
"""There was no answer: refused, reset, or timed out."""


def symptom_of_answer(
    status: int, headers: Mapping[str, str], report: ErrorReport | None, now: float
) -> Symptom:
    """What an upstream's error answer looks like.

    `headers` have lower-case names; `report` is the content of the body (`Fault.report`); `now` is
    Unix time, which dates are measured against."""
    report = report or _NO_REPORT
    text = report.text[:_LONGEST_TEXT].lower()
    found = limits_of(status, headers, report.resets, text, now)
    named = headers.get(_NAMED, "").partition(":")[0]
    words = (*report.words, named) if named else report.words
    return Symptom(
        status,
        _lowered(words) | found.words,
        text,
        found.rest,
        {name: value.lower() for name, value in headers.items()},
    )


_STATUS_OF_KIND = {
    FaultKind.INVALID_REQUEST: 400,
    FaultKind.CONTEXT_TOO_LONG: 400,
    FaultKind.POLICY_BLOCKED: 400,
    FaultKind.UNAUTHENTICATED: 401,
    FaultKind.PAYMENT_REQUIRED: 402,
    FaultKind.FORBIDDEN: 403,
    FaultKind.NOT_FOUND: 404,
    FaultKind.MODEL_NOT_FOUND: 404,
    FaultKind.METHOD_NOT_ALLOWED: 405,
    FaultKind.REQUEST_TIMEOUT: 408,
    FaultKind.CONFLICT: 409,
    FaultKind.TOO_LARGE: 413,
    FaultKind.UNSUPPORTED_MEDIA_TYPE: 415,
    FaultKind.UNPROCESSABLE: 422,
    FaultKind.UPGRADE_REQUIRED: 426,
    FaultKind.RATE_LIMITED: 429,
    FaultKind.OVERLOADED: 529,
    FaultKind.UPSTREAM_TIMEOUT: 504,
}


def symptom_of_fault(fault: Fault, now: float | None = None) -> Symptom:
    """What an error inside an answer with status 200 looks like: as if it had its own status.

    `now` is Unix time; without it, dates in the message are ignored.
    """
    status = fault.status or _STATUS_OF_KIND.get(fault.kind, 502)
    report = fault.report or _NO_REPORT
    text = (report.text or fault.message)[:_LONGEST_TEXT].lower()
    words = report.words if fault.code is None else (fault.code, *report.words)
    wait = fault.retry_after
    if wait is None:
        wait = limits_of(status, _NO_HEADERS, report.resets, text, now).rest
    return Symptom(status, _lowered(words), text, wait)


def _lowered(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word.lower()[:_LONGEST_WORD] for word in words)
