"""Token counts, both ways. Chat's totals include cached and reasoning tokens, as ours do."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.usage import Usage, reported_tier
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.numbers import token_count
from dragoman.protocols.openai_chat import wire


def read_usage(usage: JsonObject, ledger: Ledger | None = None, tier: object = None) -> Usage:
    """The counts of a `usage` object; those that the canonical model lacks go into the ledger.
    `tier` is the answer's `service_tier`.

    Compatible servers put cached and reasoning tokens in fields of their own; the official
    fields win.
    """
    prompt = usage.get("prompt_tokens_details")
    completion = usage.get("completion_tokens_details")
    cached = cache_write = reasoning = None
    if type(prompt) is dict:
        cached = token_count(prompt.get("cached_tokens"))
        cache_write = token_count(prompt.get("cache_write_tokens"))
        if not wire.PROMPT_DETAILS.issuperset(prompt):
            path = "usage.prompt_tokens_details"
            _report_unknown(prompt, wire.PROMPT_DETAILS, path, ledger)
    if type(completion) is dict:
        reasoning = token_count(completion.get("reasoning_tokens"))
        if not wire.COMPLETION_DETAILS.issuperset(completion):
            path = "usage.completion_tokens_details"
            _report_unknown(completion, wire.COMPLETION_DETAILS, path, ledger)
    if not wire.OFFICIAL_USAGE.issuperset(usage):
        if cached is None:
            cached = _first(usage.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"))
        if reasoning is None:
            reasoning = token_count(usage.get("reasoning_tokens"))
        _report_unknown(usage, wire.USAGE_FIELDS, "usage", ledger)
    return Usage(
        input=token_count(usage.get("prompt_tokens")) or 0,
        output=token_count(usage.get("completion_tokens")) or 0,
        cached=cached,
        cache_write=cache_write,
        reasoning=reasoning,
        tier=reported_tier(tier),
    )


def write_usage(usage: Usage) -> JsonObject:
    """The `usage` object; details that are not known are left out."""
    written: JsonObject = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
    }
    prompt: JsonObject = {}
    if usage.cached is not None:
        prompt["cached_tokens"] = usage.cached
    if usage.cache_write is not None:
        prompt["cache_write_tokens"] = usage.cache_write
    if prompt:
        written["prompt_tokens_details"] = prompt
    if usage.reasoning is not None:
        written["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return written


def _first(first: Any, second: Any) -> int | None:
    number = token_count(first)
    return token_count(second) if number is None else number


def _report_unknown(
    value: JsonObject, known: frozenset[str], path: str, ledger: Ledger | None
) -> None:
    if ledger is None:
        return
    for name, count in value.items():
        if name not in known and count:
            ledger.add(f"{path}.{name}", LossKind.KNOB, "is not counted apart")
