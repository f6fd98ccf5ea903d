"""Token counts, both ways. Thoughts are beside the visible output, and what hosted tools were given
is beside the prompt; totals have both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.usage import Usage, reported_tier
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.numbers import token_count


def write_usage(usage: Usage) -> JsonObject:
    """`usageMetadata`: the prompt includes what was cached, the candidates exclude thoughts."""
    thought = min(usage.reasoning or 0, usage.output)
    written: JsonObject = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output - thought,
        "totalTokenCount": usage.total,
    }
    if usage.cached:
        written["cachedContentTokenCount"] = usage.cached
    if thought:
        written["thoughtsTokenCount"] = thought
    return written


_TIERS = {"ON_DEMAND_PRIORITY": "priority", "ON_DEMAND_FLEX": "flex"}
"""Traffic types of Vertex AI with a price of their own."""


COUNTS = frozenset(
    {
        *("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount"),
        *("responseTokenCount", "thoughtsTokenCount", "totalTokenCount"),
    }
)
"""The counts of which there is one at least where usage is reported."""


COUNTED_BY_KIND = (
    "promptTokensDetails",
    "cacheTokensDetails",
    "candidatesTokensDetails",
    "toolUsePromptTokensDetails",
)
"""Lists of the counts of texts, images, recordings and so on."""


def uncounted(counts: Mapping[str, Any]) -> list[str]:
    """The lists that have more than texts in them, which is not counted apart."""
    return [name for name in COUNTED_BY_KIND if not _only_text(counts.get(name))]


def _only_text(kinds: Any) -> bool:
    return type(kinds) is not list or all(
        type(kind) is not dict or kind.get("modality") == "TEXT" or not kind.get("tokenCount")
        for kind in kinds
    )


def merge_usage(known: JsonObject, update: JsonObject | None) -> None:
    """Update `known` with the counts of a later chunk: they are those of the answer so far."""
    for name, value in (update or {}).items():
        if value is not None:
            known[name] = value


def read_usage(counts: Mapping[str, Any], *, searches: int | None = None) -> Usage:
    """The usage in `usageMetadata`; `searches` are the vendor's own, if they are counted."""
    get = counts.get
    given = (_count(get("promptTokenCount")) or 0) + (_count(get("toolUsePromptTokenCount")) or 0)
    shown, thoughts = _count(get("candidatesTokenCount")), _count(get("thoughtsTokenCount"))
    if shown is None:
        shown = _count(get("responseTokenCount"))
    if shown is None and thoughts is None:
        output = max(0, (_count(get("totalTokenCount")) or 0) - given)
    else:
        output = (shown or 0) + (thoughts or 0)
    return Usage(
        input=given,
        output=output,
        cached=_count(get("cachedContentTokenCount")),
        reasoning=thoughts,
        searches=searches,
        tier=tier_of(counts),
    )


def tier_of(counts: Mapping[str, Any]) -> str | None:
    """The service tier of an answer, None for the usual one."""
    traffic, tier = counts.get("trafficType"), counts.get("serviceTier")
    if traffic is tier is None:
        return None
    found = _TIERS.get(traffic) if type(traffic) is str else None
    if found is None and type(tier) is str:
        found = reported_tier(tier.lower().removeprefix("service_tier_"))
    return found


def _count(value: Any) -> int | None:
    """A number of tokens, which some servers write as digits in a text."""
    if value is None:
        return None
    if type(value) is str and value.isdecimal() and len(value) < 12:
        value = int(value)
    return token_count(value)
