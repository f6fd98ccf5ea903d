"""Token counts, both ways (types: response_usage.py)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.usage import Usage, told_tier
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.numbers import token_count


def read_usage(usage: Any, tier: object = None, searches: int | None = None) -> Usage | None:
    """Token counts; None if there are none. `tier` is the `service_tier` of the response, and
    `searches` are those its `tool_usage` counts."""
    if not isinstance(usage, dict):
        return None
    given = usage.get("input_tokens_details")
    made = usage.get("output_tokens_details")
    return Usage(
        input=_count(usage, "input_tokens") or 0,
        output=_count(usage, "output_tokens") or 0,
        cached=_count(given, "cached_tokens"),
        cache_write=_count(given, "cache_write_tokens"),
        reasoning=_count(made, "reasoning_tokens"),
        searches=searches,
        tier=told_tier(tier),
    )


def _count(counts: Any, name: str) -> int | None:
    return token_count(counts.get(name)) if isinstance(counts, dict) else None


def write_usage(usage: Usage | None) -> JsonObject:
    """All counts, zero where unknown: clients read every one of them without asking."""
    usage = usage or Usage()
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.cached or 0,
            "cache_write_tokens": usage.cache_write or 0,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": usage.total,
    }
