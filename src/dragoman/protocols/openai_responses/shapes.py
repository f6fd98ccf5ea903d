"""The objects of Responses as types: what is read, what is only carried (`Raw`), and what
losing a member means (`Lost`).

Sources: the types of openai-python (`openai/types/responses`), the Open Responses schema, and what
real clients were seen to send. A `Raw` member may be absent or null. The `id` of an item names it
in the vendor's store, where nothing is looked up."""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar

from msgspec import Meta, Raw, Struct, field

from dragoman.canonical.losses import LossKind
from dragoman.protocols.efforts import Effort
from dragoman.protocols.openai_settings import Labels
from dragoman.protocols.reading import Lost, Shape, Unknown

_KNOB = LossKind.KNOB
_CONTENT = LossKind.CONTENT


Name: TypeAlias = Annotated[str, Meta(min_length=1)]
Role: TypeAlias = Literal["user", "assistant", "system", "developer"]
Summary: TypeAlias = Literal["auto", "concise", "detailed"]
Detail: TypeAlias = Literal["auto", "low", "high", "original"]
Verbosity: TypeAlias = Literal["low", "medium", "high"]

BACKGROUND_DETAIL: Final = "answers are made at once, each for itself"
"""Members for background requests, without meaning for a synchronous answer."""


# --- content parts ------------------------------------------------------------------------------


class Breakpoint(Shape, kw_only=True):
    mode: Literal["explicit"] | None = None
    ttl: str | None = None


class Part(Shape, tag_field="type", kw_only=True):
    """A part of a message or of a tool's output."""

    prompt_cache_breakpoint: Breakpoint | None = None


class TextPart(Part, tag="text", kw_only=True):
    text: str
    annotations: list[dict[str, Any]] | None = None
    logprobs: list[Any] | None = None


class InputText(TextPart, tag="input_text", kw_only=True):
    pass


class OutputText(TextPart, tag="output_text", kw_only=True):
    pass


class RefusalPart(Part, tag="refusal", kw_only=True):
    refusal: str


class ImagePart(Part, tag="input_image", kw_only=True):
    detail: Detail | None = None
    image_url: str | None = None
    file_id: str | None = None


class FilePart(Part, tag="input_file", kw_only=True):
    filename: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    detail: Annotated[Any, Lost(_KNOB, neutral=("auto",))] = None


class AudioData(Shape, kw_only=True):
    data: str
    format: str


class AudioPart(Part, tag="input_audio", kw_only=True):
    input_audio: AudioData


class ReasoningText(Part, tag="reasoning_text", kw_only=True):
    text: str


AnyPart: TypeAlias = (
    TextPart
    | InputText
    | OutputText
    | RefusalPart
    | ImagePart
    | FilePart
    | AudioPart
    | ReasoningText
)
Content: TypeAlias = str | list[AnyPart]

# --- tools --------------------------------------------------------------------------------------

_MACHINE = Lost(_KNOB, "the tool runs on the client's machine", neutral=({"type": "local"},))


class _Tool(Shape, kw_only=True):
    environment: Annotated[Any, _MACHINE] = None
    is_async: Annotated[
        Any, Lost(_CONTENT, "tools cannot run asynchronously", neutral=(False,))
    ] = field(default=None, name="async")
    output_schema: Annotated[Any, Lost(_KNOB)] = None
    allowed_callers: Annotated[Any, Lost(_KNOB, neutral=(["direct"], []))] = None


class _Callable(_Tool, tag_field="type", kw_only=True):
    name: Name
    description: str | None = None
    defer_loading: bool | None = None


class Function(_Callable, tag="function", kw_only=True):
    parameters: Raw = Raw()
    strict: bool | None = None


class Grammar(Shape, kw_only=True):
    type: Literal["text", "grammar"] | None = None
    syntax: Literal["lark", "regex"] | None = None
    definition: str | None = None


class Custom(_Callable, tag="custom", kw_only=True):
    format: Grammar | None = None


class Namespace(Shape, tag_field="type", tag="namespace", kw_only=True):
    """Tools with a common name before theirs."""

    name: Name
    description: str | None = None
    tools: list[Function | Custom] | None = None


class ClientSearch(Shape, kw_only=True):
    """The declaration of a search for tools that the client carries out."""

    type: Literal["tool_search"]
    execution: Literal["client"]
    description: str | None = None
    parameters: Raw = Raw()


class UnknownTool(Unknown, tag=""):
    """A tool that the vendor runs or describes, or that is known by its type."""


