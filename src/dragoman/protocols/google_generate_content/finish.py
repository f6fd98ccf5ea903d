"""How an answer ended, in the words of the client."""

from __future__ import annotations

from dragoman.canonical.finish import Finish, FinishReason
from dragoman.protocols.google_generate_content import wire

_WORDS = {
    FinishReason.STOP: "STOP",
    FinishReason.STOP_SEQUENCE: "STOP",
    FinishReason.TOOL_CALLS: "STOP",
    FinishReason.PAUSE: "STOP",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTEXT_WINDOW: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "SAFETY",
}


def write_finish(finish: Finish) -> str:
    """`finishReason`."""
    if finish.reason is FinishReason.CONTENT_FILTER and finish.category in wire.FILTERS:
        return finish.category
    return _WORDS[finish.reason]


def write_block(finish: Finish) -> str:
    """`blockReason` of a prompt that a filter did not let through."""
    return finish.category if finish.category in wire.BLOCKS else "OTHER"
