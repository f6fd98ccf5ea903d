"""Token counts, as a client is to see them."""

from __future__ import annotations

from dragoman.canonical.usage import Usage
from dragoman.protocols.fields import JsonObject


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
