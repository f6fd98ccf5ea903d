"""The turns of a Messages request and their content blocks.

Shapes: ``types/*_block_param.py`` and their neighbours in the anthropic package. The order of the
turns, that calls and results meet, and the signatures are the service's own rules.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from dragoman.lab.simulator.seals import open_redacted, thinking_is_genuine
from dragoman.lab.simulator.validation.refusals import Refusal
from dragoman.lab.simulator.validation.shapes import (
    Maybe,
    NonEmpty,
    NoOther,
    Shape,
    check_base64,
    convert,
    kind_of,
    one_of,
    shape,
)

ToolId = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]+\Z")]
ToolName = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,128}\Z")]
ImageType = Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
CacheControl = shape("ephemeral", ttl=Literal["5m", "1h"] | None) | NoOther


class Block(Shape, kw_only=True):
    cache_control: CacheControl | None = None


_CITATIONS = {
    "char_location": "document_index start_char_index end_char_index",
    "page_location": "document_index start_page_number end_page_number",
    "content_block_location": "document_index start_block_index end_block_index",
    "web_search_result_location": "url encrypted_index",
    "search_result_location": "search_result_index source start_block_index end_block_index",
}
Citation = one_of(
    *(shape(kind, f"{names} cited_text", closed=False) for kind, names in _CITATIONS.items())
)


class TextBlock(Block, tag="text", kw_only=True):
    text: str
    citations: list[Citation] | dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.text:
            raise Refusal("text content blocks must be non-empty")
        if not self.text.strip():
            raise Refusal("text content blocks must contain non-whitespace text")


class Base64Source(Shape):
    data: NonEmpty

    def __post_init__(self) -> None:
        check_base64(self.data, "data")


class UrlSource(Shape, tag="url"):
    url: NonEmpty

    def __post_init__(self) -> None:
        if not self.url.startswith("https://"):
            raise Refusal("Only HTTPS URLs are supported.", "url")


FileSource = shape("file", file_id=NonEmpty)
Base64Image = shape("base64", base=Base64Source, media_type=ImageType)
ImageBlock = shape(
    "image", "transformations?", base=Block, source=Base64Image | UrlSource | FileSource
)
DocumentSource = one_of(
    shape("base64", base=Base64Source, media_type=Literal["application/pdf"]),
    shape("text", data=str, media_type=Literal["text/plain"]),
    shape("content", content=str | list[TextBlock | ImageBlock]),
    UrlSource,
    FileSource,
)
DocumentBlock = shape("document", "citations? context? title?", base=Block, source=DocumentSource)
SearchResult = shape(
    "search_result", "source title citations?", base=Block, content=list[TextBlock | NoOther]
)
ToolReference = shape("tool_reference", base=Block, tool_name=str)
BrowserState = shape("browser_state", closed=False)
ResultBlock = TextBlock | ImageBlock | DocumentBlock | SearchResult | ToolReference | BrowserState


class ToolResult(Block, tag="tool_result", kw_only=True):
    tool_use_id: ToolId
    content: str | list[ResultBlock] | None = None
    is_error: bool | None = None
    toolset_name: Any = None

    def __post_init__(self) -> None:
        inner = self.content if isinstance(self.content, list) else ()
        if self.is_error and not all(isinstance(block, TextBlock) for block in inner):
            raise Refusal("all content must be type `text` if `is_error` is true")


class ServerResult(Block, kw_only=True):
    """What one of the vendor's tools answered."""

    content: Any
    tool_use_id: str


Thinking = shape("thinking", signature=str, thinking=str)
RedactedThinking = shape("redacted_thinking", data=NonEmpty)
ToolCall = shape(base=Block, id=ToolId, input=dict[str, Any], caller=Maybe)
ToolUse = shape("tool_use", base=ToolCall, name=ToolName, toolset_name=Maybe)
ServerToolUse = shape("server_tool_use", base=ToolCall, name=NonEmpty)
ContainerUpload = shape("container_upload", "file_id", base=Block)
UserBlock = TextBlock | ImageBlock | DocumentBlock | SearchResult | ToolResult | ContainerUpload
AssistantBlock = one_of(
    TextBlock,
    Thinking,
    RedactedThinking,
    ToolUse,
    ServerToolUse,
    shape("web_search_tool_result", "caller?", base=ServerResult),
    shape("web_fetch_tool_result", "caller?", base=ServerResult),
    shape("code_execution_tool_result", base=ServerResult),
    shape("bash_code_execution_tool_result", base=ServerResult),
    shape("text_editor_code_execution_tool_result", base=ServerResult),
    shape("tool_search_tool_result", base=ServerResult),
    ContainerUpload,
    BrowserState,
)


