"""What Anthropic's Messages endpoint refuses.

Shapes: ``types/message_create_params.py`` and its neighbours in the anthropic package. The
relations between fields are the service's own rules.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.validation.messages_turns import (
    AssistantMessage,
    CacheControl,
    Message,
    TextBlock,
    ToolName,
    Turns,
    check_thinking_first,
)
from dragoman.lab.simulator.validation.refusals import Refusal, answering, dotted
from dragoman.lab.simulator.validation.schemas import check_input_schema, check_structured
from dragoman.lab.simulator.validation.shapes import (
    Maybe,
    Natural,
    NonEmpty,
    NoOther,
    Shape,
    Share,
    convert,
    shape,
)
from dragoman.lab.simulator.view import JsonObject

Caller = Annotated[str, Meta(pattern=r"^(direct|code_execution_20\d{6})\Z")]


class AnyTool(Shape, kw_only=True):
    """What all tools have."""

    type: str | None = None
    cache_control: CacheControl | None = None


class CustomTool(AnyTool, kw_only=True):
    """A tool that the client carries out."""

    allowed_callers: list[Caller] | None = None
    defer_loading: bool | None = None
    description: str | None = None
    eager_input_streaming: bool | None = None
    input_examples: list[dict[str, Any]] | None = None
    input_schema: dict[str, Any]
    name: ToolName
    strict: bool | None = None

    def __post_init__(self) -> None:
        check_input_schema(self.input_schema, strict=bool(self.strict))


class OwnTool(AnyTool, kw_only=True):
    """A tool whose schema is the vendor's."""

    defer_loading: bool | None = None
    name: str | None = None


_USUAL = "allowed_callers? strict?"
_DOMAINS = f"{_USUAL} allowed_domains? blocked_domains? max_uses? response_inclusion?"
_FETCH = f"{_DOMAINS} citations? max_content_tokens? url_sources? use_cache?"
_EXAMPLES = f"{_USUAL} input_examples?"
_OWN_TOOLS: tuple[tuple[str, Any], ...] = (
    (r"(bash|memory)_20\d{6}", shape(None, _EXAMPLES, base=OwnTool)),
    (r"text_editor_20\d{6}", shape(None, f"{_EXAMPLES} max_characters?", base=OwnTool)),
    (r"code_execution_20\d{6}", shape(None, _USUAL, base=OwnTool)),
    (r"tool_search_tool_(bm25|regex)(_20\d{6})?", shape(None, _USUAL, base=OwnTool)),
    (r"web_search_20\d{6}", shape(None, f"{_DOMAINS} user_location?", base=OwnTool)),
    (r"web_fetch_20\d{6}", shape(None, _FETCH, base=OwnTool)),
    (r"(computer|browser)_toolset_20\d{6}", shape(None, "configs?", base=AnyTool)),
    # Behind a beta, and not looked into.
    (r"(computer|advisor)_20\d{6}|mcp_toolset", shape(base=OwnTool, closed=False)),
)
"""The vendor's own tools by their dated types."""

ToolChoice = shape("tool", name=str, disable_parallel_tool_use=bool | None)
AnyChoice = shape("any", disable_parallel_tool_use=bool | None)
AutoChoice = shape("auto", disable_parallel_tool_use=bool | None)
Choice = AutoChoice | AnyChoice | ToolChoice | shape("none")


def check_tools(values: list[Any], choice: Any) -> set[str]:
    """Check the tools, and that they allow the choice; returns the tools' names.

    Raises:
        Refusal: a rule is broken.
    """
    tools = [_converted(value, "tools", index) for index, value in enumerate(values)]
    names = [tool.name for tool in tools if getattr(tool, "name", None)]
    if len(set(names)) < len(names):
        raise Refusal("Tool names must be unique.", "tools")
    deferred = [bool(getattr(tool, "defer_loading", None)) for tool in tools]
    if tools and all(deferred):
        text = "At least one tool must have defer_loading=false. All tools cannot be deferred."
        raise Refusal(text, "tools")
    for index, tool in enumerate(tools):
        if deferred[index] and tool.cache_control:
            raise Refusal("Tools with defer_loading cannot use prompt caching", "tools", index)
    if choice is not None and not tools:
        raise Refusal("may only be specified while providing tools", "tool_choice")
    if isinstance(choice, ToolChoice) and choice.name not in names:
        text = f"Tool '{choice.name}' not found in provided tools"
        raise Refusal(text, "tool_choice", "name")
    return set(names)


