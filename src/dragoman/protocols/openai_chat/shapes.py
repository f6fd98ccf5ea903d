"""The objects of Chat (`types/chat/*` of the `openai` package 3.54.0), and what compatible servers
add to them: the members, their types, and what the loss of one means."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Raw

from dragoman.canonical.losses import LossKind
from dragoman.protocols.efforts import Effort
from dragoman.protocols.openai_settings import Labels
from dragoman.protocols.reading import Lost, Shape, Unknown

_KNOB, _CONTENT = LossKind.KNOB, LossKind.CONTENT
_EXTENSION = "an extension of compatible servers"

_Name: TypeAlias = Annotated[str, Meta(min_length=1)]
_Positive: TypeAlias = Annotated[int, Meta(ge=1)]
_Penalty: TypeAlias = Annotated[float, Meta(ge=-2, le=2)]
_Object: TypeAlias = dict[str, Any]


# --- content ------------------------------------------------------------------------------------


class CacheBreakpoint(Shape):
    mode: Literal["explicit"] | None = None
    ttl: str | None = None


class Part(Shape):
    """A part of a message's content."""

    prompt_cache_breakpoint: CacheBreakpoint | None = None


class TextPart(Part, kw_only=True, tag_field="type", tag="text"):
    text: str


class RefusalPart(Part, kw_only=True, tag_field="type", tag="refusal"):
    refusal: str


class ImageUrl(Shape):
    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


class ImagePart(Part, kw_only=True, tag_field="type", tag="image_url"):
    image_url: str | ImageUrl
    """The string is the older form, still sent by some clients."""


class InputAudio(Shape):
    data: str
    format: Literal["wav", "mp3"]


class AudioPart(Part, kw_only=True, tag_field="type", tag="input_audio"):
    input_audio: InputAudio


class File(Shape):
    filename: str | None = None
    file_data: str | None = None
    file_id: str | None = None


class FilePart(Part, kw_only=True, tag_field="type", tag="file"):
    file: File


AnyPart: TypeAlias = TextPart | RefusalPart | ImagePart | AudioPart | FilePart
_Media: TypeAlias = TextPart | ImagePart | AudioPart | FilePart

# --- messages -----------------------------------------------------------------------------------


class SystemMessage(Shape, tag_field="role", tag="system"):
    content: str | Annotated[list[TextPart], Meta(min_length=1)]
    name: str | None = None


class DeveloperMessage(SystemMessage, tag_field="role", tag="developer"):
    pass


class UserMessage(Shape, tag_field="role", tag="user"):
    content: str | Annotated[list[_Media], Meta(min_length=1)]
    name: str | None = None


class CalledFunction(Shape):
    name: str
    arguments: str


class CalledCustom(Shape):
    name: str
    input: str


class ToolCall(Shape):
    id: str
    type: Literal["function", "custom"] | None = None
    function: CalledFunction | None = None
    custom: CalledCustom | None = None
    extra_content: Any = None
    index: Any = None
    """Left over from a stream that a client accumulated."""


class AssistantMessage(Shape, tag_field="role", tag="assistant"):
    content: str | list[TextPart | RefusalPart] | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: _Object | None = None
    audio: _Object | None = None
    name: str | None = None
    annotations: Annotated[
        Any, Lost(_KNOB, "citations of earlier answers are not sent", neutral=([],))
    ] = None
    reasoning_content: str | None = None
    reasoning: Any = None
    reasoning_details: list[_Object] | None = None


class ToolMessage(Shape, tag_field="role", tag="tool"):
    tool_call_id: str
    content: str | list[_Media] | None = None
    """Officially text alone; some clients and servers put images and files there too."""
    name: Annotated[Any, Lost(_KNOB, "the call names the tool")] = None


class OtherMessage(Unknown, tag_field="role", tag=""):
    pass


Message: TypeAlias = (
    SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage | OtherMessage
)

# --- tools --------------------------------------------------------------------------------------


class Named(Shape):
    name: _Name


class Function(Named):
    description: str | None = None
    parameters: Raw = Raw()
    strict: bool | None = None


class Grammar(Shape):
    syntax: Literal["lark", "regex"]
    definition: str


class TextFormat(Shape, tag_field="type", tag="text"):
    pass


class GrammarFormat(Shape, tag_field="type", tag="grammar"):
    grammar: Grammar


class Custom(Named):
    description: str | None = None
    format: TextFormat | GrammarFormat | None = None


class Tool(Shape):
    type: Literal["function", "custom"] | None = None
    function: Function | None = None
    custom: Custom | None = None

    @classmethod
    def adapted(cls, value: dict[str, Any]) -> dict[str, Any]:
        """The members of a tool that stand beside its type, as in the other OpenAI protocol and as
        Cursor sends them, in their object."""
        kind = value.get("type")
        if kind not in ("function", "custom") or kind in value or "name" not in value:
            return value
        inner = {name: member for name, member in value.items() if name != "type"}
        form = inner.get("format")
        if type(form) is dict and form.get("type") == "grammar" and "grammar" not in form:
            grammar = {name: member for name, member in form.items() if name != "type"}
            inner["format"] = {"type": "grammar", "grammar": grammar}
        return {"type": kind, kind: inner}


