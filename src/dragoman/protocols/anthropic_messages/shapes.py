"""The objects of Anthropic Messages as types, which name every member that is known of them.

Members without a canonical counterpart are `Lost`, with the meaning of their loss where another
protocol's upstream does not get them. Source: the request types of the `anthropic` package 2.12.0,
stable and beta."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta, Raw, field

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Role
from dragoman.protocols.anthropic_messages.wire import UNJUDGED
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.reading import Lost, Reader, Shape, Unknown

_CONTENT = LossKind.CONTENT
_KNOB = LossKind.KNOB

_Knob: TypeAlias = Annotated[Any, Lost(_KNOB)]
_Direct: TypeAlias = Annotated[Any, Lost(_KNOB, neutral=([], ["direct"]))]


class CacheControl(Shape):
    """A cache mark."""

    type: Literal["ephemeral"]
    ttl: str | None = None


class CitationsConfig(Shape):
    """Whether the model is to cite a document."""

    enabled: bool | None = None


# --- blocks -------------------------------------------------------------------------------------


class Block(Shape, tag_field="type"):
    """A block of content."""

    cache_control: CacheControl | None = None


class Text(Block, tag="text", kw_only=True):
    """Text of a user or a system prompt."""

    text: str
    citations: Annotated[
        Any, Lost(_KNOB, "only the model's own text has citations", neutral=([],))
    ] = None


class SaidText(Block, tag="text", kw_only=True):
    """Text of the model in a history."""

    text: str
    citations: list[dict[str, Any]] | None = None


class Base64Source(Shape, tag_field="type", tag="base64"):
    """Inline bytes."""

    media_type: str
    data: str


class UrlSource(Shape, tag_field="type", tag="url"):
    """Bytes to be fetched."""

    url: str


class FileSource(Shape, tag_field="type", tag="file"):
    """A file of the vendor's store."""

    file_id: str


class TextSource(Shape, tag_field="type", tag="text"):
    """A document as text."""

    data: str
    media_type: str | None = None


MediaSource: TypeAlias = Base64Source | UrlSource | FileSource


class Image(Block, tag="image", kw_only=True):
    """A picture."""

    source: MediaSource
    transformations: _Knob = None


class ContentSource(Shape, tag_field="type", tag="content"):
    """A document as blocks."""

    content: str | list[Text | Image] | Text | Image


class Document(Block, tag="document", kw_only=True):
    """A file that the model reads."""

    source: MediaSource | TextSource | ContentSource
    title: str | None = None
    context: str | None = None
    citations: CitationsConfig | None = None


class SearchResult(Block, tag="search_result", kw_only=True):
    """A search hit given as content."""

    source: str
    title: str
    content: str | list[Text] | Text
    citations: CitationsConfig | None = None


class Thinking(Shape, tag_field="type", tag="thinking"):
    """Thinking of the model, with its signature."""

    thinking: str | None = None
    signature: str | None = None


class RedactedThinking(Shape, tag_field="type", tag="redacted_thinking"):
    """Withheld thinking."""

    data: str


class ToolUse(Block, tag="tool_use", kw_only=True):
    """A call of a tool."""

    id: str
    name: str
    input: Raw = Raw()
    caller: Annotated[Any, Lost(_KNOB, neutral=({"type": "direct"},))] = None
    toolset_name: _Knob = None


class ToolReference(Block, tag="tool_reference", kw_only=True):
    """A tool that a search found."""

    tool_name: str


class OtherBlock(Unknown, tag=""):
    """Any other block: one of `wire.FOREIGN_BLOCKS`, or a mistake."""


_InResult: TypeAlias = Text | Image | Document | SearchResult | ToolReference | OtherBlock


class ToolResult(Block, tag="tool_result", kw_only=True):
    """The result of a call."""

    tool_use_id: str
    content: str | list[_InResult] | _InResult | None = None
    is_error: bool | None = None
    toolset_name: _Knob = None


# --- messages -----------------------------------------------------------------------------------

_InUser: TypeAlias = (
    Text | Image | Document | SearchResult | ToolReference | ToolResult | OtherBlock
)
_InAssistant: TypeAlias = (
    SaidText
    | Image
    | Document
    | SearchResult
    | ToolReference
    | Thinking
    | RedactedThinking
    | ToolUse
    | OtherBlock
)
_InSystem: TypeAlias = Text | OtherBlock


