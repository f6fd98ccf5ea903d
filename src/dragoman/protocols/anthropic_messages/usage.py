"""Token counts and service tiers, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.usage import Usage, reported_tier
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.numbers import token_count

TIERS = {"standard": "default", "priority": "priority"}
"""Names of service tiers, with those of the OpenAI protocols."""
SHOWN_TIERS = {tier: name for name, tier in TIERS.items()}
"""The inverse: tiers that have a name here."""

_COUNTS = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


def merge_usage(known: JsonObject, update: Any) -> None:
    """Update `known` with the totals in `update`, which replace earlier ones unless null."""
    if isinstance(update, dict):
        if None in update.values():
            update = {name: value for name, value in update.items() if value is not None}
        known.update(update)


def read_usage(usage: Mapping[str, Any], *, searches: bool = True) -> Usage:
    """Read token counts. Anthropic's input excludes tokens read from or written to a cache;
    canonical totals include them. `searches`: count the vendor's web searches, too."""
    written = token_count(usage.get("cache_creation_input_tokens"))
    cached = token_count(usage.get("cache_read_input_tokens"))
    tier = reported_tier(usage.get("service_tier"))
    return Usage(
        input=(token_count(usage.get("input_tokens")) or 0) + (written or 0) + (cached or 0),
        output=token_count(usage.get("output_tokens")) or 0,
        cached=cached,
        cache_write=written,
        reasoning=_split(usage, "output_tokens_details", "thinking_tokens"),
        searches=_split(usage, "server_tool_use", "web_search_requests") if searches else None,
        cache_write_1h=_split(usage, "cache_creation", "ephemeral_1h_input_tokens"),
        # A fast answer has a price of its own, whatever the capacity it was made with.
        tier=usage["speed"] if usage.get("speed") == "fast" else tier,
    )


def _split(usage: Mapping[str, Any], name: str, inner: str) -> int | None:
    """A count inside the member `name`."""
    split = usage.get(name)
    return token_count(split.get(inner)) if isinstance(split, dict) else None


def read_tier(usage: Mapping[str, Any], map_fast: bool) -> str | None:
    """The service tier by its name in the OpenAI protocols."""
    if map_fast and usage.get("speed") == "fast":
        return "priority"
    tier = usage.get("service_tier")
    return TIERS.get(tier) if isinstance(tier, str) else None


def lost_tier_field(usage: Mapping[str, Any], tier: str | None) -> str | None:
    """The member of usage whose value `tier` does not express; None if it expresses all."""
    if usage.get("speed") == "fast" and tier != "priority":
        return "speed"
    if tier is not None:
        return None
    given = usage.get("service_tier")
    known = given is None or (isinstance(given, str) and given in TIERS)
    return None if known else "service_tier"


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
    if tier in SHOWN_TIERS:
        written["service_tier"] = SHOWN_TIERS[tier]
    return written
