"""How an answer ended, both ways: `finishReason` and `promptFeedback`."""

from __future__ import annotations

from typing import Final

from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.protocols.finish_words import (
    LENGTH_WORDS,
    STOP_WORDS,
    TOOL_WORDS,
    plain,
    unknown_finish,
)
from dragoman.protocols.google_generate_content import wire

_WORDS = {
    FinishReason.STOP: "STOP",
    FinishReason.STOP_SEQUENCE: "STOP",
    FinishReason.TOOL_CALLS: "STOP",
    FinishReason.PAUSE: "STOP",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTEXT_WINDOW: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "SAFETY",
}


def write_finish(finish: Finish) -> str:
    """`finishReason`."""
    if finish.reason is FinishReason.CONTENT_FILTER and finish.category in wire.FILTERS:
        return finish.category
    return _WORDS[finish.reason]


def write_block(finish: Finish) -> str:
    """`blockReason` of a prompt that a filter did not let through."""
    return finish.category if finish.category in wire.BLOCKS else "OTHER"


STOPPED: Final = "STOP"
CONTINUED: Final = "CONTINUATION"
"""The answer is not over: its service is to be asked for the rest."""

_UNSIGNED: Final = "MISSING_THOUGHT_SIGNATURE"
_RESTRICTED: Final = "PUP_LIMITED_DISABLED"
_TOO_MANY: Final = "TOO_MANY_TOOL_CALLS"
_UNSIGNED_DETAIL: Final = (
    "The upstream refused the conversation: a function call is missing its thought_signature."
)

OF_REQUEST: Final = frozenset({_UNSIGNED, _RESTRICTED})
"""Reasons that are no end of an answer but an error, about the request or the account."""


def read_finish(word: str, *, has_calls: bool, has_content: bool) -> Finish:
    """The end of an answer. Whether tools are to be called is decided by the calls themselves: the
    reason is the same.

    Raises:
        UpstreamError: the model or the service failed, or nobody knows the reason.
    """
    word = word.removeprefix("FINISH_REASON_") if word.isupper() else word
    if word in wire.FILTERS:
        return Finish(FinishReason.CONTENT_FILTER, category=word)
    if word == _UNSIGNED:
        fault = Fault(FaultKind.INVALID_REQUEST, _UNSIGNED_DETAIL, code=_UNSIGNED, status=400)
        raise UpstreamError(fault)
    if word == _RESTRICTED:
        message = f"The upstream restricts its account: {word}."
        raise UpstreamError(Fault(FaultKind.FORBIDDEN, message, code=word, status=403))
    if word == _TOO_MANY and has_content:
        return Finish(FinishReason.PAUSE)
    known = plain(word)
    if known in STOP_WORDS or known in TOOL_WORDS:
        return Finish(FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP)
    if known in LENGTH_WORDS or word == CONTINUED:
        return Finish(FinishReason.LENGTH)
    raise UpstreamError(unknown_finish(word))


def blocked(reason: str) -> Finish:
    """The end of an answer that was not given because of its prompt."""
    return Finish(FinishReason.CONTENT_FILTER, category=reason, of_prompt=True)
