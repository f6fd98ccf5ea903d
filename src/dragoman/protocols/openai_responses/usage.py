"""Token counts, both ways (types: response_usage.py)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.usage import Usage, reported_tier
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.numbers import token_count


def read_usage(usage: Any, tier: object = None, searches: int | None = None) -> Usage | None:
    """Token counts; None if there are none. `tier` is the `service_tier` of the response, and
    `searches` are those its `tool_usage` counts."""
    if not isinstance(usage, dict):
        return None
    given = _object_in(usage, "input_tokens_details")
    made = _object_in(usage, "output_tokens_details")
    return Usage(
        input=token_count(usage.get("input_tokens")) or 0,
        output=token_count(usage.get("output_tokens")) or 0,
        cached=token_count(given.get("cached_tokens")),
        cache_write=token_count(given.get("cache_write_tokens")),
        reasoning=token_count(made.get("reasoning_tokens")),
        searches=searches,
        tier=reported_tier(tier),
    )


def unread_counts(usage: Any) -> list[str]:
    """The paths of finer token counts that are not read."""
    found: list[str] = []
    for name, known in FINER_COUNTS.items() if isinstance(usage, dict) else ():
        counts = _object_in(usage, name)
        if not counts.keys() <= known:
            unread = [one for one, count in counts.items() if count and one not in known]
            found += [f"usage.{name}.{one}" for one in unread]
    return found


FINER_COUNTS = {
    "input_tokens_details": frozenset({"cached_tokens", "cache_write_tokens"}),
    "output_tokens_details": frozenset({"reasoning_tokens"}),
}
"""Finer token counts that are read."""


def _object_in(value: JsonObject, name: str) -> JsonObject:
    """The object that is the member `name`; an empty one if there is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


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
