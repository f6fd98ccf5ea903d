"""How an answer ended and what it cost, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

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
_BY_CALLS = ("end_turn", "tool_use")
_FILTERED = FinishReason.CONTENT_FILTER
_STOPPED = Finish(FinishReason.STOP)
_CALLED = Finish(FinishReason.TOOL_CALLS)
_TIERS = {"standard": "default", "priority": "priority"}
_TIER_WORDS = tuple(_TIERS)
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
    if type(word) is not str or word not in _REASONS or word in _BY_CALLS:
        return _CALLED if has_calls else _STOPPED
    reason = _REASONS[word]
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


class Stop(Struct, frozen=True):
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
    if refusal is None and finish.reason is not _FILTERED:
        word = _STOP_REASONS[finish.reason]
        if word in _BY_CALLS:
            word = "tool_use" if has_calls else "end_turn"
        return Stop(word, finish.stop_sequence, None)
    category = finish.category if finish.category in wire.REFUSAL_CATEGORIES else None
    details = {"type": "refusal", "category": category, "explanation": refusal or None}
    return Stop("refusal", None, details)


def merge_usage(known: JsonObject, update: Any) -> None:
    """Take over what `update` says: totals so far, which replace earlier ones unless null."""
    if isinstance(update, dict):
        for name, value in update.items():
            if value is not None:
                known[name] = value


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
    if tier is not None:
        return None
    told = usage.get("service_tier")
    return None if told is None or told in _TIER_WORDS else "service_tier"


def write_usage(usage: Usage | None, tier: str | None = None) -> JsonObject:
    """Usage as the client is to see it: all four counts, zero when unknown."""
    if usage is None:
        written: JsonObject = dict.fromkeys(_COUNTS, 0)
    else:
        cached, cache_write = usage.cached or 0, usage.cache_write or 0
        written = {
            "input_tokens": max(0, usage.input - cached - cache_write),
            "cache_creation_input_tokens": cache_write,
            "cache_read_input_tokens": cached,
            "output_tokens": usage.output,
        }
        if usage.reasoning:
            written["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
        if usage.searches:
            hosted = {"web_search_requests": usage.searches, "web_fetch_requests": 0}
            written["server_tool_use"] = hosted
    if tier in _SHOWN_TIERS:
        written["service_tier"] = _SHOWN_TIERS[tier]
    return written
