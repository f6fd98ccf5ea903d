"""Translation settings of the Responses protocol."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.canonical.options import Options


class ResponsesOptions(Struct, frozen=True, kw_only=True):
    """How Responses clients are answered."""

    reasoning_as: Literal["auto", "content", "summary"] = "auto"
    """How raw reasoning text of an upstream is shown to Responses clients: as `content`, or as a
    `summary`, which is all that most of them read. `auto`: as a summary to those that asked for one
    with `reasoning.summary`."""
    refusal_as: Literal["incomplete", "completed"] = "completed"
    """Status shown to Responses clients of an answer that a Messages upstream ended as a refusal.
    It has a refusal part in either case."""
    responses_done: bool = False
    """Write `data: [DONE]` after the terminal event of a Responses stream."""
    error_style: Literal["openai", "openresponses"] = "openai"
    """Names and statuses of errors for Responses clients: the official API's or Open Responses'."""
    failure_events: Literal["error_and_failed", "failed"] = "error_and_failed"
    """How a Responses stream reports a failure: an `error` event before `response.failed`, or
    `response.failed` alone."""
    tool_turn: Literal["completed", "required_action"] = "completed"
    """How an answer that calls tools ends for Responses clients: completed, or incomplete with a
    `required_action` that `submit_tool_outputs` answers."""
    response_fields: Literal["all", "classic"] = "all"
    """Fields of a response object: all that any client reads, or the 22 of the API's first year."""


class ResponsesCapabilities(Struct, frozen=True, kw_only=True):
    """What one Responses upstream accepts and needs."""

    compaction: bool = True
    """Responses upstream compacts a conversation that ends with `compaction_trigger`; others are
    asked for a summary. Where it refuses the trigger, that is remembered."""
    encrypted_reasoning: bool = True
    """Ask Responses upstreams for encrypted reasoning so that it can be sent back."""


def suits(options: Options) -> bool:
    """Whether answers of an upstream may be passed through: not if Responses clients are shown
    forms that no upstream writes."""
    own = options.of(ResponsesOptions)
    return not (
        own.responses_done
        or options.keepalive == "numbered"
        or own.failure_events == "failed"
        or own.tool_turn == "required_action"
        or own.response_fields == "classic"
    )