class Message(Shape, tag_field="role"):
    """A message; the settings stand on system messages (beta per-turn control)."""

    clear_at: Annotated[Any, Lost(_KNOB, neutral=("never",))] = None
    output_config: Annotated[
        Any, Lost(_KNOB, "settings for single turns have no counterpart upstream")
    ] = None


class UserMessage(Message, tag="user", kw_only=True):
    """A message of the user."""

    role: ClassVar[Role] = "user"
    content: str | list[_InUser] | _InUser


class AssistantMessage(Message, tag="assistant", kw_only=True):
    """A message of the model."""

    role: ClassVar[Role] = "assistant"
    content: str | list[_InAssistant] | _InAssistant


class SystemMessage(Message, tag="system"):
    """System text inside the conversation; it may carry nothing but settings."""

    role: ClassVar[Role] = "system"
    content: str | list[_InSystem] | _InSystem | None = None


AnyMessage: TypeAlias = UserMessage | AssistantMessage | SystemMessage

# --- tools --------------------------------------------------------------------------------------


class Tool(Shape):
    """A declaration; `hosted` is the whole of one that is not a client's own."""

    name: Annotated[str, Meta(min_length=1)]
    type: Literal["custom"] | None = None
    description: str | None = None
    input_schema: Raw = Raw()
    strict: bool | None = None
    defer_loading: bool | None = None
    cache_control: CacheControl | None = None
    allowed_callers: _Direct = None
    eager_input_streaming: Annotated[Any, Lost(_KNOB, neutral=(False,))] = None
    input_examples: Annotated[Any, Lost(_KNOB, neutral=([],))] = None
    hosted: dict[str, Any] | None = field(name="*", default=None)

    @classmethod
    def adapted(cls, value: JsonObject) -> JsonObject:
        """The declaration, with one that is not a client's own as a whole."""
        kind = value.get("type")
        return value if kind in (None, "custom") else {"name": "*", "*": value}


class WebSearch(Shape):
    """The service's search of the web, where another vendor's takes its place."""

    type: str
    name: Any = None
    allowed_domains: Any = None
    user_location: Any = None
    allowed_callers: _Direct = None
    blocked_domains: Annotated[
        Any, Lost(_CONTENT, "no domain can be kept out upstream", neutral=([],))
    ] = None
    cache_control: Annotated[Any, Lost(_KNOB, "the cache mark is not sent")] = None
    defer_loading: Annotated[
        Any, Lost(_KNOB, "the search is offered at once", neutral=(False,))
    ] = None
    max_uses: Annotated[Any, Lost(_KNOB, "searches cannot be limited upstream")] = None
    response_inclusion: Annotated[Any, Lost(_KNOB, neutral=("full",))] = None
    strict: Annotated[Any, Lost(_KNOB, neutral=(False,))] = None


