"""Token counts: what is shown of the output excludes thoughts, and what hosted tools were given is
beside the prompt. The total has all of it."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.usage import Usage
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_interactions import wire
from dragoman.protocols.numbers import token_count

COUNTED_BY_KIND = (
    "input_tokens_by_modality",
    "output_tokens_by_modality",
    "cached_tokens_by_modality",
    "tool_use_tokens_by_modality",
)
"""Lists of the counts of texts, images, recordings and so on."""

_COUNTS = (
    "total_input_tokens",
    "total_output_tokens",
    "total_thought_tokens",
    "total_tool_use_tokens",
    "total_tokens",
)


def read_usage(given: Any, *, counts_searches: bool = False) -> Usage | None:
    """The usage in `usage`; None if there is none. The parts are preferred to the total."""
    if not isinstance(given, dict):
        return None
    prompt, shown, thoughts, of_tools, total = [token_count(given.get(name)) for name in _COUNTS]
    if (prompt, shown, thoughts, of_tools, total) == (None,) * 5:
        return None
    read = (prompt or 0) + (of_tools or 0)
    output = (shown or 0) + (thoughts or 0)
    if shown is None and thoughts is None and total is not None:
        output = max(0, total - read)
    return Usage(
        input=read,
        output=output,
        cached=token_count(given.get("total_cached_tokens")),
        reasoning=thoughts,
        searches=_searches(given.get("grounding_tool_count")) if counts_searches else None,
    )


def differs(given: JsonObject, usage: Usage) -> bool:
    """Whether the stated total is another than that of the parts."""
    total = token_count(given.get("total_tokens"))
    return total is not None and total != usage.total


def uncounted(given: JsonObject) -> list[str]:
    """The lists that have more than texts in them, which is not counted apart."""
    return [name for name in COUNTED_BY_KIND if not _only_text(given.get(name))]


def _only_text(kinds: Any) -> bool:
    return type(kinds) is not list or all(
        type(kind) is not dict or kind.get("modality") == "text" or not kind.get("tokens")
        for kind in kinds
    )


def _searches(counts: Any) -> int | None:
    found = [
        token_count(one.get("count")) or 0
        for one in (counts if isinstance(counts, list) else ())
        if isinstance(one, dict) and one.get("type") == wire.SEARCH
    ]
    return sum(found) if found else None


def write_usage(usage: Usage | None) -> JsonObject:
    """All counts that clients read, zero where they are unknown."""
    usage = usage or Usage()
    thought = min(usage.reasoning or 0, usage.output)
    written: JsonObject = {
        "total_input_tokens": usage.input,
        "total_output_tokens": usage.output - thought,
        "total_thought_tokens": thought,
        "total_cached_tokens": usage.cached or 0,
        "total_tokens": usage.total,
    }
    if usage.searches:
        written["grounding_tool_count"] = [{"type": wire.SEARCH, "count": usage.searches}]
    return written