Tool: TypeAlias = Function | Custom | Namespace | UnknownTool


class MachineTool(_Tool, kw_only=True):
    type: str


class WebSearchTool(Shape, kw_only=True):
    """The declaration of a web search. It passes whole to its own service, so nothing in it is
    refused here."""

    type: Any = None
    filters: Any = None
    user_location: Any = None
    search_context_size: Any = None
    external_web_access: Annotated[
        Any, Lost(LossKind.CONVERTED, "the upstream searches the live web", neutral=(True,))
    ] = None
    search_content_types: Annotated[
        Any, Lost(_KNOB, "texts are searched", neutral=(["text"], []))
    ] = None


class WebFilters(Shape, kw_only=True):
    allowed_domains: Any = None
    blocked_domains: Annotated[
        Any, Lost(_CONTENT, "no domain can be kept out upstream", neutral=([],))
    ] = None


class ToolKind(Shape, kw_only=True):
    """A tool in a choice that has no name but its type."""

    type: str


class NamedTool(Shape, kw_only=True):
    type: str
    name: str
    namespace: str | None = None


class AllowedTools(Shape, kw_only=True):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"] | None = None
    tools: list[dict[str, Any]] | None = None


# --- settings -----------------------------------------------------------------------------------


class Reasoning(Shape, kw_only=True):
    effort: Effort | None = None
    summary: Summary | None = None
    generate_summary: Summary | None = None
    context: Annotated[Any, Lost(_KNOB, neutral=("auto",))] = None
    mode: Annotated[Any, Lost(_KNOB, neutral=("standard",))] = None


class PlainFormat(Shape, tag_field="type", tag="text", kw_only=True):
    pass


class ObjectFormat(Shape, tag_field="type", tag="json_object", kw_only=True):
    pass


class SchemaFormat(Shape, tag_field="type", tag="json_schema", kw_only=True):
    name: str
    schema: Raw
    description: str | None = None
    strict: bool | None = None


class TextSettings(Shape, kw_only=True):
    format: PlainFormat | ObjectFormat | SchemaFormat | None = None
    verbosity: Verbosity | None = None


# --- items --------------------------------------------------------------------------------------

_COPY = Lost(_KNOB, "the call has it too")
_STATUS = Lost(_KNOB, "every item of a history counts as completed", neutral=("completed",))
_LENGTH = Lost(_KNOB, "the result is given as it is")
_CALLER = Lost(_KNOB, neutral=({"type": "direct"},))


class SummaryPart(Struct):
    text: str


class Item(Shape, kw_only=True):
    """An item of a conversation, of any type that is read: the type of messages may be left out,
    which a union does not allow. What losing a member means holds for the types that do not read
    it; what the usual types read stands together. An item of another type is `carried` whole."""

    type: str | None = None
    id: Any = None
    role: Role | None = None
    content: Content | None = None
    phase: Annotated[str | None, Lost(_KNOB, "only the model's own messages have a phase")] = None
    arguments: Any = None
    name: Annotated[str | None, _COPY] = None
    namespace: Annotated[str | None, _COPY] = None
    call_id: str | None = None
    output: Content | None = None
    input: str | None = None
    summary: list[SummaryPart] | None = None
    encrypted_content: str | None = None
    status: Annotated[Any, _STATUS] = None
    environment: Annotated[Any, _MACHINE] = None
    caller: Annotated[Any, _CALLER] = None
    is_async: Annotated[Any, Lost(_KNOB, neutral=(False,))] = field(default=None, name="async")
    max_output_length: Annotated[Any, _LENGTH] = None
    action: dict[str, Any] | None = None
    operation: dict[str, Any] | None = None
    execution: str | None = None
    tools: list[Raw] | None = None
    reasoning: Reasoning | None = None
    text: TextSettings | None = None
    carried: dict[str, Any] | None = field(default=None, name="*")

    @classmethod
    def adapted(cls, value: dict[str, Any]) -> dict[str, Any]:
        """The members of an item; all of it is one, if it is of a type that is carried."""
        kind = value.get("type")
        if type(kind) is not str or kind in ITEM_TYPES:
            return value
        is_read = kind in SEARCH_TYPES and is_clients_search(value)
        return value if is_read else {"type": kind, "*": value}


