"""OpenAI Responses on the wire: vocabularies and, for every object, the fields without a
canonical home.

Tables only. Sources: the types of openai-python 3.54.0 (`openai/types/responses`), the Open
Responses schema, and what real clients were seen to send.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.losses import LossKind
from dragoman.protocols.fields import Field

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
SUMMARIES: Final = ("auto", "concise", "detailed")
VERBOSITIES: Final = ("low", "medium", "high")
ROLES: Final = ("user", "assistant", "system", "developer")
DETAILS: Final = ("auto", "low", "high", "original")
MAX_CACHE_MARKS: Final = 4
"""Prompt cache breakpoints the service takes in one request."""
CACHE_TTLS: Final = ("30m", "12h")
"""Lifetimes a prompt cache breakpoint can name."""

_KNOB = LossKind.KNOB
_CONTENT = LossKind.CONTENT

BACKGROUND_DETAIL: Final = "answers are made at once, each for itself"
"""Members for background requests, without meaning for a synchronous answer."""

REQUEST: Final[dict[str, Field]] = {
    "previous_response_id": Field(
        _CONTENT,
        "the earlier response is not stored here; send the whole conversation as input",
        code="previous_response_not_found",
    ),
    "conversation": Field(
        _CONTENT, "conversations are not stored here; send the whole conversation as input"
    ),
    "prompt": Field(_CONTENT, "prompt templates are stored at OpenAI; send their text as input"),
    "background": Field(_CONTENT, "answers are not made in the background", neutral=(False,)),
    "background_options": Field(
        _KNOB, BACKGROUND_DETAIL, neutral=({}, {"completion_window": "soonest"})
    ),
    "max_tool_calls": Field(_KNOB, "hosted tool calls are not limited"),
    "truncation": Field(_KNOB, "input is never truncated", neutral=("disabled",)),
    "context_management": Field(_KNOB, "context is not managed upstream", neutral=([],)),
    "access_programs": Field(_KNOB),
    "image": Field(_KNOB, neutral=({}, {"context_compression": "auto"})),
    "client_metadata": Field(_KNOB, "telemetry of the client", neutral=({},)),
    "presence_penalty": Field(_KNOB, neutral=(0, 0.0)),
    "frequency_penalty": Field(_KNOB, neutral=(0, 0.0)),
}
STREAM_OPTIONS: Final[dict[str, Field]] = {
    "include_obfuscation": Field(_KNOB, "streams are not padded", neutral=(False,)),
}
REASONING_OPTIONS: Final[dict[str, Field]] = {
    "context": Field(_KNOB, neutral=("auto",)),
    "mode": Field(_KNOB, neutral=("standard",)),
}
_STATUS = Field(_KNOB, "every item of a history counts as completed", neutral=("completed",))

ITEM: Final[dict[str, Field]] = {"status": _STATUS}
MESSAGE: Final[dict[str, Field]] = {
    **ITEM,
    "phase": Field(_KNOB, "only the model's own messages have a phase"),
}
_MACHINE = Field(_KNOB, "the tool runs on the client's machine", neutral=({"type": "local"},))
CALL: Final[dict[str, Field]] = {
    **ITEM,
    "environment": _MACHINE,
    "caller": Field(_KNOB, neutral=({"type": "direct"},)),
    "async": Field(_KNOB, neutral=(False,)),
}
OUTPUT: Final[dict[str, Field]] = {
    **ITEM,
    "max_output_length": Field(_KNOB, "the result is given as it is"),
    "caller": Field(_KNOB, neutral=({"type": "direct"},)),
    "name": Field(_KNOB, "the call has it too"),
    "namespace": Field(_KNOB, "the call has it too"),
}
TOOL: Final[dict[str, Field]] = {
    "environment": _MACHINE,
    "async": Field(_CONTENT, "tools cannot run asynchronously", neutral=(False,)),
    "output_schema": Field(_KNOB),
    "allowed_callers": Field(_KNOB, neutral=(["direct"], [])),
}
WEB_SEARCH: Final[dict[str, Field]] = {
    "external_web_access": Field(
        LossKind.CONVERTED, "the upstream searches the live web", neutral=(True,)
    ),
    "search_content_types": Field(_KNOB, "texts are searched", neutral=(["text"], [])),
}
"""The service's search of the web, where another vendor's takes its place."""
WEB_FILTERS: Final[dict[str, Field]] = {
    "blocked_domains": Field(_CONTENT, "no domain can be kept out upstream", neutral=([],)),
}
FILE_PART: Final[dict[str, Field]] = {
    "detail": Field(_KNOB, neutral=("auto",)),
}

IGNORED: Final[dict[str, str]] = {
    "id": "names an item in the vendor's store, where nothing is looked up",
}
"""Fields of input items that are left out without a report, and why."""

IGNORED_INCLUDE: Final[dict[str, str]] = {
    ENCRYPTED_REASONING: "reasoning state is always given",
}
"""Values of `include` for members that every answer has."""

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

EVENT_FIELDS: Final = frozenset(
    {
        "type",
        "sequence_number",
        "item_id",
        "output_index",
        "content_index",
        "summary_index",
        "annotation_index",
        "response",
        "item",
        "part",
        "delta",
        "text",
        "refusal",
        "arguments",
        "input",
        "name",
        "annotation",
        "logprobs",
        "status",
        "obfuscation",
    }
)
"""Fields of events that are read, or (`obfuscation`: padding against traffic analysis) mean
nothing."""

ITEM_FIELDS: Final[dict[str, frozenset[str]]] = {
    "message": frozenset({"type", "id", "status", "role", "content", "phase"}),
    "reasoning": frozenset({"type", "id", "status", "summary", "content", "encrypted_content"}),
    "function_call": frozenset(
        {"type", "id", "status", "call_id", "name", "arguments", "namespace"}
    ),
    "custom_tool_call": frozenset(
        {"type", "id", "status", "call_id", "name", "input", "namespace"}
    ),
}
"""Fields of the output items that are read."""

ECHO: Final = frozenset(
    {
        "background",
        "completed_at",
        "frequency_penalty",
        "image",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "output_text",
        "parallel_tool_calls",
        "presence_penalty",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    }
)
"""Fields of a response that repeat the request (the client's own is repeated to the client) or
its output."""

RESPONSE_FIELDS: Final = ECHO | {
    "id",
    "object",
    "created_at",
    "model",
    "status",
    "output",
    "error",
    "incomplete_details",
    "usage",
    "service_tier",
    "moderation",
}
"""Fields of a response that are read or repeat the request; others are reported."""

USAGE_FIELDS: Final = {
    "input_tokens_details": frozenset({"cached_tokens", "cache_write_tokens"}),
    "output_tokens_details": frozenset({"reasoning_tokens"}),
}
"""Token counts that are read; finer ones are reported."""
