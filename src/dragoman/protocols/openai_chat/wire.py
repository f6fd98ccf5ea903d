"""Chat Completions on the wire: field tables, words and limits. No logic.

The shapes are those of the `openai` package 3.54.0 (`types/chat/*`, `types/completion_usage.py`),
and what compatible servers add to them.
"""

from __future__ import annotations

import re

from dragoman.canonical.losses import LossKind
from dragoman.protocols.reading import Lost

NAME = "openai_chat"
"""The protocol's name, also the origin of blocks that only it can express."""

VENDOR = "openai"
"""Whose file store `file_id` names."""

KNOB, CONTENT = LossKind.KNOB, LossKind.CONTENT

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
READ_CALL_ID = re.compile(r"functions\.[A-Za-z0-9_-]+:\d+")
"""Ids that their makers (Kimi K2 and its servers) parse later, so they must not change."""

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

CHUNK_FIELDS = frozenset(
    {
        "id",
        "created",
        "model",
        "choices",
        "usage",
        "service_tier",
        "system_fingerprint",  # names the upstream's build, in every answer; only seed needs it
        "object",  # always the same word
        "obfuscation",  # random padding
        "metadata",  # the client's own, echoed
        "prompt_filter_results",  # Azure's scores of the prompt, not about the answer
        "provider",  # which server a router chose
    }
)
"""Top-level fields of answers and chunks that are read, or leave nothing to report."""

CHOICE_FIELDS = frozenset(
    {
        "index",
        "delta",
        "message",
        "text",  # of the older completions
        "finish_reason",
        "logprobs",
        "stop_reason",  # vLLM: the stop sequence that matched
        "matched_stop",  # SGLang: the same
        "native_finish_reason",  # a router's copy of finish_reason
        "content_filter_results",  # Azure's scores; a filtered answer has it as finish_reason
        "token_ids",  # vLLM: the tokens whose text is in the delta
    }
)

SPEECH_FIELDS = frozenset({"role", "content", "refusal", "annotations"})
"""Members of a message other than reasoning and calls."""

DELTA_FIELDS = SPEECH_FIELDS | frozenset(
    {
        "tool_calls",
        "function_call",
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "thinking",
        "reasoning_text",
    }
)

ANSWER: dict[str, Lost] = {
    "audio": Lost(CONTENT, "audio cannot be translated"),
    "moderation": Lost(KNOB, "has no counterpart downstream"),
    "citations": Lost(KNOB, "a list of sources without places"),
}
"""Fields of answers without a canonical home."""

UNREAD = Lost(CONTENT, "nobody reads it")
"""A member of a message in no table: possibly part of the answer."""

BESIDES: dict[str, Lost] = ANSWER | dict.fromkeys(
    (
        "cache_control",
        "channel",  # Groq: reasoning or not, as the delta's members show
        "content_filter_results",
        "context",  # Azure: what it searched
        "executed_tools",  # Groq: what its own tools did
        "extra_content",  # Google: signatures of thoughts
        "id",
        "name",
        "padding",
        "prefix",
        "prompt_token_ids",
        "provider_specific_fields",  # LiteLLM: repeats other members
        "reasoning_signature",
        "search_results",
        "sources",
        "thinking_blocks",  # LiteLLM: the reasoning once more
        "thought_signature",
        "token_ids",
        "tool_call_id",
        "type",
        "web_search",
    ),
    Lost(KNOB, "not what the model said"),
)
"""Members of messages in answers that are not content."""

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
