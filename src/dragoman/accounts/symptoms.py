"""What a failure of an upstream looks like, whoever the vendor is. Pure.

symptom = symptom_of_answer(status, headers, body, now)     # an answer with an error status
symptom = symptom_of_fault(fault)                           # an error inside an answer of 200
symptom = UNREACHABLE                                       # no answer at all
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from dragoman import jsontext
from dragoman.accounts.limits import limits_of
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.jsontext import JsonError

_BODY_READ = 64 * 1024
"""Bytes of an error body that are looked at."""
_LONGEST_WORD = 200
_MOST_DETAILS = 20
_NO_HEADERS: Mapping[str, str] = {}


class Symptom(Struct, frozen=True):
    """What a failure looks like.

    `status` is the upstream's HTTP status, 0 when there was no answer at all; `words` are its
    machine-readable types and codes, `text` is its message, `headers` those of the answer by
    lower-case name; words, text and header values are in lower case. `retry_after` is for how many
    seconds the upstream wants to be left alone, None if it does not say.
    """

    status: int
    words: frozenset[str] = frozenset()
    text: str = ""
    retry_after: float | None = None
    headers: Mapping[str, str] = _NO_HEADERS


UNREACHABLE = Symptom(0)
"""There was no answer: refused, reset, or timed out."""


def symptom_of_answer(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Symptom:
    """What an upstream's error answer looks like.

    `headers` have lower-case names; `now` is Unix time, which dates are measured against.
    """
    error = _read(body[:_BODY_READ])
    text = error.text.lower()
    found = limits_of(status, headers, error.members, text, now)
    return Symptom(
        status,
        frozenset(word.lower()[:_LONGEST_WORD] for word in error.words) | found.words,
        text,
        found.rest,
        {name: value.lower() for name, value in headers.items()},
    )


_STATUS_OF_KIND = {
    FaultKind.INVALID_REQUEST: 400,
    FaultKind.CONTEXT_TOO_LONG: 400,
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

    `now` is Unix time; without it, dates in the message say nothing.
    """
    status = fault.status or _STATUS_OF_KIND.get(fault.kind, 502)
    details = fault.details or {}
    told = (fault.code, *_words_of(details))
    words = frozenset(word.lower()[:_LONGEST_WORD] for word in told if word)
    text = fault.message.lower()
    wait = fault.retry_after
    if wait is None:
        wait = limits_of(status, _NO_HEADERS, (details,), text, now).rest
    return Symptom(status, words, text, wait)


class _Error(Struct, frozen=True):
    """What an error body holds, in any vendor's shape: types and codes, message, and the objects
    in which it may tell more."""

    words: tuple[str, ...]
    text: str
    members: tuple[Mapping[str, Any], ...] = ()


def _read(body: bytes) -> _Error:
    try:
        value = jsontext.decode(body)
    except JsonError:
        return _Error((), body.decode("utf-8", "replace"))
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return _Error((), body.decode("utf-8", "replace"))
    members = tuple(_objects(value))
    words = tuple(word for member in members for word in _words_of(member))
    for text in (_text(member) for member in members[1:] + members[:1]):
        if text:
            return _Error(words, text, members)
    return _Error(words, body.decode("utf-8", "replace"), members)


def _objects(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The body's own object, its `error`, and the `details` of that: one object with Anthropic,
    several with Google.
    """
    yield value
    error = value.get("error")
    if isinstance(error, dict):
        yield error
        details = error.get("details")
        for member in details[:_MOST_DETAILS] if isinstance(details, list) else (details,):
            if isinstance(member, dict):
                yield member


def _words_of(member: Mapping[str, Any]) -> Iterator[str]:
    for key in ("type", "code", "status", "error_code", "reason"):
        word = member.get(key)
        if isinstance(word, str) and word != "error":
            yield word


def _text(member: Mapping[str, Any]) -> str:
    for key in ("message", "error", "detail"):
        text = member.get(key)
        if isinstance(text, str) and text:
            return text
    return ""