class FunctionChoice(Shape, tag_field="type", tag="function"):
    function: Named


class CustomChoice(Shape, tag_field="type", tag="custom"):
    custom: Named


class FunctionRef(FunctionChoice, tag_field="type", tag="function"):
    name: Any = None
    """Repeated for the other OpenAI protocol, which wants it here."""


class CustomRef(CustomChoice, tag_field="type", tag="custom"):
    name: Any = None


class Allowed(Shape):
    tools: list[FunctionRef | CustomRef]
    mode: Literal["auto", "required"] | None = None


class AllowedTools(Shape, tag_field="type", tag="allowed_tools"):
    allowed_tools: Allowed


# --- requests -----------------------------------------------------------------------------------


class JsonSchema(Shape):
    name: str
    description: str | None = None
    schema: _Object | None = None
    strict: bool | None = None


class JsonOutput(Shape, tag_field="type", tag="json_object"):
    pass


class SchemaOutput(Shape, tag_field="type", tag="json_schema"):
    json_schema: JsonSchema


class StreamOptions(Shape):
    include_usage: bool | None = None
    include_obfuscation: Annotated[Any, Lost(_KNOB, "streams are not padded", neutral=(False,))] = (
        None
    )


class Request(Labels, kw_only=True):
    model: _Name
    messages: Annotated[list[Message], Meta(min_length=1)]
    tools: list[Tool] | None = None
    functions: list[Function] | None = None
    web_search_options: _Object | None = None
    tool_choice: (
        Literal["auto", "none", "required"] | FunctionChoice | CustomChoice | AllowedTools | None
    ) = None
    function_call: Literal["auto", "none"] | Named | None = None
    parallel_tool_calls: bool | None = None
    max_completion_tokens: _Positive | None = None
    max_tokens: _Positive | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: int | None = None
    seed: int | None = None
    frequency_penalty: _Penalty | None = None
    presence_penalty: _Penalty | None = None
    stop: str | tuple[str, ...] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0)] | None = None
    response_format: TextFormat | JsonOutput | SchemaOutput | None = None
    reasoning_effort: Effort | None = None
    verbosity: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    prompt_cache_options: _Object | None = None

    n: Annotated[
        _Positive | None, Lost(_CONTENT, "only one choice can be translated", neutral=(1,))
    ] = None
    modalities: Annotated[
        list[Any] | None, Lost(_CONTENT, "only text can be translated", neutral=(["text"], []))
    ] = None
    audio: Annotated[_Object | None, Lost(_CONTENT, "audio output has no counterpart upstream")] = (
        None
    )
    logit_bias: Annotated[_Object | None, Lost(_KNOB, neutral=({},))] = None
    prediction: Annotated[_Object | None, Lost(_KNOB)] = None
    min_p: Annotated[Any, Lost(_KNOB, _EXTENSION, neutral=(0, 0.0))] = None
    repetition_penalty: Annotated[Any, Lost(_KNOB, _EXTENSION, neutral=(1, 1.0))] = None
    chat_template_kwargs: Annotated[Any, Lost(_KNOB, _EXTENSION, neutral=({},))] = None
    enable_thinking: Annotated[Any, Lost(_KNOB, _EXTENSION)] = None
    thinking: Annotated[Any, Lost(_KNOB, _EXTENSION)] = None
    reasoning: Annotated[Any, Lost(_KNOB, _EXTENSION, neutral=({},))] = None
    include_reasoning: Annotated[Any, Lost(_KNOB, _EXTENSION, neutral=(True,))] = None
    guided_json: Annotated[Any, Lost(_KNOB, _EXTENSION)] = None
    guided_regex: Annotated[Any, Lost(_KNOB, _EXTENSION)] = None
    guided_choice: Annotated[Any, Lost(_KNOB, _EXTENSION)] = None
    guided_grammar: Annotated[Any, Lost(_KNOB, _EXTENSION)] = None
    extra_body: Annotated[Any, Lost(_KNOB, _EXTENSION, neutral=({},))] = None


# --- answers ------------------------------------------------------------------------------------
#
# A member declared as None has content with some servers: then `loose` puts the answer or chunk in
# this form.


class FunctionPiece(Shape):
    """The function in a call, or in a fragment of one."""

    name: str | None = None
    arguments: str | None = None
    parameters: None = None
    input: None = None
    extra_content: Any = None
    thought_signature: Any = None


class CustomPiece(Shape):
    """The custom tool in a call, or in a fragment of one."""

    name: str | None = None
    input: str | None = None


