"""An answer, whole."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from dragoman.canonical.blocks import Block
from dragoman.canonical.usage import Usage


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
    """How an answer ended. `category` is a vendor's word for what a filter objected to."""

    reason: FinishReason
    stop_sequence: str | None = None
    category: str | None = None


class Response(Struct, frozen=True, kw_only=True):
    """One answer: ordered blocks, how it ended, what it cost.

    `id` and `model` are the upstream's own; `created` is in Unix seconds, 0 if unknown.
    `service_tier` is in the words of the OpenAI protocols. `usage` is None when the upstream
    did not report any. `moderation` is what a moderation that the client asked for found:
    `input` and `output`, each one result or error in the words of the OpenAI protocols.
    """

    id: str
    model: str
    created: int
    blocks: tuple[Block, ...]
    finish: Finish
    usage: Usage | None = None
    service_tier: str | None = None
    moderation: dict[str, Any] | None = None
