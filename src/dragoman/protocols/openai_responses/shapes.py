"""The objects of a Responses request as types: what is read, what is only carried (`Raw`), and what
losing a member means (`Lost`).

Sources: the types of openai-python (`openai/types/responses`), the Open Responses schema, and what
real clients were seen to send. A `Raw` member may be absent or null. The `id` of an item names it
in the vendor's store, where nothing is looked up."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Raw, Struct, field

from dragoman.canonical.losses import LossKind
from dragoman.protocols.reading import Lost, Unknown

_KNOB = LossKind.KNOB
_CONTENT = LossKind.CONTENT


Name: TypeAlias = Annotated[str, Meta(min_length=1)]
Role: TypeAlias = Literal["user", "assistant", "system", "developer"]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Summary: TypeAlias = Literal["auto", "concise", "detailed"]
Detail: TypeAlias = Literal["auto", "low", "high", "original"]
Verbosity: TypeAlias = Literal["low", "medium", "high"]

BACKGROUND_DETAIL: Final = "answers are made at once, each for itself"
"""Members for background requests, without meaning for a synchronous answer."""


class Shape(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """An object all of whose members are known."""


# --- content parts ------------------------------------------------------------------------------


class Breakpoint(Shape, kw_only=True):
    """A cache mark."""

    mode: Literal["explicit"] | None = None
    ttl: str | None = None


class Part(Shape, tag_field="type", kw_only=True):
    """A part of a message or of a tool's output."""

    prompt_cache_breakpoint: Breakpoint | None = None


class TextPart(Part, tag="text", kw_only=True):
    """A text, in the words of other protocols."""

    text: str
    annotations: list[dict[str, Any]] | None = None
    logprobs: list[Any] | None = None


class InputText(TextPart, tag="input_text", kw_only=True):
    """A text of the client."""


class OutputText(TextPart, tag="output_text", kw_only=True):
    """A text of the model."""


class RefusalPart(Part, tag="refusal", kw_only=True):
    """A refusal of the model."""

    refusal: str


class ImagePart(Part, tag="input_image", kw_only=True):
    """An image."""

    detail: Detail | None = None
    image_url: str | None = None
    file_id: str | None = None


class FilePart(Part, tag="input_file", kw_only=True):
    """A file."""

    filename: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    detail: Annotated[Any, Lost(_KNOB, neutral=("auto",))] = None


class AudioData(Shape, kw_only=True):
    """The sound of an audio part."""

    data: str
    format: str


class AudioPart(Part, tag="input_audio", kw_only=True):
    """A recording."""

    input_audio: AudioData


Content: TypeAlias = (
    str | list[TextPart | InputText | OutputText | RefusalPart | ImagePart | FilePart | AudioPart]
)

# --- tools --------------------------------------------------------------------------------------

_MACHINE = Lost(_KNOB, "the tool runs on the client's machine", neutral=({"type": "local"},))
_DIRECT = Lost(_KNOB, neutral=({"type": "direct"},))


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
    """A tool with JSON arguments."""

    parameters: Raw = Raw()
    strict: bool | None = None


class Grammar(Shape, kw_only=True):
    """The form of a custom tool's input."""

    type: Literal["text", "grammar"] | None = None
    syntax: Literal["lark", "regex"] | None = None
    definition: str | None = None


class Custom(_Callable, tag="custom", kw_only=True):
    """A tool with free text."""

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
    """The declaration of a tool on the client's machine."""

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
    """The domains of a web search."""

    allowed_domains: Any = None
    blocked_domains: Annotated[
        Any, Lost(_CONTENT, "no domain can be kept out upstream", neutral=([],))
    ] = None


class ToolKind(Shape, kw_only=True):
    """A tool in a choice that has no name but its type."""

    type: str


class NamedTool(Shape, kw_only=True):
    """A tool in a choice."""

    type: str
    name: str
    namespace: str | None = None


class AllowedTools(Shape, kw_only=True):
    """A choice of several tools."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"] | None = None
    tools: list[dict[str, Any]] | None = None


# --- settings -----------------------------------------------------------------------------------


class Reasoning(Shape, kw_only=True):
    """How the model is to reason."""

    effort: Effort | None = None
    summary: Summary | None = None
    generate_summary: Summary | None = None
    context: Annotated[Any, Lost(_KNOB, neutral=("auto",))] = None
    mode: Annotated[Any, Lost(_KNOB, neutral=("standard",))] = None


class PlainFormat(Shape, tag_field="type", tag="text", kw_only=True):
    """An answer of text."""


class ObjectFormat(Shape, tag_field="type", tag="json_object", kw_only=True):
    """An answer of JSON."""


class SchemaFormat(Shape, tag_field="type", tag="json_schema", kw_only=True):
    """An answer of JSON that conforms to a schema."""

    name: str
    schema: Raw
    description: str | None = None
    strict: bool | None = None


class TextSettings(Shape, kw_only=True):
    """The form of the answer."""

    format: PlainFormat | ObjectFormat | SchemaFormat | None = None
    verbosity: Verbosity | None = None


# --- items --------------------------------------------------------------------------------------

_STATUS = Lost(_KNOB, "every item of a history counts as completed", neutral=("completed",))


class Item(Shape, tag_field="type", kw_only=True):
    """An item of a conversation."""

    id: Any = None
    status: Annotated[Any, _STATUS] = None


class Message(Item, tag="message", kw_only=True):
    """A message. Its type may be left out."""

    role: Role
    content: Content
    phase: str | None = None


class _Call(Item, kw_only=True):
    environment: Annotated[Any, _MACHINE] = None
    caller: Annotated[Any, _DIRECT] = None
    is_async: Annotated[Any, Lost(_KNOB, neutral=(False,))] = field(default=None, name="async")


class _NamedCall(_Call, kw_only=True):
    call_id: Name
    name: Name
    namespace: str | None = None


class FunctionCall(_NamedCall, tag="function_call", kw_only=True):
    """A call of a function."""

    arguments: str


class CustomCall(_NamedCall, tag="custom_tool_call", kw_only=True):
    """A call with free text."""

    input: str


class SearchCall(_Call, tag="tool_search_call", kw_only=True):
    """A search for tools that the client carries out. Those of the vendor are carried whole."""

    execution: Literal["client"]
    call_id: Name
    arguments: Raw = Raw()


class ShellCall(_Call, tag="shell_call", kw_only=True):
    """A call of the client's shell."""

    call_id: str
    action: dict[str, Any]


