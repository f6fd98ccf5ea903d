"""A response object that is passed on: what of it is looked at, and a whole one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw, Struct

from dragoman import jsontext
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.usage import Usage
from dragoman.jsontext import JsonError
from dragoman.protocols.base import NOTHING, to_json
from dragoman.protocols.error_body import says_error, stray_error
from dragoman.protocols.finish_words import is_failure
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.openai_responses.usage import read_usage
from dragoman.protocols.openai_responses.web_search import searches_of

ABSENT = Raw()
_NULL = Raw(b"null")


class Answer(Struct):
    """What of a response object is looked at."""

    output: Raw = ABSENT
    usage: Any = None
    error: Any = None
    status: Any = None
    id: Any = None
    model: Raw = ABSENT
    service_tier: Any = None
    tool_usage: Any = None
    incomplete_details: Any = None


_answer = jsontext.decoder(Answer)


def forward_response(
    body: bytes, model: str, shown: Mapping[str, Any] = NOTHING
) -> tuple[bytes, Usage | None, str]:
    """A whole answer under the client's name of the model and with the members in `shown`, its
    usage, and the word for why it ended.

    Raises:
        UpstreamError: it failed, or is not an answer of this protocol.
    """
    try:
        answer = _answer(body)
        right = answer.model == Raw(to_json(model)) and not shown
        passed = body if right else _with(body, {"model": model, **shown})
    except JsonError:
        raise UpstreamError.unreadable("it is not a response object") from None
    if answer.output in (ABSENT, _NULL):
        error = stray_error(jsontext.object_of(body) or {})
        if error is not None:
            raise UpstreamError(fault_of(error))
        raise UpstreamError.unreadable("it has no output")
    if has_failed(answer):
        raise UpstreamError(fault_of(answer.error))
    return passed, usage_of(answer), reason_in(answer, _has_calls(answer.output))


def has_failed(answer: Answer) -> bool:
    """Whether a response says that it is no answer, whatever its event says. In any other status it
    may be one that is made in the background."""
    return says_error(answer.error) or is_failure(answer.status)


def reason_in(answer: Answer, has_calls: bool) -> str:
    """The word for why an answer ended."""
    if isinstance(answer.incomplete_details, dict):
        return str(answer.incomplete_details.get("reason"))
    return "tool_calls" if has_calls and answer.status == "completed" else str(answer.status)


def _has_calls(output: Raw) -> bool:
    """Whether there is a call among the items of an answer. In a text its quotes were escaped."""
    items = bytes(output)
    return b'"function_call"' in items or b'"custom_tool_call"' in items


def usage_of(answer: Answer) -> Usage | None:
    return read_usage(answer.usage, answer.service_tier, searches_of(answer.tool_usage))


def _with(body: bytes, shown: Mapping[str, Any]) -> bytes:
    """A response object with other values of the members it has; the same bytes if none differs."""
    members = jsontext.members(body)
    changed = changed_in(members, shown)
    return to_json({**members, **changed}) if changed else body


def changed_in(members: Mapping[str, Raw], shown: Mapping[str, Any]) -> dict[str, Raw]:
    """Those of the values to show that differ from the members there are."""
    return {
        name: Raw(encoded)
        for name, value in shown.items()
        if name in members and bytes(members[name]) != (encoded := to_json(value))
    }