class BetaBlock(Shape):
    """A block that needs a beta."""


_BETA = ("mcp_tool_use", "mcp_tool_result", "compaction", "fallback", "advisor_tool_result")
_BETA_KINDS = (*_BETA, "tool_addition", "tool_removal")
AnyBetaBlock = one_of(*(shape(kind, base=BetaBlock, closed=False) for kind in _BETA_KINDS))


class UserMessage(Shape, tag="user", tag_field="role"):
    content: str | list[UserBlock | AnyBetaBlock]


class AssistantMessage(Shape, tag="assistant", tag_field="role"):
    content: str | list[AssistantBlock | DocumentBlock | ImageBlock | AnyBetaBlock]


class SystemMessage(Shape, tag="system", tag_field="role"):
    content: str | list[TextBlock | AnyBetaBlock]
    clear_at: Any = None
    output_config: Any = None


Message = UserMessage | AssistantMessage | SystemMessage

_USUAL = {"user": UserBlock, "assistant": AssistantBlock, "system": TextBlock}
"""The blocks that a role may have in the new version and without a beta."""

_REASONING = Thinking | RedactedThinking


@dataclass(slots=True)
class Turns:
    """The turns so far and what they have left open.

    Neighbouring turns of one role are one turn for the service. ``open_calls`` are calls whose
    results have to come; ``is_past_results`` is true if something else than a result has
    come since they were made.
    """

    organization: str
    tools: set[str]
    is_old: bool
    has_betas: bool
    open_calls: set[str] = field(default_factory=set)
    seen_calls: set[str] = field(default_factory=set)
    server_calls: set[str] = field(default_factory=set)
    is_past_results: bool = False

    def check(self, messages: list[Message]) -> None:
        """Check all turns.

        Raises:
            Refusal: a rule is broken.
        """
        if not messages:
            raise Refusal("at least one message is required", "messages")
        if not isinstance(messages[0], UserMessage):
            raise Refusal('first message must use the "user" role', "messages")
        previous: Message | None = None
        for index, turn in enumerate(messages):
            at = ("messages", index)
            following = messages[index + 1] if index + 1 < len(messages) else None
            self._check_content(turn, *at, "content", is_last=following is None)
            if isinstance(turn, SystemMessage):
                self._check_system(turn, previous, following, *at)
                continue
            if isinstance(turn, UserMessage):
                self._check_user(turn.content, *at, "content")
            else:
                if not isinstance(previous, AssistantMessage):
                    self._check_answered("messages", index - 1)
                self._check_assistant(turn.content, *at, "content")
                last = turn.content[-1] if isinstance(turn.content, list) else None
                if isinstance(last, _REASONING) and not isinstance(following, AssistantMessage):
                    detail = "The final block in an assistant message cannot be "
                    raise Refusal(f"{detail}`{kind_of(last)}`.", *at)
            previous = turn
        self._check_answered("messages", len(messages) - 1)

    def _check_content(self, turn: Message, *at: str | int, is_last: bool) -> None:
        """Check that there is content, in blocks that the API version and the betas allow."""
        content = turn.content
        if content == []:
            raise Refusal(f"{kind_of(turn)} messages must have non-empty content", *at)
        if isinstance(content, str):
            is_optional = is_last and isinstance(turn, AssistantMessage)
            if not content and not is_optional:
                detail = "all messages must have non-empty content except for the optional final "
                raise Refusal(f"{detail}assistant message", *at)
            if not content.strip() and not is_optional:
                raise Refusal("text content blocks must contain non-whitespace text", *at)
            return
        for index, block in enumerate(content):
            withheld = isinstance(block, BetaBlock) and not self.has_betas
            if isinstance(turn, AssistantMessage) and not self.is_old:
                withheld |= isinstance(block, DocumentBlock | ImageBlock)
            if withheld:
                convert({"type": kind_of(block)}, _USUAL[kind_of(turn)], *at, index)

    def _check_system(
        self,
        turn: SystemMessage,
        previous: Message | None,
        following: Message | None,
        *at: str | int,
    ) -> None:
        for name in ("clear_at", "output_config"):
            if getattr(turn, name) is not None and not self.has_betas:
                raise Refusal("The field is not known here", *at, name)
        if not isinstance(previous, UserMessage) or not isinstance(
            following, AssistantMessage | None
        ):
            detail = "a message with role 'system' must directly follow a user turn and be last or "
            raise Refusal(f"{detail}precede an assistant turn", *at)

    def _check_answered(self, *at: str | int) -> None:
        if self.open_calls:
            raise Refusal(
                "`tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(sorted(self.open_calls))}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message.",
                *at,
            )

    def _check_user(self, content: str | list[Any], *at: str | int) -> None:
        """Check a user turn, whose results come before all else."""
        answered: set[str] = set()
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, ToolResult):
                self._check_result(block, answered, *at, index)
                continue
            self.is_past_results = True
            if isinstance(block, TextBlock) and block.citations and not self.is_old:
                detail = "citations are not permitted in user messages"
                raise Refusal(detail, *at, index, "citations")
        self.is_past_results |= isinstance(content, str)
        self.open_calls -= answered

    def _check_result(self, block: ToolResult, answered: set[str], *at: str | int) -> None:
        call_id = block.tool_use_id
        if call_id in answered:
            detail = f"each tool_use must have a single result. Found multiple for {call_id}"
            raise Refusal(detail, *at)
        if call_id not in self.open_calls:
            raise Refusal(_unexpected("tool_result", call_id, "in the previous message"), *at)
        if self.is_past_results:
            detail = "`tool_result` blocks must come first in the user message that answers "
            raise Refusal(f"{detail}`tool_use` blocks", *at)
        answered.add(call_id)
        for inner in block.content if isinstance(block.content, list) else ():
            if isinstance(inner, ToolReference) and inner.tool_name not in self.tools:
                text = f"Tool reference '{inner.tool_name}' not found in available tools"
                raise Refusal(text, *at)

    def _check_assistant(self, content: str | list[Any], *at: str | int) -> None:
        """Check an assistant turn and open its calls."""
        self.is_past_results = False
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, Thinking):
                if not thinking_is_genuine(block.thinking, block.signature, self.organization):
                    raise Refusal("Invalid `signature` in `thinking` block", *at, index)
            elif isinstance(block, RedactedThinking):
                if open_redacted(block.data, self.organization) is None:
                    raise Refusal("Invalid `data` in `redacted_thinking` block", *at, index)
            elif isinstance(block, ToolUse):
                if block.id in self.seen_calls:
                    raise Refusal("`tool_use` ids must be unique", *at, index, "id")
                self.seen_calls.add(block.id)
                self.open_calls.add(block.id)
            elif isinstance(block, ServerToolUse):
                self.server_calls.add(block.id)
            elif isinstance(block, ServerResult) and block.tool_use_id not in self.server_calls:
                detail = _unexpected(kind_of(block), block.tool_use_id, "before it")
                raise Refusal(detail, *at, index)


def _unexpected(kind: str, call_id: str, where: str) -> str:
    call = "tool_use" if kind == "tool_result" else "server_tool_use"
    return (
        f"unexpected `tool_use_id` found in `{kind}` blocks: {call_id}. Each `{kind}` block must "
        f"have a corresponding `{call}` block {where}."
    )


def check_thinking_first(messages: list[Message]) -> None:
    """Raises ``Refusal`` unless the last assistant turn before the end begins with its thinking,
    if it calls a tool, as manual thinking demands.
    """
    turns = [(n, m) for n, m in enumerate(messages[:-1]) if isinstance(m, AssistantMessage)]
    index, turn = turns[-1] if turns else (0, None)
    blocks = turn.content if turn is not None and isinstance(turn.content, list) else []
    if not any(isinstance(block, ToolUse) for block in blocks):
        return
    if not isinstance(blocks[0], _REASONING):
        path = ("messages", index, "content")
        raise Refusal(
            f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
            f"found `{kind_of(blocks[0])}`. When `thinking` is enabled, a final `assistant` "
            "message must start with a thinking block.",
            *path,
        )
