"""Translation settings of the Chat protocol."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class ChatOptions(Struct, frozen=True, kw_only=True):
    """How Chat clients are answered."""

    reasoning_field: Literal["reasoning_content", "reasoning", "both"] = "reasoning_content"
    """The field in which Chat clients are given reasoning text."""


class ChatCapabilities(Struct, frozen=True, kw_only=True):
    """What one Chat upstream accepts and needs."""

    system_role: Literal["system", "developer"] = "system"
    """Role of leading system text toward Chat upstreams."""
    alternating_turns: bool = False
    """The model's chat template wants user and assistant messages in turn: neighbouring user
    messages are joined, and user text after tool results is put into the last of them."""
    short_call_ids: bool = False
    """Chat upstream takes only ids of tool calls of nine letters or digits: others are hashed."""
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """Name of the output limit toward Chat upstreams."""
    stream_usage: bool = True
    """Ask Chat upstreams for a usage chunk in streams."""
    tool_message_images: bool = False
    """Chat upstream takes images and files inside tool messages."""
    chat_files: bool = True
    """Chat upstream takes file parts (PDF)."""
    custom_tools_native: bool = False
    """Chat upstream knows free-text (custom) tools."""
    top_k: bool = False
    """Chat upstream takes `top_k` as an extension."""
    replay_reasoning: Literal["never", "tool_turns", "always"] = "never"
    """Whether readable reasoning of earlier turns is sent back to Chat upstreams."""
    effort: Literal["effort", "chat_template_kwargs", "enable_thinking", "none"] = "effort"
    """How a Chat upstream is asked to think: `reasoning_effort`, `chat_template_kwargs`,
    `enable_thinking`, or not at all."""
    reasoning_with_tools: bool = True
    """Chat upstream takes function tools together with reasoning, which OpenAI's newest models
    refuse on that protocol; otherwise it is asked not to reason, and that is reported."""
