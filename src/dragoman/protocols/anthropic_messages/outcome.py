"""How an answer ended and what it cost, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dragoman.canonical.responses import Finish, FinishReason
from dragoman.canonical.usage import Usage
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.fields import JsonObject

_REASONS = {
    "end_turn": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "stop_sequence": FinishReason.STOP_SEQUENCE,
    "tool_use": FinishReason.TOOL_CALLS,
    "pause_turn": FinishReason.PAUSE,
    "refusal": FinishReason.CONTENT_FILTER,
    "model_context_window_exceeded": FinishReason.CONTEXT_WINDOW,
}
_STOP_REASONS = {reason: word for word, reason in _REASONS.items()}
_BY_CALLS = (FinishReason.STOP, FinishReason.TOOL_CALLS)
_TIERS = {"standard": "default", "priority": "priority"}
_SHOWN_TIERS = {tier: word for word, tier in _TIERS.items()}
_COUNTS = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


def read_finish(stop: Mapping[str, Any], has_calls: bool) -> Finish:
    """The end of an answer from its `stop_reason`, `stop_sequence` and `stop_details`.

    Whether tools are to be called is told by the calls themselves, for servers get the word
    wrong both ways; an unknown word is an ordinary end.
    """
    word = stop.get("stop_reason")
    reason = _REASONS.get(word, FinishReason.STOP) if isinstance(word, str) else FinishReason.STOP
    if reason in _BY_CALLS:
        reason = FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP
    sequence = stop.get("stop_sequence") if reason is FinishReason.STOP_SEQUENCE else None
    details = stop.get("stop_details")
    category = None
    if reason is FinishReason.CONTENT_FILTER and isinstance(details, dict):
        category = details.get("category")
    return Finish(
        reason,
        sequence if isinstance(sequence, str) else None,
        category if isinstance(category, str) else None,
    )


def is_known_reason(word: object) -> bool:
    """Whether a `stop_reason` is one of the protocol's own, or absent."""
    return word is None or (isinstance(word, str) and word in _REASONS)


def explanation_of(stop: Mapping[str, Any]) -> str:
    """The model's words for a refusal, empty if it gave none."""
    details = stop.get("stop_details")
    if stop.get("stop_reason") != "refusal" or not isinstance(details, dict):
        return ""
    explanation = details.get("explanation")
    return explanation if isinstance(explanation, str) else ""


class Stop(NamedTuple):
    """The three fields that tell how an answer ended; `details` only of refusals."""

    reason: str
    sequence: str | None
    details: JsonObject | None

    def fields(self) -> JsonObject:
        """As members of an answer or of the `delta` of a message_delta event."""
        written: JsonObject = {"stop_reason": self.reason, "stop_sequence": self.sequence}
        if self.details is not None:
            written["stop_details"] = self.details
        return written


def write_finish(finish: Finish, has_calls: bool, refusal: str | None) -> Stop:
    """The end of an answer as the client is to see it.

    `has_calls` tells whether tool calls were written, `refusal` is the text of a refusal.
    """
    reason = finish.reason
    if refusal is not None:
        reason = FinishReason.CONTENT_FILTER
    elif reason in _BY_CALLS:
        reason = FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP
    if reason is not FinishReason.CONTENT_FILTER:
        return Stop(_STOP_REASONS[reason], finish.stop_sequence, None)
    category = finish.category if finish.category in wire.REFUSAL_CATEGORIES else None
    details = {"type": "refusal", "category": category, "explanation": refusal or None}
    return Stop("refusal", None, details)


def merge_usage(known: JsonObject, update: Any) -> None:
    """Take over what `update` says: totals so far, which replace earlier ones unless null."""
    if isinstance(update, dict):
        known.update({name: value for name, value in update.items() if value is not None})


def read_usage(usage: Mapping[str, Any]) -> Usage:
    """Anthropic counts input without what was read from or written to a cache; our totals
    include it."""
    written = _count(usage, "cache_creation_input_tokens")
    cached = _count(usage, "cache_read_input_tokens")
    details = usage.get("output_tokens_details")
    return Usage(
        input=(_count(usage, "input_tokens") or 0) + (written or 0) + (cached or 0),
        output=_count(usage, "output_tokens") or 0,
        cached=cached,
        cache_write=written,
        reasoning=_count(details, "thinking_tokens") if isinstance(details, dict) else None,
    )


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    value = usage.get(name)
    return value if type(value) is int and value >= 0 else None


def read_tier(usage: Mapping[str, Any], map_fast: bool) -> str | None:
    """The service tier in the words of the OpenAI protocols."""
    if map_fast and usage.get("speed") == "fast":
        return "priority"
    tier = usage.get("service_tier")
    return _TIERS.get(tier) if isinstance(tier, str) else None


def untold_tier(usage: Mapping[str, Any], tier: str | None) -> str | None:
    """The member of usage that says more of the service's quality than `tier` does."""
    if usage.get("speed") == "fast" and tier != "priority":
        return "speed"
    known = usage.get("service_tier") in (None, *_TIERS)
    return None if known or tier is not None else "service_tier"


def write_usage(usage: Usage | None, tier: str | None = None) -> JsonObject:
    """Usage as the client is to see it: all four counts, zero when unknown."""
    if usage is None:
        written: JsonObject = dict.fromkeys(_COUNTS, 0)
    else:
        cached, cache_write = usage.cached or 0, usage.cache_write or 0
        fresh = max(0, usage.input - cached - cache_write)
        written = dict(zip(_COUNTS, (fresh, cache_write, cached, usage.output), strict=True))
        if usage.reasoning:
            written["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    shown = _SHOWN_TIERS.get(tier or "")
    if shown is not None:
        written["service_tier"] = shown
    return written