class CallPiece(Shape):
    """A call, or a fragment of one."""

    index: int | None = None
    id: str | None = None
    type: Literal["function", "custom", None] = None
    function: FunctionPiece | None = None
    custom: CustomPiece | None = None
    extra_content: Any = None
    thought_signature: Any = None
    name: None = None
    arguments: None = None

    @property
    def called(self) -> str:
        """The name of the tool, empty if it has none."""
        body = self.custom or self.function
        return "" if body is None else body.name or ""

    @property
    def text(self) -> str:
        """Its arguments, or the input of a custom tool."""
        if self.custom is not None:
            return self.custom.input or ""
        return "" if self.function is None else self.function.arguments or ""


class Said(Shape):
    """The message of an answer, or a piece of it."""

    role: Literal["assistant", None] = None
    content: str | None = None
    refusal: str | None = None
    annotations: list[Any] | None = None
    tool_calls: list[CallPiece] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    function_call: FunctionPiece | None = None
    audio: Any = None
    reasoning_text: None = None
    text: None = None
    thinking: None = None
    message: None = None

    @property
    def thought(self) -> str:
        """Its reasoning text, which some servers have in two members."""
        return self.reasoning_content or self.reasoning or ""

    @property
    def speaks(self) -> bool:
        """Whether it has content other than plain reasoning text."""
        return bool(
            self.content
            or self.refusal
            or self.tool_calls
            or self.reasoning_details
            or self.function_call
            or self.audio
        )

    @property
    def has_content(self) -> bool:
        """Whether it has any content."""
        return bool(self.content or self.reasoning_content or self.reasoning) or self.speaks


class AnyChoice(Shape):
    """A choice. The order of the commonest members is that of the services, which costs a decoder
    least."""

    index: int = 0
    delta: Any = None
    message: Any = None
    logprobs: Any = None
    finish_reason: str | None = None
    stop_reason: Any = None  # vLLM: the stop sequence that matched
    matched_stop: Any = None  # SGLang: the same
    native_finish_reason: Any = None  # a router's copy of finish_reason
    content_filter_results: Any = None  # Azure's scores; finish_reason says if it was filtered
    content_filter_offsets: Any = None  # Azure: the part of the text that they are of
    token_ids: Any = None  # vLLM: the tokens of the text


class Choice(AnyChoice):
    delta: Said | None = None
    message: Said | None = None  # in a stream all that was said so far
    text: str | None = None  # of the older completions
    content: None = None
    refusal: None = None
    reasoning: None = None
    reasoning_content: None = None
    reasoning_details: None = None
    reasoning_text: None = None
    thinking: None = None
    tool_calls: None = None
    function_call: None = None

    @property
    def is_report(self) -> bool:
        """Whether it has nothing of an answer: Azure's asynchronous filter reports in chunks of its
        own, without id and model."""
        return not (self.delta or self.message or self.text or self.finish_reason)


class AnyAnswer(Shape):
    """An answer, or a chunk of one."""

    id: str | None = None
    object: Any = None
    created: int | float | None = None
    model: str | None = None
    choices: Any = None
    usage: _Object | None = None
    service_tier: str | None = None
    system_fingerprint: Any = None  # the upstream's build, in every answer; only seed needs it
    obfuscation: Any = None  # random padding
    metadata: Any = None  # the client's own, echoed
    prompt_filter_results: Any = None  # Azure's scores of the prompt, not about the answer
    provider: Any = None  # which server a router chose


class Answer(AnyAnswer):
    choices: list[Choice] | None = None
    error: Any = None
    content: None = None
    text: None = None
    message: None = None


class MereText(Shape, kw_only=True):
    """A message, or a piece of it, of mere text in the official form: the commonest of all."""

    role: Literal["assistant"] | None = None
    content: _Name
    refusal: None = None
    annotations: Annotated[list[Any], Meta(max_length=0)] | None = None
    tool_calls: None = None
    function_call: None = None
    audio: None = None
    reasoning_content: None = None


class TextMessageChoice(AnyChoice, kw_only=True):
    message: MereText
    finish_reason: Literal["stop", "length"]
    index: Literal[0] = 0
    logprobs: None = None


class TextAnswer(AnyAnswer, kw_only=True):
    """A whole answer of mere text."""

    choices: Annotated[list[TextMessageChoice], Meta(min_length=1, max_length=1)]


class MoreText(MereText, kw_only=True):
    """A further piece of text: the role was said."""

    role: None = None


class TextDeltaChoice(AnyChoice, kw_only=True):
    delta: MoreText
    finish_reason: None = None
    index: Literal[0] = 0
    logprobs: None = None


class TextChunk(AnyAnswer, kw_only=True):
    """A chunk of mere text, after one with the role."""

    choices: Annotated[list[TextDeltaChoice], Meta(min_length=1, max_length=1)]
    usage: None = None
