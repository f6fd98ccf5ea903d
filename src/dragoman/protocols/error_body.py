"""An upstream's error body, decoded once for all uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.canonical.errors import ErrorReport, Fault
from dragoman.failing import plain_text, retry_after
from dragoman.jsontext import JsonError, decode, object_of
from dragoman.protocols.fields import JsonObject

_LONGEST_TEXT = 64 * 1024
"""Bytes of a body used as message, if it is not JSON or has no member for one."""
_MOST_DETAILS = 20


class ErrorBody(Struct, frozen=True):
    """A decoded error body.

    `error` is its error object; a body that is not JSON is its message if it is fit for clients.
    `report` is its content in any vendor's form."""

    error: JsonObject
    report: ErrorReport


ReadFault = Callable[[Any, int | None, float | None, ErrorReport | None], Fault]
"""The fault for an error object or text, by the status, the seconds to wait, and what the whole
body reports."""


def error_reader(fault_of: ReadFault) -> Callable[[int, Mapping[str, str], bytes], Fault]:
    """A protocol's `Translate.read_error`, by what it makes of an error object."""

    def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
        read = read_error_body(body)
        return fault_of(read.error, status, retry_after(headers), read.report)

    return read_error


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
    return ErrorBody(error_in(_error_of(value) if isinstance(value, dict) else value), report)


def is_error(error: Any) -> bool:
    """Whether the `error` member of an answer is an error. Some servers always have an object
    there, with null or empty members if there is no error."""
    return any(error.values()) if isinstance(error, dict) else bool(error)


def stray_error(value: JsonObject, *answer: str) -> Any:
    """The error in an answer or event with none of the members `answer`: its `error`, or the whole
    object if the object itself is an error, as some servers and proxies write it. None if there is
    no error."""
    if not value.keys().isdisjoint(answer):
        error = value.get("error")
        return error if error and is_error(error) else None
    detail = _error_of(value)
    if detail is not value or any(_is_filled(value.get(name)) for name in _MESSAGES):
        return detail
    return {} if "error" in value else None


_MESSAGES = (
    "message",
    "detail",
    "msg",
    "title",
    "error_description",
    "reason",
    "errors",
    "error_message",
    "error_msg",
    "errorMessage",
    "err_msg",
    "errmsg",
    "Message",
    "status_msg",
    "faultstring",
)
"""Members with an error message, as OpenAI, FastAPI, problem details (RFC 9457), OAuth 2.0
(RFC 6749), AWS, MiniMax, Apigee and others name them."""

_ERRORS = ("Error", "fault", "base_resp", "ResponseMetadata", "Response", "header")
"""Members with the content of `error`, or with an object that has it: of Azure, Apigee,
MiniMax, Volcengine, Tencent and iFlytek."""


def _is_filled(value: Any) -> bool:
    return isinstance(value, str | list | dict) and bool(value)


def _error_of(value: JsonObject) -> Any:
    """The `error` of an object, if it has any detail; else the object, since some servers put the
    members there."""
    error = value.get("error")
    if isinstance(error, str) and _is_filled(value.get("error_description")):
        return {"code": error, "message": value["error_description"]}
    if _is_filled(error):
        return error
    if any(_is_filled(value.get(name)) for name in _MESSAGES):
        return value
    for name in _ERRORS:
        inner = value.get(name)
        if isinstance(inner, dict) and inner.get("status_code", inner.get("code")) != 0:
            found = _error_of(inner)
            if found is not inner or any(_is_filled(inner.get(one)) for one in _MESSAGES):
                return found
    return value


def is_readable(error: Any) -> bool:
    """Whether clients of every protocol can read an `error` member."""
    return isinstance(error, dict) and isinstance(error.get("message"), str)


def is_error_object(body: bytes) -> bool:
    """The function behind `Translate.is_own_error` where errors are objects in `error`."""
    return is_readable((object_of(body) or {}).get("error"))


def is_typed(kind: str) -> bool:
    """Whether a `type` is an event type, which a line of an event can name; in problem details it
    is a URL."""
    return bool(kind) and kind.isprintable() and ":" not in kind and "/" not in kind


def error_in(error: Any) -> JsonObject:
    """The error object in an `error` member: a text becomes its message, of a list the first one
    counts. The error message is in `message`, under whatever name the server sent it."""
    if isinstance(error, list):
        error = next(filter(_is_filled, error), {})
    if isinstance(error, str | list):
        return {"message": error}
    if not isinstance(error, dict):
        return {}
    if _is_filled(error.get("message")):
        return _with_raw(error)
    names = (*_MESSAGES, "error")
    detail = next((error[name] for name in names if _is_filled(error.get(name))), None)
    if detail is error.get("errors"):
        detail = error_in(detail).get("message") or detail
    elif detail is error.get("error") and isinstance(detail, dict):
        # Proxies put the upstream's body, with an error of its own, into theirs.
        detail = detail.get("message") or detail
    return error if detail is None else {**error, "message": detail}


def _with_raw(error: JsonObject) -> JsonObject:
    """The error with the message of the provider behind a router, which puts the provider's body
    as text into `metadata.raw`."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if not isinstance(raw, str):
        return error
    try:
        inner = decode(raw.encode())
    except JsonError:
        inner = raw
    message = error_in(_error_of(inner) if isinstance(inner, dict) else inner).get("message")
    if not isinstance(message, str) or message == error["message"]:
        return error
    return {**error, "message": f"{error['message']}: {message}"}


def report_of(error: Any) -> ErrorReport:
    """The content of the `error` member of an answer or of a stream's event."""
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
    """The body's own object, its `error`, the `error` in that, and its `details`: one object with
    Anthropic, several with Google.
    """
    yield value
    error = value.get("error")
    if isinstance(error, list) or not error:
        error = error_in(error or value.get("errors"))
    if isinstance(error, dict) and error:
        yield error
        details = error.get("details")
        inner = details[:_MOST_DETAILS] if isinstance(details, list) else (details,)
        for member in (error.get("error"), *inner):
            if isinstance(member, dict):
                yield member


def _words_of(member: Mapping[str, Any]) -> Iterator[str]:
    for key in ("type", "code", "status", "error_code", "reason"):
        word = member.get(key)
        if isinstance(word, str) and word != "error":
            yield word
    if isinstance(word := member.get("__type"), str):  # AWS, with a name space before it
        yield word.rpartition("#")[2]


def _resets_of(member: Mapping[str, Any]) -> Iterator[tuple[str, float | str]]:
    for key in ("resets_in_seconds", "resets_at", "retryDelay"):
        value = member.get(key)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            yield key, value


def _message_of(member: Mapping[str, Any]) -> str:
    for key in ("message", "error", *_MESSAGES):
        text = member.get(key)
        if isinstance(text, str) and text:
            return text
    return ""


def _text_of(body: bytes) -> str:
    return body[:_LONGEST_TEXT].decode("utf-8", "replace")
