"""OpenAI Responses on the wire: vocabularies.

Tables only. Sources: the types of openai-python 3.54.0 (`openai/types/responses`), the Open
Responses schema, and what real clients were seen to send.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "openai_responses"
VENDOR: Final = "openai"
"""The vendor of the protocol's file store and hosted tools."""

TOOL_NAME_LIMIT: Final = 64
CALL_ID_LIMIT: Final = 64
"""Longest `call_id` (Open Responses schema, items.tsp)."""
MIN_OUTPUT_TOKENS: Final = 16
"""Smallest `max_output_tokens` the service takes (Open Responses schema)."""

ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"
LOGPROBS: Final = "message.output_text.logprobs"

SERVICE_TIERS: Final = frozenset(
    {"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"}
)
MAX_CACHE_MARKS: Final = 4
"""Prompt cache breakpoints the service takes in one request."""
CACHE_TTLS: Final = ("30m", "12h")
"""Lifetimes a prompt cache breakpoint can name."""

FOREIGN_ASSISTANT_ITEMS: Final = frozenset(
    {
        "file_search_call",
        "web_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_list_tools",
        "mcp_call",
        "mcp_approval_request",
        "computer_call",
        "tool_search_call",
        "program",
        "program_output",
        "compaction",
    }
)
"""Items of the model's side that only this protocol can express (3.6.4: lost content)."""

HOSTED_ITEMS: Final = FOREIGN_ASSISTANT_ITEMS - {"image_generation_call"}
"""Items of the vendor's own tools: not content for the client."""

FOREIGN_USER_ITEMS: Final = frozenset(
    {
        "mcp_approval_response",
        "computer_call_output",
        "tool_search_output",
        "compaction_trigger",
    }
)
"""Items of the user's side that only this protocol can express (3.6.4: lost content)."""

CLIENT_ACTIONS: Final = frozenset(
    {
        "mcp_approval_request",
        "computer_call",
        "shell_call",
        "apply_patch_call",
        "local_shell_call",
    }
)
"""Output items that wait for something only a client of this protocol can do (3.7.3)."""

HOSTED_TOOLS: Final = (
    "file_search",
    "web_search",
    "web_search_preview",
    "code_interpreter",
    "image_generation",
    "mcp",
    "tool_search",
    "programmatic_tool_calling",
    "computer",
    "computer_use",
    "computer_use_preview",
    "local_shell",
    "shell",
    "apply_patch",
)
"""Tool types that the vendor runs or describes; some have versions with a date at the end."""

SEARCH_TOOL: Final = "tool_search"
"""The tool without which deferred tools would never be found."""

IGNORED_EVENTS: Final = frozenset(
    {
        "response.reasoning_summary_part.added",
        "keepalive",
        "ping",
    }
)
"""Redundant events: the start of a part is known from its first piece, and the last two (the second
one of other gateways) only keep a connection open."""

HOSTED_PROGRESS: Final = (
    "response.web_search_call.",
    "response.file_search_call.",
    "response.code_interpreter_call",
    "response.image_generation_call.",
    "response.mcp_call",
    "response.mcp_list_tools.",
    "response.shell_call",
    "response.apply_patch_call",
    "response.compaction.",
)
"""Beginnings of event types about hosted items. The item itself is reported when it is done."""
