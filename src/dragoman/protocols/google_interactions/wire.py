"""Names and words of Google's Interactions API."""

from __future__ import annotations

from typing import Final

NAME: Final = "google_interactions"
PATH: Final = "/interactions"

REVISION: Final = "2026-05-20"
"""The revision of the schema that is spoken: the first with `steps`."""

CONTENTS: Final = frozenset({"text", "image", "audio", "document", "video"})
"""Types of content."""

MEDIA: Final = CONTENTS - {"text"}

USERS_STEPS: Final = ("user_input", "function_result")

SEARCH: Final = "google_search"
SEARCH_CALL: Final = "google_search_call"
SEARCH_RESULT: Final = "google_search_result"
MCP: Final = "mcp_server_tool"

HOSTED: Final = (
    SEARCH,
    "url_context",
    "code_execution",
    "google_maps",
    "file_search",
    "retrieval",
    "tool_search",
    "processing",
    MCP,
)
"""Tools that the vendor runs: what they do is in steps `..._call` and `..._result`."""

HOSTED_STEPS: Final = frozenset(f"{tool}_{end}" for tool in HOSTED for end in ("call", "result"))

BLOCKED: Final = frozenset(
    {
        *("safety", "recitation", "language", "prohibited_content", "spii", "blocklist"),
        *("content_blocked", "image_safety", "image_prohibited_content", "image_recitation"),
        "image_other",
    }
)
"""Codes of errors for what a filter withheld."""
CONTENT_BLOCKED: Final = "content_blocked"
