"""How an answer ended and what it cost, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Options
from dragoman.canonical.responses import Finish, FinishReason
from dragoman.canonical.usage import Usage
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.settings import ResponsesOptions

_CUT = frozenset({FinishReason.LENGTH, FinishReason.CONTEXT_WINDOW})


def read_finish(complete: bool, details: Any, has_calls: bool) -> Finish:
    """The end of an answer from whether it is `completed`, else its `incomplete_details`.

    Whatever cut an answer short without being a filter was a limit.
    """
    if complete:
        return Finish(FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP)
    reason = details.get("reason") if isinstance(details, dict) else None
    if reason == "content_filter":
        return Finish(FinishReason.CONTENT_FILTER)
    return Finish(FinishReason.LENGTH)


class Status(Struct, frozen=True):
    """`status` of a response, why it is incomplete, and `status` of its last item."""

    response: str
    details: JsonObject | None
    last_item: str


def write_finish(finish: Finish, options: Options, ledger: Ledger) -> Status:
    """The end of an answer as the client is to see it."""
    reason = finish.reason
    if finish.category is not None:
        ledger.add("stop_details.category", LossKind.KNOB, "filters have no categories")
    if reason in _CUT:
        return Status("incomplete", {"reason": "max_output_tokens"}, "incomplete")
    if (
        reason is FinishReason.CONTENT_FILTER
        and options.of(ResponsesOptions).refusal_as == "incomplete"
    ):
        return Status("incomplete", {"reason": "content_filter"}, "completed")
    if reason is FinishReason.STOP_SEQUENCE:
        ledger.add("stop_sequence", LossKind.KNOB, "stop sequences are not reported")
    elif reason is FinishReason.PAUSE:
        ledger.add("stop_reason", LossKind.CONVERTED, "a paused answer looks completed")
    return Status("completed", None, "completed")


def read_usage(usage: Any) -> Usage | None:
    """Token counts; None if there are none."""
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
    )


def _count(counts: Any, name: str) -> int | None:
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if type(value) is int and value >= 0 else None


def read_moderation(response: Mapping[str, Any]) -> JsonObject | None:
    """What a moderation found in the input and in the output; None if there was none."""
    found = response.get("moderation")
    if not isinstance(found, dict):
        return None
    sides = {side: found[side] for side in ("input", "output") if isinstance(found.get(side), dict)}
    return sides or None


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
