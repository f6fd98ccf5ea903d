"""An upstream's error body, decoded once for all that is made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.canonical.errors import ErrorReport
from dragoman.failing import plain_text
from dragoman.jsontext import JsonError, decode
from dragoman.protocols.fields import JsonObject

_LONGEST_TEXT = 64 * 1024
"""Bytes of a body that is its own message, being no JSON or without a member for one."""
_MOST_DETAILS = 20


class ErrorBody(Struct, frozen=True):
    """A decoded error body.

    `error` is its error object, with a body that is no JSON as the message if that is fit for
    clients; `report` is what it says in any vendor's shape.
    """

    error: JsonObject
    report: ErrorReport


def read_error_body(body: bytes) -> ErrorBody:
    """Decode an error body of any kind; never fails."""
    try:
        value = decode(body)
    except JsonError:
        return ErrorBody({"message": plain_text(body)}, ErrorReport(text=_text_of(body)))
    if isinstance(value, list) and value:
        value = value[0]
    report = _report(value)
    if not report.text:
        report = msgspec.structs.replace(report, text=_text_of(body))
    if isinstance(value, dict):
        # Some servers put the members at the top level.
        return ErrorBody(error_in(value.get("error") or value), report)
    return ErrorBody({}, report)


def stray_error(value: JsonObject, *answer: str) -> Any:
    """The error in an answer or event that has none of the members `answer`: its `error`, or the
    whole object where that says what is wrong itself, as servers and proxies write it. None if it
    tells of no error."""
    if not value.keys().isdisjoint(answer):
        return value.get("error") or None
    if value.get("error"):
        return value["error"]
    told = value.get("message") or value.get("detail")
    if isinstance(told, str | list | dict) and told:
        return value
    return {} if "error" in value else None


def error_in(error: Any) -> JsonObject:
    """The error object in an `error` member; a text is its message."""
    if isinstance(error, str):
        return {"message": error}
    return error if isinstance(error, dict) else {}


def report_of(error: Any) -> ErrorReport:
    """What the `error` member of an answer, or of an event of a stream, says."""
    return _report({"error": error})


def _report(value: Any) -> ErrorReport:
    if not isinstance(value, dict):
        return ErrorReport()
    objects = tuple(_objects(value))
    words = tuple(word for member in objects for word in _words_of(member))
    texts = (_message_of(member) for member in objects[1:] + objects[:1])
    resets = tuple(reset for member in objects for reset in _resets_of(member))
    return ErrorReport(words, next(filter(None, texts), ""), resets)


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


def _resets_of(member: Mapping[str, Any]) -> Iterator[tuple[str, float | str]]:
    for key in ("resets_in_seconds", "resets_at", "retryDelay"):
        value = member.get(key)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            yield key, value


def _message_of(member: Mapping[str, Any]) -> str:
    for key in ("message", "error", "detail"):
        text = member.get(key)
        if isinstance(text, str) and text:
            return text
    return ""


def _text_of(body: bytes) -> str:
    return body[:_LONGEST_TEXT].decode("utf-8", "replace")