def _converted(value: Any, *at: str | int) -> Any:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind in (None, "custom"):
        return convert(value, CustomTool, *at, "custom")
    convert(kind, str, *at, "type")
    for pattern, declared in _OWN_TOOLS:
        if re.fullmatch(pattern, kind):
            return convert(value, declared, *at, kind)
    detail = f"Input tag '{kind[:60]}' found using 'type' does not match any of the expected tags"
    raise Refusal(detail, *at)


NEW_VERSION = "2026-10-21"
VERSIONS = ("2023-06-01", NEW_VERSION)
_SAMPLING = ("temperature", "top_p", "top_k")
_BETA_FIELDS: dict[str, str] = {
    "context_management": "context-management-",
    "mcp_servers": "mcp-client-",
    "fallbacks": "",
    "fallback_credit_token": "",
    "compaction": "",
    "billing_policy": "",
    "output_format": "structured-outputs-",
    "safeguards": "",
}
"""Body fields that need a beta, and how the beta's name begins."""

_MAX_CACHE_MARKS = 4


class OutputFormat(Shape):
    type: Literal["json_schema"]
    schema: dict[str, Any]

    def __post_init__(self) -> None:
        check_structured(self.schema, "schema")


class ShownThinking(Shape, kw_only=True):
    block_binding: Any = None
    display: Literal["summarized", "omitted", "updates"] | None = None


EnabledThinking = shape("enabled", base=ShownThinking, budget_tokens=Annotated[int, Meta(ge=1024)])
AdaptiveThinking = shape("adaptive", base=ShownThinking)
Thinking = EnabledThinking | AdaptiveThinking | shape("disabled") | shape("between_tools")
OutputConfig = shape(
    effort=Literal["low", "medium", "high", "xhigh", "max"] | None,
    format=OutputFormat | None,
    task_budget=Maybe,
)
ContextManagement = shape(edits=Maybe)
Metadata = shape(user_id=Annotated[str, Meta(max_length=512)] | None)
Skill = shape(skill_id=Any, type=Any, version=Maybe)
Container = shape(id=Maybe, skills=list[Skill] | None)
Diagnostics = shape(previous_message_id=Maybe)


class CountTokensRequest(Shape, kw_only=True):
    """What ``count_tokens`` takes."""

    messages: Annotated[list[Message], Meta(max_length=100_000)]
    model: NonEmpty
    billing_policy: Any = None
    cache_control: CacheControl | None = None
    compaction: Any = None
    context_management: ContextManagement | None = None
    fallback_credit_token: Any = None
    fallbacks: Any = None
    mcp_servers: Any = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    safeguards: Any = None
    speed: Literal["standard", "fast"] | None = None
    system: str | list[TextBlock | NoOther] | None = None
    temperature: Share | None = None
    thinking: Thinking | None = None
    tool_choice: Choice | None = None
    tools: list[Any] | None = None
    top_k: Natural | None = None
    top_p: Share | None = None


class MessagesRequest(CountTokensRequest, kw_only=True):
    max_tokens: Natural
    container: str | Container | None = None
    diagnostics: Diagnostics | None = None
    inference_geo: str | None = None
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None

    def __post_init__(self) -> None:
        for index, sequence in enumerate(self.stop_sequences or ()):
            if not sequence.strip():
                detail = "each stop sequence must contain non-whitespace"
                raise Refusal(detail, "stop_sequences", index)
        thinking = self.thinking
        if isinstance(thinking, EnabledThinking) and thinking.budget_tokens >= self.max_tokens:
            text = "`max_tokens` must be greater than `thinking.budget_tokens`."
            raise Refusal(text, "max_tokens")


