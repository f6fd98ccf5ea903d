"""What a route may choose, and what an upstream can do: the settings translation depends on."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from dragoman.canonical.losses import Policy


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How requests and answers of one route are translated."""

    policy: Policy = Policy.BALANCED
    """Which losses refuse a request: strict, balanced or lenient."""
    show_reasoning: Literal["auto", "always", "never"] = "auto"
    """Whether clients see reasoning. `auto`: Messages clients that enabled thinking, and all
    Chat and Responses clients."""
    reasoning_details: bool = False
    """Give Chat clients `reasoning_details` entries that carry signatures and encrypted
    reasoning, so that they can send them back."""
    reasoning_field: Literal["reasoning_content", "reasoning", "both"] = "reasoning_content"
    """The field in which Chat clients are given reasoning text."""
    reasoning_as: Literal["content", "summary"] = "content"
    """How raw reasoning text of an upstream is shown to Responses clients."""
    invalid_tool_arguments: Literal["wrap", "error", "empty"] = "wrap"
    """Tool arguments in a client's history that are not a JSON object: wrapped as
    `{"invalid_arguments": text}` and reported, refused, or replaced by `{}` and reported."""
    custom_tools: Literal["wrap", "reject"] = "wrap"
    """Free-text tools where the upstream has none: emulated by a function with one string,
    or treated as lost content."""
    hosted_tools: Literal["drop", "reject", "map"] = "drop"
    """Vendor-run tools where the upstream has none: dropped and reported, or treated as lost
    content. `map` makes a web search of one vendor the other's, between Messages and Responses and
    from Chat's `web_search_options`, and drops the others."""
    late_system: Literal["message", "hoist", "user"] = "message"
    """System messages after the beginning of the conversation, toward Messages upstreams: kept
    in place where legal (else hoisted), always moved to the front, or given as user text."""
    trailing_assistant: Literal["pass", "reject"] = "pass"
    """A final assistant message toward Messages upstreams, where it becomes a prefill."""
    orphan_calls: Literal["repair", "reject"] = "repair"
    """Tool calls without a result: a synthetic error result is added, or the request refused."""
    orphan_results: Literal["reject", "drop", "text"] = "reject"
    """Tool results without a call: refused as lost content, dropped, or given as user text."""
    tool_error_prefix: str = ""
    """Text put before a failed tool's output where the upstream has no error flag."""
    interleaved_tools: Literal["buffer", "error"] = "buffer"
    """Fragments of a tool call that is no longer the open one: buffered, or an upstream error."""
    refusal_as: Literal["incomplete", "completed"] = "incomplete"
    """Status shown to Responses clients when a classifier stopped the output."""
    responses_done: bool = False
    """Write `data: [DONE]` after the terminal event of a Responses stream."""
    keepalive: Literal["usual", "numbered", "off"] = "usual"
    """Signs of life in silent streams: what every client of the protocol ignores, in Responses
    streams `ping` events that count in the sequence, or none."""
    error_style: Literal["openai", "openresponses"] = "openai"
    """Names and statuses of errors for Responses clients: the official API's or Open Responses'."""
    failure_events: Literal["error_and_failed", "failed"] = "error_and_failed"
    """How a Responses stream tells of a failure: an `error` event before `response.failed`, or
    `response.failed` alone."""
    tool_turn: Literal["completed", "required_action"] = "completed"
    """How an answer that calls tools ends for Responses clients: completed, or incomplete with a
    `required_action` that `submit_tool_outputs` answers."""
    response_fields: Literal["all", "classic"] = "all"
    """Fields of a response object: all that any client reads, or the 22 of the API's first year."""
    stop_on_responses: Literal["reject", "drop", "emulate"] = "reject"
    """Stop sequences toward Responses upstreams, which have none: treated as lost content,
    dropped, or emulated, so that the answer is cut here at the first and the upstream's call
    ended. What Chat upstreams (more than four) and Messages upstreams (blank ones) do not take is
    emulated then, too."""
    default_max_tokens: int = 16384
    """Output limit, in tokens, sent to Messages upstreams when the client gave none."""
    map_fast: bool = False
    """Translate `service_tier: fast|priority` to and from `speed: fast`."""

    @property
    def reshapes_responses(self) -> bool:
        """Whether Responses clients are shown what no upstream writes, so that its answers cannot
        be passed through as they are."""
        return (
            self.responses_done
            or self.keepalive == "numbered"
            or self.failure_events == "failed"
            or self.tool_turn == "required_action"
            or self.response_fields == "classic"
        )


