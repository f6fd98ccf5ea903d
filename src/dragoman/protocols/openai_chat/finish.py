"""How an answer ended, both ways."""

from __future__ import annotations

from dragoman.canonical.finish import Finish, FinishReason
from dragoman.protocols.finish_words import (
    FILTER_WORDS,
    LENGTH_WORDS,
    STOP_WORDS,
    TOOL_WORDS,
    is_failure,
    plain,
)
from dragoman.protocols.openai_chat.shapes import AnyChoice

_STOP = Finish(FinishReason.STOP)
_CALLED = Finish(FinishReason.TOOL_CALLS)
_OWN_ENDS = frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete"})
"""Values of the matched-stop member that mean the model ended by itself."""
_KNOWN = STOP_WORDS | TOOL_WORDS | LENGTH_WORDS | FILTER_WORDS
_WORDS = {
    FinishReason.STOP: "stop",
    FinishReason.STOP_SEQUENCE: "stop",
    FinishReason.PAUSE: "stop",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.LENGTH: "length",
    FinishReason.CONTEXT_WINDOW: "length",
    FinishReason.CONTENT_FILTER: "content_filter",
}


def is_known_reason(word: str) -> bool:
    """Whether some server uses a `finish_reason`, given in lower case."""
    return word in _KNOWN


_OWN = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})


def is_foreign_reason(word: str) -> bool:
    """Whether a `finish_reason` means a failure or belongs to another protocol. An unknown one may
    be new in this protocol."""
    return word not in _OWN and (is_failure(word) or plain(word) in _KNOWN)


def is_cut(word: str) -> bool:
    """Whether a `finish_reason`, in lower case, means an incomplete answer."""
    return word in LENGTH_WORDS or word in FILTER_WORDS


def read_finish(word: str, choice: AnyChoice, *, has_calls: bool) -> Finish:
    """The end of an answer from its `finish_reason`, in lower case and known, and its choice."""
    if word in LENGTH_WORDS:
        return Finish(FinishReason.LENGTH)
    if word in FILTER_WORDS:
        return Finish(FinishReason.CONTENT_FILTER)
    # Servers confuse stop and tool_calls both ways: what was produced decides.
    if has_calls:
        return _CALLED
    for matched in (choice.stop_reason, choice.matched_stop):
        if type(matched) is str and matched and matched not in _OWN_ENDS:
            return Finish(FinishReason.STOP_SEQUENCE, matched)
    return _STOP


def write_finish(finish: Finish, *, has_calls: bool) -> str:
    """`finish_reason`; whether the answer has tool calls decides between stop and tool_calls."""
    word = _WORDS[finish.reason]
    if word in ("stop", "tool_calls"):
        return "tool_calls" if has_calls else "stop"
    return word
