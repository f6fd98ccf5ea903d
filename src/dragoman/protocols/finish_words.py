"""Finish reasons of official and compatible servers, in lower case.

Servers and bridges mix the vocabularies of all vendors, so there is one table for every protocol.
Sources: `finish_reason` of openai, `stop_reason` of anthropic, `finishReason` of Google's API, and
what compatible servers were seen to send.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.finish import UNKNOWN_FINISH, Finish, FinishReason

STOP_WORDS = frozenset(
    {
        "stop",
        "stopped",
        "stop_sequence",
        "stop_sequence_reached",
        "eos",
        "eos_token",
        "eot",
        "end",
        "end_of_text",
        "end_of_turn",
        "end_turn",
        "complete",
        "completed",
        "done",
        "finish",
        "finished",
        "normal",
        "success",
    }
)
LENGTH_WORDS = frozenset(
    {
        "length",
        "incomplete",
        "max_length",
        "max_new_tokens",
        "max_output_tokens",
        "max_tokens",
        "model_context_window_exceeded",
        "model_length",
        "repetition",  # vLLM stopped an answer that repeated itself
        "token_limit",
    }
)
TOOL_WORDS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
FILTER_WORDS = frozenset(
    {
        "blocklist",
        "content_filter",
        "content_filtered",
        "guardrail_intervened",
        "image_prohibited_content",
        "image_recitation",
        "image_safety",
        "language",
        "model_armor",
        "prohibited_content",
        "recitation",
        "refusal",
        "safety",
        "sensitive",
        "spii",
    }
)
FAILURE_WORDS = frozenset(
    {
        "abort",
        "aborted",
        "cancel",
        "canceled",
        "cancelled",
        "error",
        "failed",
        "failure",
        "unspecified",
        "insufficient_system_resource",
        "interrupted",
        "malformed_function_call",
        "malformed_response",
        "missing_thought_signature",
        "network_error",
        "other",
        "overloaded",
        "server_error",
        "time_limit",
        "timeout",
        "too_many_tool_calls",
        "unexpected_tool_call",
        "unknown",
    }
)


def plain(word: str) -> str:
    """A word in the form of these tables, from any spelling: `max-tokens`,
    `FINISH_REASON_STOP`."""
    return word.lower().replace("-", "_").removeprefix("finish_reason_")


def is_failure(reason: Any) -> bool:
    """Whether a finish reason means an incomplete answer."""
    if type(reason) is not str or reason in STOP_WORDS:
        return False
    return plain(reason) in FAILURE_WORDS


def failure(reason: str) -> Fault:
    """The fault for such a finish reason."""
    message = f"The upstream stopped with the reason {reason[:60]}."
    return Fault(FaultKind.UPSTREAM_FAILED, message, code="upstream_error")


def finish_of(reason: str) -> Finish | None:
    """The end of an answer that is passed through, by its finish reason alone; None if that is
    unknown."""
    return _FINISHES.get(reason) or _FINISHES.get(plain(reason))


# The later ones win.
_FINISHES = {
    word: Finish(reason)
    for reason, words in (
        (FinishReason.CONTENT_FILTER, FILTER_WORDS),
        (FinishReason.LENGTH, LENGTH_WORDS),
        (FinishReason.TOOL_CALLS, TOOL_WORDS),
        (FinishReason.STOP, STOP_WORDS),
        (FinishReason.STOP_SEQUENCE, ("stop_sequence", "stop_sequence_reached")),
        (FinishReason.PAUSE, ("pause_turn",)),
        (FinishReason.CONTEXT_WINDOW, ("model_context_window_exceeded",)),
    )
    for word in words
}


def unknown_finish(word: object) -> Fault:
    """The fault of an answer with an unknown finish reason, which may mean that it is incomplete.
    It was paid for, and another account would most likely end the same way."""
    message = f"The upstream's answer is unusable: it ended with the reason {str(word)[:60]}"
    return Fault(FaultKind.UPSTREAM_FAILED, message, code=UNKNOWN_FINISH)