class ToolChoice(Shape):
    """The choice among the tools; `name` is that of the one to be called."""

    type: Literal["auto", "any", "none", "tool"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


# --- settings -----------------------------------------------------------------------------------


class ThinkingConfig(Shape):
    """Whether, and how much, the model thinks."""

    type: Literal["adaptive", "enabled", "disabled", "between_tools"]
    budget_tokens: Annotated[int, Meta(ge=0)] | None = None
    display: str | None = None
    block_binding: _Knob = None


class OutputFormat(Shape):
    """The answer is to be JSON of a schema."""

    type: Literal["json_schema"]
    schema: dict[str, Any] | None = None


class OutputConfig(Shape):
    """The effort, and the shape of the answer."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None
    task_budget: _Knob = None


class Metadata(Shape):
    """The user of the client."""

    user_id: str | None = None


class Request(Shape):
    """A request for an answer, or to count its tokens."""

    model: str | None = None
    messages: Annotated[list[AnyMessage], Meta(min_length=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=0)] | None = None
    system: str | list[Text] | Text | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: ThinkingConfig | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    speed: Literal["standard", "fast"] | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0)] | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    metadata: Metadata | None = None
    cache_control: CacheControl | None = None
    thread: Any = None
    billing_policy: _Knob = None
    compaction: Annotated[
        Any, Lost(_CONTENT, "server-side compaction has no counterpart upstream")
    ] = None
    container: Annotated[Any, Lost(_CONTENT, "containers have no counterpart upstream")] = None
    context_management: Annotated[
        Any,
        Lost(
            _KNOB,
            "context management has no counterpart upstream",
            neutral=({}, {"edits": []}),
        ),
    ] = None
    diagnostics: _Knob = None
    fallback_credit_token: _Knob = None
    fallbacks: Annotated[
        Any, Lost(_CONTENT, "fallback models have no counterpart upstream", neutral=([],))
    ] = None
    inference_geo: _Knob = None
    mcp_servers: Annotated[
        Any, Lost(_CONTENT, "remote MCP servers have no counterpart upstream", neutral=([],))
    ] = None
    safeguards: Annotated[Any, Lost(_CONTENT, UNJUDGED)] = None


# --- answers and their events -------------------------------------------------------------------
#
# What other forms servers send is declared as well: the reader takes them, the matcher does not
# pass them on.


class Other(Unknown, tag=""):
    """A block, a piece or an event of any other type, or of none."""

    @classmethod
    def implied(cls, value: JsonObject) -> str:
        """The type of one without it."""
        return ""


class AnswerText(Shape, tag_field="type", tag="text"):
    """Text of the model."""

    text: str | None = None
    citations: list[Any] | None = None


class AnswerThinking(Shape, tag_field="type", tag="thinking"):
    """Thinking of the model, with its signature."""

    text: str | None = field(name="thinking", default=None)
    signature: str | None = None


class AnswerRedacted(Shape, tag_field="type", tag="redacted_thinking"):
    """Withheld thinking."""

    data: str | None = None


class AnswerCall(Shape, tag_field="type", tag="tool_use"):
    """A call of a tool."""

    id: str | None = None
    name: str | None = None
    input: Any = None
    caller: Any = None


AnswerBlock: TypeAlias = AnswerText | AnswerThinking | AnswerRedacted | AnswerCall | Other
"""A block, whole or as it begins."""


class StopDetails(Shape):
    """Why the model declined."""

    type: str | None = None
    category: str | None = None
    explanation: str | None = None


class Stop(Shape):
    """How an answer ended."""

    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None


class Answer(Stop):
    """An answer, whole or as it begins."""

    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    id: str | None = None
    model: str | None = None
    content: list[AnswerBlock | str] | str | None = None
    usage: dict[str, Any] | None = None


class MessageStart(Shape, tag_field="type", tag="message_start"):
    """The beginning of an answer."""

    message: Answer | None = None


class _OfBlock(Shape):
    """An event of the block at an index."""

    index: int | str | None = None


class BlockStart(_OfBlock, tag_field="type", tag="content_block_start", kw_only=True):
    """The beginning of a block."""

    content_block: AnswerBlock | str


class TextDelta(Shape, tag_field="type", tag="text_delta"):
    """More text."""

    text: str


class ThinkingDelta(Shape, tag_field="type", tag="thinking_delta"):
    """More thinking. `estimated_tokens` only helps to draw a progress bar; usage has the count."""

    text: str = field(name="thinking")
    estimated_tokens: Any = None


class InputDelta(Shape, tag_field="type", tag="input_json_delta"):
    """More of the input of a call."""

    text: str | dict[str, Any] = field(name="partial_json")


class SignatureDelta(Shape, tag_field="type", tag="signature_delta"):
    """The signature of thinking."""

    signature: str | None = None


class CitationsDelta(Shape, tag_field="type", tag="citations_delta"):
    """A citation in a text."""

    citation: Any = None


Piece: TypeAlias = TextDelta | ThinkingDelta | InputDelta | SignatureDelta | CitationsDelta | Other
"""A further piece of a block."""


class BlockDelta(_OfBlock, tag_field="type", tag="content_block_delta", kw_only=True):
    """A piece of a block."""

    delta: Piece


class BlockStop(_OfBlock, tag_field="type", tag="content_block_stop"):
    """The end of a block."""


class MessageDelta(Shape, tag_field="type", tag="message_delta"):
    """The end of an answer, and its usage."""

    delta: Stop | None = None
    usage: dict[str, Any] | None = None


class MessageStop(Shape, tag_field="type", tag="message_stop"):
    """The end of a stream."""


class Ping(Shape, tag_field="type", tag="ping"):
    """A sign of life."""


AnyEvent: TypeAlias = (
    MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | Ping | Other
)
EVENT: Reader[AnyEvent] = Reader(AnyEvent)  # type: ignore[arg-type]
ANSWER = Reader(Answer)