class LocalShellCall(_Call, tag="local_shell_call", kw_only=True):
    """A command on the client's machine."""

    call_id: str
    action: dict[str, Any]


class PatchCall(_Call, tag="apply_patch_call", kw_only=True):
    """A change of a file."""

    call_id: str
    operation: dict[str, Any]


class _Output(Item, kw_only=True):
    max_output_length: Annotated[Any, Lost(_KNOB, "the result is given as it is")] = None
    caller: Annotated[Any, _DIRECT] = None
    name: Annotated[Any, Lost(_KNOB, "the call has it too")] = None
    namespace: Annotated[Any, Lost(_KNOB, "the call has it too")] = None


class FunctionOutput(_Output, tag="function_call_output", kw_only=True):
    """The output of a function."""

    call_id: Name
    output: Content


class CustomOutput(_Output, tag="custom_tool_call_output", kw_only=True):
    """The output of a custom tool."""

    call_id: Name
    output: Content


class SearchOutput(_Output, tag="tool_search_output", kw_only=True):
    """The tools that a search of the client found."""

    execution: Literal["client"]
    call_id: Name
    tools: list[Raw] | None = None


class ShellOutcome(Struct, gc=False):
    """How a command ended."""

    type: Any = None
    exit_code: Any = None


class ShellChunk(Shape, kw_only=True):
    """What a command printed."""

    stdout: str | None = None
    stderr: str | None = None
    outcome: ShellOutcome | None = None


class ShellOutput(_Output, tag="shell_call_output", kw_only=True):
    """The output of the client's shell."""

    call_id: str
    output: list[ShellChunk] | None = None


class LocalShellOutput(_Output, tag="local_shell_call_output", kw_only=True):
    """The output of a command, which has only the id of its call."""

    id: str
    output: str


class PatchOutput(_Output, tag="apply_patch_call_output", kw_only=True):
    """The outcome of a change."""

    call_id: str
    status: str
    output: str | None = None


class Thought(Struct, gc=False):
    """A part of reasoning."""

    text: str


class ReasoningItem(Item, tag="reasoning", kw_only=True):
    """Reasoning of the model."""

    id: str | None = None
    summary: list[Thought] | None = None
    content: list[Thought] | None = None
    encrypted_content: str | None = None


class AdditionalTools(Item, tag="additional_tools", kw_only=True):
    """Tools that a conversation adds."""

    role: Any = None
    tools: list[Raw] | None = None


class ConfigurationUpdate(Item, tag="configuration_update", kw_only=True):
    """Settings that a conversation changes."""

    reasoning: Reasoning | None = None
    text: TextSettings | None = None


class ItemReference(Item, tag="item_reference", kw_only=True):
    """An item in the vendor's store."""


class UnknownItem(Unknown, tag=""):
    """An item that is carried whole, or not known."""

    @classmethod
    def implied(cls, value: dict[str, Any]) -> str | None:
        """The types of messages and references may be left out."""
        if value.get("role") is not None:
            return "message"
        return None if value.get("id") is None else "item_reference"


AnyItem: TypeAlias = (
    Message
    | FunctionCall
    | CustomCall
    | ShellCall
    | LocalShellCall
    | PatchCall
    | FunctionOutput
    | CustomOutput
    | ShellOutput
    | LocalShellOutput
    | PatchOutput
    | ReasoningItem
    | AdditionalTools
    | ConfigurationUpdate
    | ItemReference
    | UnknownItem
)

# --- the request --------------------------------------------------------------------------------


class StreamOptions(Shape, kw_only=True):
    """How the answer is streamed."""

    include_obfuscation: Annotated[Any, Lost(_KNOB, "streams are not padded", neutral=(False,))] = (
        None
    )


class Request(Shape, kw_only=True):
    """A request. The items of its input and its tools, some of which are carried whole, are read
    one by one."""

    model: Name
    input: str | list[Raw] | None = None
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
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    service_tier: str | None = None
    moderation: dict[str, Any] | None = None
    store: bool | None = None
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
