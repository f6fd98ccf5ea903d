"""How an answer ended."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

NO_SUMMARY = "no_summary"
"""Code of an answer without the summary of a conversation that was asked for."""
UNKNOWN_FINISH = "unknown_finish_reason"
"""Code of the fault of an answer that ended for a reason nobody knows."""


class FinishReason(StrEnum):
    """Why the model stopped."""

    STOP = "stop"
    """The turn came to its natural end (tool calls or not; see `TOOL_CALLS`)."""
    STOP_SEQUENCE = "stop_sequence"
    """A stop sequence of the request was generated; `Finish.stop_sequence` names it if known."""
    TOOL_CALLS = "tool_calls"
    """The model waits for the results of its tool calls."""
    LENGTH = "length"
    """The output limit was reached."""
    CONTEXT_WINDOW = "context_window"
    """The model's context window was full."""
    CONTENT_FILTER = "content_filter"
    """A classifier stopped or withheld the output."""
    PAUSE = "pause"
    """A loop of the vendor's own tools was paused; the answer sent back continues it."""


class Finish(Struct, frozen=True):
    """How an answer ended. `category` is a vendor's word for what a filter objected to; `declined`
    whether an end by a filter is reported as the model's refusal, which answers the request;
    `of_prompt` whether the filter withheld the whole answer because of the request."""

    reason: FinishReason
    stop_sequence: str | None = None
    category: str | None = None
    declined: bool = False
    of_prompt: bool = False