class Capabilities(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one upstream accepts and needs."""

    anthropic_version: str = "2026-10-21"
    """Value of the `anthropic-version` header. With `2023-06-01`, temperature, top_p and top_k
    are sent; with later versions they are refused upstream and therefore dropped here."""
    system_role: Literal["system", "developer"] = "system"
    """Role of leading system text toward Chat upstreams."""
    system_as_string: bool = False
    """Join several system texts by a blank line, for Chat servers that want strings."""
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """Name of the output limit toward Chat upstreams."""
    max_output_tokens: int | None = None
    """The model's output limit, in tokens; larger requests are fitted to it and reported."""
    stream_above: int | None = None
    """Whole answers that may have more tokens than this are asked for as streams and put together
    here, where they are translated: what is silent for minutes is cut by proxies on the way.
    Absent: 21,333 for Messages upstreams, above which the vendor's SDKs refuse to wait, and no
    such limit for others."""
    stream_usage: bool = True
    """Ask Chat upstreams for a usage chunk in streams."""
    tool_message_images: bool = False
    """Chat upstream takes images and files inside tool messages."""
    chat_files: bool = True
    """Chat upstream takes file parts (PDF)."""
    images: bool = True
    """The upstream takes images."""
    custom_tools_native: bool = False
    """Chat upstream knows free-text (custom) tools."""
    strict_tools: bool = True
    """The upstream takes `strict` on function tools."""
    structured_output: bool = True
    """The upstream takes a JSON schema for its answer."""
    sampling: bool = True
    """The upstream takes temperature and top_p (reasoning models do not)."""
    top_k: bool = False
    """Chat upstream takes `top_k` as an extension."""
    replay_reasoning: Literal["never", "tool_turns", "always"] = "never"
    """Whether readable reasoning of earlier turns is sent back to Chat upstreams."""
    effort: Literal["effort", "chat_template_kwargs", "enable_thinking", "none"] = "effort"
    """How a Chat upstream is asked to think: `reasoning_effort`, `chat_template_kwargs`,
    `enable_thinking`, or not at all."""
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    """Effort words the upstream knows; others are replaced by the nearest lower one."""
    adaptive_thinking: bool = True
    """Messages upstream takes `thinking: adaptive` with an effort; otherwise token budgets."""
    disable_thinking: bool = True
    """Messages upstream takes `thinking: disabled`."""
    thinking_budgets: dict[str, int] = field(
        default_factory=lambda: {
            "minimal": 1024,
            "low": 2048,
            "medium": 8192,
            "high": 16384,
            "xhigh": 32768,
            "max": 65536,
        }
    )
    """Token budget per effort for Messages upstreams without adaptive thinking."""
    system_in_messages: bool = True
    """Messages upstream takes system messages inside the conversation."""
    reasoning_with_tools: bool = True
    """Chat upstream takes function tools together with reasoning, which OpenAI's newest models
    refuse on that protocol; otherwise it is asked not to reason, and that is reported."""
    prompt_cache_breakpoints: bool = False
    """OpenAI-shaped upstream takes explicit prompt cache breakpoints on content parts."""
    billing_header: bool | None = None
    """Messages upstream is sent the text that Claude Code puts before its system prompt, which
    bills a subscription and is new with every request: before any other service's prompt cache it
    spoils all that follows. Absent: only where the host of `base_url` is Anthropic's own."""
    auto_cache: bool = False
    """Ask Messages upstreams to cache by themselves, as OpenAI upstreams do."""
    cache_ttl_30m_as: Literal["5m", "1h"] = "5m"
    """Cache lifetime asked of Messages upstreams for OpenAI's 30 minutes."""
    encrypted_reasoning: bool = True
    """Ask Responses upstreams for encrypted reasoning so that it can be sent back."""