ITEM_TYPES: Final = frozenset(
    {
        "message",
        "function_call",
        "custom_tool_call",
        "function_call_output",
        "custom_tool_call_output",
        "reasoning",
        "shell_call",
        "local_shell_call",
        "apply_patch_call",
        "local_shell_call_output",
        "apply_patch_call_output",
        "additional_tools",
        "configuration_update",
        "item_reference",
    }
)
"""The types of items that are read."""
SEARCH_TYPES: Final = frozenset({"tool_search_call", "tool_search_output"})
"""Types of items that are read where the client searches, and carried where the vendor does."""


def is_clients_search(item: dict[str, Any]) -> bool:
    """Whether an item is of a search for tools that the client carries out."""
    return item.get("execution") == "client" and bool(item.get("call_id"))


class ShellOutcome(Struct):
    type: Any = None
    exit_code: Any = None


class ShellChunk(Shape, kw_only=True):
    stdout: str | None = None
    stderr: str | None = None
    outcome: ShellOutcome | None = None


class ShellOutput(Shape, kw_only=True):
    type: Any
    call_id: str
    id: Any = None
    output: list[ShellChunk] | None = None
    status: Annotated[Any, _STATUS] = None
    max_output_length: Annotated[Any, _LENGTH] = None
    caller: Annotated[Any, _CALLER] = None


# --- the request --------------------------------------------------------------------------------


class StreamOptions(Shape, kw_only=True):
    include_obfuscation: Annotated[Any, Lost(_KNOB, "streams are not padded", neutral=(False,))] = (
        None
    )


ItemT = TypeVar("ItemT", Item, Raw)


