"""How an answer ended, both ways."""

from __future__ import annotations

from dragoman.canonical.finish import Finish, FinishReason
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.shapes import Stop
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.finish_words import (
    FILTER_WORDS,
    LENGTH_WORDS,
    STOP_WORDS,
    TOOL_WORDS,
    is_failure,
    plain,
)

_REASONS = {
    "end_turn": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "stop_sequence": FinishReason.STOP_SEQUENCE,
    "tool_use": FinishReason.TOOL_CALLS,
    "pause_turn": FinishReason.PAUSE,
    "refusal": FinishReason.CONTENT_FILTER,
    "model_context_window_exceeded": FinishReason.CONTEXT_WINDOW,
}
_OTHERS = (
    (STOP_WORDS, "end_turn"),
    (TOOL_WORDS, "tool_use"),
    (LENGTH_WORDS, "max_tokens"),
    (FILTER_WORDS, "refusal"),
)
_STOP_REASONS = {reason: word for word, reason in _REASONS.items()}
_BY_CALLS = ("end_turn", "tool_use")
_FILTERED = FinishReason.CONTENT_FILTER
_STOPPED = Finish(FinishReason.STOP)
_CALLED = Finish(FinishReason.TOOL_CALLS)


def read_finish(stop: Stop, has_calls: bool) -> Finish:
    """The end of an answer.

    Whether tools are to be called is decided by the calls themselves, for servers confuse
    `end_turn` and `tool_use` both ways. The reason has to be known.
    """
    reason = _REASONS.get(_own_word(stop.stop_reason), FinishReason.STOP)
    if reason in (FinishReason.STOP, FinishReason.TOOL_CALLS):
        return _CALLED if has_calls else _STOPPED
    is_refusal = reason is FinishReason.CONTENT_FILTER
    details = stop.stop_details if is_refusal else None
    return Finish(
        reason,
        stop.stop_sequence if reason is FinishReason.STOP_SEQUENCE else None,
        None if details is None else details.category,
        declined=is_refusal,
    )


def is_known_reason(word: object) -> bool:
    """Whether a `stop_reason` is one of the protocol's own, or another protocol's."""
    return _own_word(word) in _REASONS


def is_foreign_reason(word: str) -> bool:
    """Whether a `stop_reason` means a failure or belongs to another protocol. An unknown one may be
    new in this protocol."""
    return word not in _REASONS and (is_failure(word) or is_known_reason(word))


def _own_word(word: object) -> str:
    """A `stop_reason` in the protocol's own words: bridges pass on those of other protocols."""
    if not isinstance(word, str) or word in _REASONS:
        return str(word)
    word = plain(word)
    return next((own for words, own in _OTHERS if word in words), word)


def explanation_of(stop: Stop) -> str:
    """The model's explanation of a refusal, empty if it gave none."""
    details = stop.stop_details if stop.stop_reason == "refusal" else None
    return (details.explanation if details is not None else None) or ""


def write_finish(finish: Finish, has_calls: bool, refusal: str | None) -> JsonObject:
    """The stop members of an answer; `stop_details` only of refusals.

    `has_calls` is whether tool calls were written, `refusal` is the text of a refusal.
    """
    if refusal is None and finish.reason is not _FILTERED:
        word = _STOP_REASONS[finish.reason]
        if word in _BY_CALLS:
            word = "tool_use" if has_calls else "end_turn"
        return {"stop_reason": word, "stop_sequence": finish.stop_sequence}
    category = finish.category if finish.category in wire.REFUSAL_CATEGORIES else None
    details = {"type": "refusal", "category": category, "explanation": refusal or None}
    return {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}