def check_messages(
    request: JsonObject, headers: Mapping[str, str], organization: str, *, counting: bool = False
) -> None:
    """Check a Messages request, or with ``counting`` one of ``count_tokens``.

    ``headers`` have lower-case names; ``organization`` owns the thinking signatures.

    Raises:
        ApiError: 400, naming the first field at fault.
    """
    version = headers.get("anthropic-version")
    if version is None:
        raise ApiError(400, "anthropic-version: header is required")
    if version not in VERSIONS:
        raise ApiError(400, f"anthropic-version: '{version[:50]}' is not a valid version")
    if request.get("thread") is not None:
        raise ApiError(
            400,
            "thread: conversations stored by the server are not supported here",
            details_code="thread_unsupported_request",
            param="thread",
        )
    betas = [beta.strip() for beta in headers.get("anthropic-beta", "").split(",") if beta.strip()]
    with answering(dotted):
        _check_fields(request, version, betas)
        declared = CountTokensRequest if counting else MessagesRequest
        checked: CountTokensRequest = convert(request, declared)
        output = checked.output_config
        if output is not None and output.task_budget is not None and not betas:
            raise Refusal("The field is not known here", "output_config", "task_budget")
        _check_thinking(checked)
        tools = check_tools(checked.tools or [], checked.tool_choice)
        is_old = version != NEW_VERSION
        Turns(organization, tools, is_old=is_old, has_betas=bool(betas)).check(checked.messages)
        _check_prefill(checked)
        if isinstance(checked.thinking, EnabledThinking):
            check_thinking_first(checked.messages)
        _check_cache_marks(request)


def _check_fields(request: JsonObject, version: str, betas: list[str]) -> None:
    for name in request:
        if name in _SAMPLING and version == NEW_VERSION:
            raise Refusal(f"this parameter was removed in API version {NEW_VERSION}", name)
        if name in _BETA_FIELDS and not any(beta.startswith(_BETA_FIELDS[name]) for beta in betas):
            raise Refusal("The field is not known here", name)


def _check_thinking(request: CountTokensRequest) -> None:
    """What can't be beside thinking."""
    if not isinstance(request.thinking, ShownThinking):
        return
    if isinstance(request.tool_choice, AnyChoice | ToolChoice):
        text = "Thinking may not be enabled when tool_choice forces tool use."
        raise Refusal(text, "thinking")
    if request.temperature not in (None, 1):
        text = "`temperature` may only be set to 1 when thinking is enabled."
        raise Refusal(text, "temperature")
    if request.top_k is not None:
        raise Refusal("`top_k` must be unset when thinking is enabled.", "top_k")
    if (request.top_p or 1) < 0.95:
        text = "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."
        raise Refusal(text, "top_p")


def _check_prefill(request: CountTokensRequest) -> None:
    """What a last assistant turn, which the answer continues, excludes."""
    last, at = request.messages[-1], ("messages", len(request.messages) - 1)
    if not isinstance(last, AssistantMessage):
        return
    if isinstance(request.thinking, ShownThinking):
        text = "This model does not support assistant message prefill. The conversation must end "
        raise Refusal(f"{text}with a user message.", *at)
    if request.output_format or (request.output_config and request.output_config.format):
        text = "Prefilling assistant messages is not supported with structured outputs."
        raise Refusal(text, *at)
    content = last.content
    text = content if isinstance(content, str) else getattr(content[-1], "text", "")
    if text != text.rstrip():
        text = "messages: final assistant content cannot end with trailing whitespace"
        raise Refusal(text, *at)


def _check_cache_marks(request: JsonObject) -> None:
    """How many blocks ask to be cached, and that longer lifetimes come first."""
    marks = [mark for name in ("tools", "system", "messages") for mark in _marks(request.get(name))]
    found = len(marks) + (request.get("cache_control") is not None)
    if found > _MAX_CACHE_MARKS:
        text = f"A maximum of {_MAX_CACHE_MARKS} blocks with cache_control may be provided. "
        raise Refusal(f"{text}Found {found}.")
    lifetimes = [mark.get("ttl") or "5m" for mark in marks]
    if lifetimes != sorted(lifetimes):
        raise Refusal(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
            "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )


def _marks(value: object) -> Iterator[JsonObject]:
    """Markers on tools and blocks; only ``content`` nests blocks, schemas are not looked into."""
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict):
            yield from _marks(entry.get("content"))
            if entry.get("cache_control") is not None:
                yield entry["cache_control"]