class Request(Labels, Generic[ItemT], kw_only=True):
    """A request. Its tools, many of which are carried whole, are read one by one, and so are the
    items of an input that has unusual ones."""

    model: Name
    input: str | list[ItemT] | None = None
    instructions: str | None = None
    tools: list[Raw] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    text: TextSettings | None = None
    include: list[str] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    top_logprobs: Annotated[int, Meta(ge=0)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    prompt_cache_options: dict[str, Any] | None = None
    previous_response_id: Annotated[
        Any,
        Lost(
            _CONTENT,
            "the earlier response is not stored here; send the whole conversation as input",
            code="previous_response_not_found",
        ),
    ] = None
    conversation: Annotated[
        Any,
        Lost(_CONTENT, "conversations are not stored here; send the whole conversation as input"),
    ] = None
    prompt: Annotated[
        Any,
        Lost(_CONTENT, "prompt templates are stored at OpenAI; send their text as input"),
    ] = None
    background: Annotated[
        Any, Lost(_CONTENT, "answers are not made in the background", neutral=(False,))
    ] = None
    background_options: Annotated[
        Any, Lost(_KNOB, BACKGROUND_DETAIL, neutral=({}, {"completion_window": "soonest"}))
    ] = None
    max_tool_calls: Annotated[Any, Lost(_KNOB, "hosted tool calls are not limited")] = None
    truncation: Annotated[Any, Lost(_KNOB, "input is never truncated", neutral=("disabled",))] = (
        None
    )
    context_management: Annotated[
        Any, Lost(_KNOB, "context is not managed upstream", neutral=([],))
    ] = None
    access_programs: Annotated[Any, Lost(_KNOB)] = None
    image: Annotated[Any, Lost(_KNOB, neutral=({}, {"context_compression": "auto"}))] = None
    client_metadata: Annotated[Any, Lost(_KNOB, "telemetry of the client", neutral=({},))] = None
    presence_penalty: Annotated[Any, Lost(_KNOB, neutral=(0, 0.0))] = None
    frequency_penalty: Annotated[Any, Lost(_KNOB, neutral=(0, 0.0))] = None


# --- answers ------------------------------------------------------------------------------------
#
# What is exact, in a stream that passes through, and what is read have the same types. They have
# the members that are read, or that mean nothing to a client of another protocol.


PartType: TypeAlias = Literal[
    "output_text", "refusal", "summary_text", "reasoning_text", "text", "input_text"
]


class OutputPart(Struct, kw_only=True, gc=False):
    """A part of a message or of reasoning."""

    type: PartType
    text: str | None = None
    refusal: str | None = None
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None

    @property
    def value(self) -> str | None:
        """Its text."""
        return self.refusal if self.type == "refusal" else self.text


class OutputItem(Shape, kw_only=True):
    """An item of an answer. It has the members of all types that are read; `odd` are those that
    none of them has. An item of another type is odd as a whole."""

    type: Literal["message", "reasoning", "function_call", "custom_tool_call"]
    id: str | None = None
    status: str | None = None
    role: Literal["assistant"] | None = None
    phase: str | None = None
    content: list[OutputPart] | None = None
    summary: list[OutputPart] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    input: str | None = None
    odd: dict[str, Any] = field(default_factory=dict, name="*")

    @property
    def payload(self) -> str | None:
        """The arguments or the input of a call."""
        return self.input if self.type == "custom_tool_call" else self.arguments

    def thoughts(self, style: str) -> list[str]:
        """The parts of readable reasoning in one form, `summary` or `raw`."""
        parts = self.summary if style == "summary" else self.content
        return [part.text or "" for part in parts or ()]


OUTPUT_MEMBERS: Final[dict[str, frozenset[str]]] = {
    kind: frozenset(("type", "id", "status", *members.split()))
    for kind, members in (
        ("message", "role content phase"),
        ("reasoning", "summary content encrypted_content"),
        ("function_call", "call_id name arguments namespace"),
        ("custom_tool_call", "call_id name input namespace"),
    )
}
"""The members of the items of an answer, by type."""


class AnyResponse(Struct, kw_only=True, gc=False):
    """The members of a response object that are read wherever it stands."""

    id: str | None = None
    created_at: int | float | None = None
    status: Any = None
    error: Any = None
    incomplete_details: Any = None
    usage: Any = None
    tool_usage: Any = None
    service_tier: Any = None
    output_text: Any = None


class Response(AnyResponse, forbid_unknown_fields=True, kw_only=True):
    """A response object. The members that are `Raw` repeat the request (the client's own is
    repeated to the client)."""

    object: Any = None
    model: str | None = None
    output: list[OutputItem] | None = None
    moderation: Any = None
    background: Raw = Raw()
    completed_at: Raw = Raw()
    frequency_penalty: Raw = Raw()
    image: Raw = Raw()
    instructions: Raw = Raw()
    max_output_tokens: Raw = Raw()
    max_tool_calls: Raw = Raw()
    metadata: Raw = Raw()
    parallel_tool_calls: Raw = Raw()
    presence_penalty: Raw = Raw()
    previous_response_id: Raw = Raw()
    prompt: Raw = Raw()
    prompt_cache_key: Raw = Raw()
    prompt_cache_options: Raw = Raw()
    prompt_cache_retention: Raw = Raw()
    reasoning: Raw = Raw()
    safety_identifier: Raw = Raw()
    store: Raw = Raw()
    temperature: Raw = Raw()
    text: Raw = Raw()
    tool_choice: Raw = Raw()
    tools: Raw = Raw()
    top_logprobs: Raw = Raw()
    top_p: Raw = Raw()
    truncation: Raw = Raw()
    user: Raw = Raw()
    odd: dict[str, Any] = field(default_factory=dict, name="*")
    """Members that are not known."""


class AnyEvent(Struct, kw_only=True, gc=False):
    """An event of a stream, with the members of all types of events about items, in the service's
    order, in which they are decoded fastest. `obfuscation` is padding against traffic analysis."""

    type: str = ""
    sequence_number: Any = -1
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    delta: str | None = None
    logprobs: list[Any] | None = None
    obfuscation: Any = None
    summary_index: int | None = None
    part: OutputPart | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    input: str | None = None
    annotation: Any = None
    annotation_index: Any = None
    name: Any = None
    status: Any = None

    def at(self, kind: str) -> int | None:
        """The index of a part of that type."""
        return self.summary_index if kind == "summary_text" else self.content_index

    def whole(self, kind: str) -> str | None:
        """The whole text of a part, or of a call's arguments or input, of that type."""
        if kind == "function_call":
            return self.arguments
        if kind == "custom_tool_call":
            return self.input
        return self.refusal if kind == "refusal" else self.text


class Event(AnyEvent, forbid_unknown_fields=True, kw_only=True):
    """An event of a stream."""

    item: OutputItem | None = None
    response: Response | None = None


PIECES: Final = {
    "response.output_text": "output_text",
    "response.refusal": "refusal",
    "response.reasoning_summary_text": "summary_text",
    "response.reasoning_text": "reasoning_text",
    "response.function_call_arguments": "function_call",
    "response.custom_tool_call_input": "custom_tool_call",
}
"""The events of texts in pieces, by the type of the part or call that they are of: each name is
followed by `.delta` or `.done`."""
DELTAS: Final = {f"{name}.delta": kind for name, kind in PIECES.items()}
WHOLES: Final = {f"{name}.done": kind for name, kind in PIECES.items()}
