"""Token counts in one convention: totals include cached and reasoning tokens."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class Usage(Struct, frozen=True, kw_only=True):
    """What one answer cost, in tokens.

    `input` includes `cached` (read from a prompt cache) and `cache_write` (written to one), which
    includes `cache_write_1h` (stored for an hour); `output` includes `reasoning`. `searches` counts
    the vendor's own web searches, only where answers are passed through and on routes that map
    them. `tier` is the service tier that the upstream reports, in the vendor's word for it;
    None for the usual one (see `reported_tier`). None: the upstream did not report it.
    """

    input: int = 0
    output: int = 0
    cached: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    searches: int | None = None
    cache_write_1h: int | None = None
    tier: str | None = None

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output


class Units(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a request used that is paid for in other units than tokens of text.

    `image_input` and `audio_input` are parts of the input tokens, `image_output` and `audio_output`
    of the output tokens, which have rates of their own.
    """

    images: int = 0
    characters: int = 0
    seconds: float = 0.0
    image_input: int = 0
    image_output: int = 0
    audio_input: int = 0
    audio_output: int = 0


def consistent(usage: Usage) -> Usage:
    """Usage in which no part exceeds its whole, whatever the upstream reported, for counting,
    prices and limits. What is read from a cache goes before what is written to one."""
    cached, written = usage.cached or 0, usage.cache_write or 0
    for_an_hour, thought = usage.cache_write_1h or 0, usage.reasoning or 0
    if cached + written <= usage.input and for_an_hour <= written and thought <= usage.output:
        return usage
    cached = min(cached, usage.input)
    written = min(written, usage.input - cached)
    return replace(
        usage,
        cached=usage.cached and cached,
        cache_write=usage.cache_write and written,
        cache_write_1h=usage.cache_write_1h and min(for_an_hour, written),
        reasoning=usage.reasoning and min(thought, usage.output),
    )


def summed(one: Usage, other: Usage) -> Usage:
    """The usage of two answers together; the tier is that of the later, `other`."""
    return Usage(
        input=one.input + other.input,
        output=one.output + other.output,
        cached=_sum(one.cached, other.cached),
        cache_write=_sum(one.cache_write, other.cache_write),
        reasoning=_sum(one.reasoning, other.reasoning),
        searches=_sum(one.searches, other.searches),
        cache_write_1h=_sum(one.cache_write_1h, other.cache_write_1h),
        tier=other.tier,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)


USUAL_TIERS = frozenset({"default", "standard", "auto"})
"""Words for the service tier that every request has by itself."""

_LONGEST_TIER = 32


def reported_tier(tier: object) -> str | None:
    """The service tier for `Usage.tier`, from the upstream's report."""
    if type(tier) is not str or not tier or tier in USUAL_TIERS or len(tier) > _LONGEST_TIER:
        return None
    return tier
