"""The vocabulary of Anthropic Messages: names, word lists, members of answers. No logic.

Source: the request and answer types of the `anthropic` package 2.12.0, stable and beta."""

from __future__ import annotations

from typing import Final

from dragoman.canonical.losses import LossKind

NAME = "anthropic_messages"

VENDOR = "anthropic"
"""The file store that file ids of this protocol belong to."""

VERSION: Final = "anthropic-version"
BETAS: Final = "anthropic-beta"
"""Headers of clients: the version of the API, and the names of betas, separated by commas."""

_CONTENT = LossKind.CONTENT
_KNOB = LossKind.KNOB

FOREIGN_BLOCKS: dict[str, LossKind] = {
    "server_tool_use": _CONTENT,
    "web_search_tool_result": _CONTENT,
    "web_fetch_tool_result": _CONTENT,
    "code_execution_tool_result": _CONTENT,
    "bash_code_execution_tool_result": _CONTENT,
    "text_editor_code_execution_tool_result": _CONTENT,
    "tool_search_tool_result": _CONTENT,
    # What another model advised the one that answered.
    "advisor_tool_result": _KNOB,
    "container_upload": _CONTENT,
    "mcp_tool_use": _CONTENT,
    "mcp_tool_result": _CONTENT,
    "mcp_tool_listing": _CONTENT,
    "compaction": _CONTENT,
    "browser_state": _CONTENT,
    # Names only the model that answered before; the conversation reads the same without it.
    "fallback": _KNOB,
    # Other protocols offer all declared tools all the time, so the model can still call them.
    "tool_addition": _KNOB,
    "tool_removal": _KNOB,
}
"""Blocks only this protocol can express, and what leaving one out of a request means."""

HOSTED_TOOLS = (
    "advisor_",
    "bash_",
    "browser_toolset_",
    "code_execution_",
    "computer_",
    "mcp_toolset",
    "memory_",
    "text_editor_",
    "tool_search_tool_",
    "web_fetch_",
    "web_search_",
)
"""Prefixes of the types of Anthropic-defined and server tools; a date follows."""

UNJUDGED = "the upstream does not judge what tools are called with"
"""Why `safeguards` cannot be sent: an agent that asks for them would rely on them."""

OF_VENDOR: dict[str, tuple[LossKind, str]] = {
    "safeguards": (_CONTENT, UNJUDGED),
    "tags": (_KNOB, "these tags are not for this upstream"),
}
"""Top-level members of requests that only the vendor's own service has: what leaving one out means,
and why it is."""

NEGOTIATED = frozenset({"safeguards"})
"""Those that clients leave out themselves once they were refused."""

EFFORTS = ("low", "medium", "high", "xhigh", "max")

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")

MAX_CACHE_MARKS = 4
"""Cache marks the service takes in one request, the top-level one included."""

ID_LIMIT = 128
"""Longest tool call id written; the service states a pattern only."""

NAME_LIMIT = 128
"""Longest tool name."""

BILLING_HEADER = "x-anthropic-billing-header:"
"""Beginning of Claude Code's first system text: a nonce of each request, not for a model."""

CITATION_FIELDS = frozenset({"type", "url", "source", "title", "cited_text"})
"""Members of a cited web page with a canonical counterpart."""

USAGE_FIELDS = frozenset(
    {
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens_details",
        "service_tier",
        "speed",
        # Splits and counters for the vendor's own invoice: no protocol but this one has them,
        # and their sums are in the totals.
        "cache_creation",
        "fallback_credit",
        "inference_geo",
        "iterations",
        "server_tool_use",
    }
)

REFUSAL_CATEGORIES = frozenset(
    {"cyber", "bio", "frontier_llm", "reasoning_extraction", "general_harms"}
)
