"""Chat Completions on the wire: field tables, words and limits. No logic.

The shapes are those of the `openai` package 3.54.0 (`types/chat/*`, `types/completion_usage.py`),
and what compatible servers add to them.
"""

from __future__ import annotations

import re

NAME = "openai_chat"
"""The protocol's name, also the origin of blocks that only it can express."""

VENDOR = "openai"
"""Whose file store `file_id` names."""

# --- requests -----------------------------------------------------------------------------------

WEB_SEARCH = "web_search_options"
"""Turns on the vendor's own search, as a hosted tool does in the other protocols."""

ROLES = ("developer", "system", "user", "assistant", "tool", "function")
SERVICE_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})
CACHE_TTLS = frozenset({"30m", "12h"})

MAX_STOPS = 4
MAX_CACHE_MARKS = 4
MAX_CALL_ID = 40
"""Longest tool call id in a request; the service answers "string too long" to more."""
CALL_ID = re.compile(r"[A-Za-z0-9_-]+|functions\.[A-Za-z0-9_-]+:\d+")
"""Ids that are sent as they are. The makers of the second form (Kimi K2 and its servers) parse it
later, so it must not change."""

PDF = "application/pdf"
MEDIA_TYPES = {
    "pdf": PDF,
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "xml": "application/xml",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
"""Media type by file name ending, for files given as bare base64."""

# --- answers ------------------------------------------------------------------------------------

OFFICIAL_USAGE = frozenset(
    {
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "prompt_tokens_details",
        "completion_tokens_details",
    }
)
USAGE_FIELDS = OFFICIAL_USAGE | frozenset(
    {
        "cached_tokens",  # Moonshot
        "prompt_cache_hit_tokens",  # DeepSeek
        "prompt_cache_miss_tokens",  # DeepSeek: the rest of prompt_tokens
        "reasoning_tokens",  # servers that count reasoning at the top level
    }
)
PROMPT_DETAILS = frozenset({"cached_tokens", "cache_write_tokens"})
COMPLETION_DETAILS = frozenset({"reasoning_tokens"})
