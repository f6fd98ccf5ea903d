"""Words for how an answer ended, as official and compatible servers send them, in lower case.

Servers and bridges mix the vocabularies of all vendors, so there is one table for every protocol.
Sources: `finish_reason` of openai, `stop_reason` of anthropic, `finishReason` of Google's API, and
what compatible servers were seen to send.
"""

from __future__ import annotations

STOP_WORDS = frozenset(
    {
        "stop",
        "stopped",
        "stop_sequence",
        "stop_sequence_reached",
        "eos",
        "eos_token",
        "eot",
        "end",
        "end_of_text",
        "end_of_turn",
        "end_turn",
        "complete",
        "completed",
        "done",
        "finish",
        "finished",
        "success",
    }
)
LENGTH_WORDS = frozenset(
    {
        "length",
        "incomplete",
        "max_length",
        "max_new_tokens",
        "max_output_tokens",
        "max_tokens",
        "model_context_window_exceeded",
        "model_length",
        "token_limit",
    }
)
TOOL_WORDS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
FILTER_WORDS = frozenset(
    {
        "blocklist",
        "content_filter",
        "content_filtered",
        "guardrail_intervened",
        "image_prohibited_content",
        "image_recitation",
        "image_safety",
        "language",
        "model_armor",
        "prohibited_content",
        "recitation",
        "refusal",
        "safety",
        "sensitive",
        "spii",
    }
)
FAILURE_WORDS = frozenset(
    {
        "abort",
        "aborted",
        "cancel",
        "canceled",
        "cancelled",
        "error",
        "failed",
        "failure",
        "finish_reason_unspecified",
        "insufficient_system_resource",
        "interrupted",
        "malformed_function_call",
        "malformed_response",
        "missing_thought_signature",
        "network_error",
        "other",
        "overloaded",
        "server_error",
        "time_limit",
        "timeout",
        "too_many_tool_calls",
        "unexpected_tool_call",
        "unknown",
    }
)
