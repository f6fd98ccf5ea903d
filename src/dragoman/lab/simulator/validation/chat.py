"""What OpenAI's Chat Completions endpoint refuses.

Shapes: ``types/chat/completion_create_params.py`` and its neighbours in the openai package. The
relations between fields, that every call is answered before other content, and the limits
of names and ids are the service's own rules.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from dragoman.lab.simulator.validation.openai import (
    MOST_TOOLS,
    AnswerSchema,
    Detail,
    Effort,
    File,
    Function,
    Grammar,
    JsonObjectFormat,
    Level,
    Part,
    Settings,
    TextFormat,
    Tier,
    ToolName,
    check_image_url,
    check_json_word,
)
from dragoman.lab.simulator.validation.refusals import Refusal, answering, bracketed
from dragoman.lab.simulator.validation.shapes import (
    Maybe,
    NonEmpty,
    NoOther,
    Positive,
    Shape,
    check_base64,
    convert,
    kind_of,
    one_of,
    shape,
)
from dragoman.lab.simulator.view import JsonObject

Speaker = Annotated[str, Meta(pattern=r"^[^\s<|\\/>]{1,64}\Z")]
CallId = Annotated[str, Meta(min_length=1, max_length=40)]


class ImageUrl(Shape):
    url: NonEmpty
    detail: Detail | None = None

    def __post_init__(self) -> None:
        check_image_url(self.url, "url")


class InputAudio(Shape):
    data: NonEmpty
    format: Literal["wav", "mp3"]

    def __post_init__(self) -> None:
        check_base64(self.data, "data")


TextPart = shape("text", base=Part, text=str)
RefusalPart = shape("refusal", base=Part, refusal=str)
UserPart = one_of(
    TextPart,
    shape("image_url", base=Part, image_url=ImageUrl),
    shape("input_audio", base=Part, input_audio=InputAudio),
    shape("file", base=Part, file=File),
)
Texts = Annotated[list[TextPart | NoOther], Meta(min_length=1)]
AudioReference = shape(id=NonEmpty)
FunctionBody = shape(name=ToolName, arguments=str)
CustomBody = shape(name=ToolName, input=str)
FunctionCall = shape("function", id=CallId, function=FunctionBody)
Call = FunctionCall | shape("custom", id=CallId, custom=CustomBody)


class Turn(Shape, tag_field="role", kw_only=True):
    """A message."""

    name: Speaker | None = None


SystemMessage = shape("system", base=Turn, content=str | Texts)
DeveloperMessage = shape("developer", base=Turn, content=str | Texts)
UserParts = Annotated[list[UserPart], Meta(min_length=1)]
UserMessage = shape("user", base=Turn, content=str | UserParts)


class FunctionMessage(Shape, tag="function", tag_field="role"):
    content: str | None
    name: Speaker


class ToolMessage(Shape, tag="tool", tag_field="role"):
    content: str | Texts
    tool_call_id: Annotated[str, Meta(max_length=40)]


class AssistantMessage(Turn, tag="assistant"):
    """The reasoning fields are not OpenAI's: servers that send reasoning text take it back."""

    annotations: Any = None
    audio: AudioReference | None = None
    content: str | Annotated[list[TextPart | RefusalPart], Meta(min_length=1)] | None = None
    function_call: FunctionBody | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: Any = None
    refusal: str | None = None
    tool_calls: Annotated[list[Call], Meta(min_length=1, max_length=MOST_TOOLS)] | None = None


InputMessage = SystemMessage | DeveloperMessage | UserMessage
Message = InputMessage | AssistantMessage | ToolMessage | FunctionMessage


def _check_calls(messages: list[Any]) -> None:
    """Raises ``Refusal`` unless calls and tool messages meet."""
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage) and message.tool_call_id in waiting:
            waiting.remove(message.tool_call_id)
        elif isinstance(message, ToolMessage):
            text = "Invalid parameter: messages with role 'tool' must be a response to a preceding "
            raise Refusal(f"{text}message with 'tool_calls'.", "messages", index, "role")
        else:
            _check_answered(waiting)
        if isinstance(message, AssistantMessage):
            waiting = _calls(message, "messages", index)
    _check_answered(waiting)


def _check_answered(waiting: list[str]) -> None:
    if waiting:
        raise Refusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(waiting),
            "messages",
        )


def _calls(message: AssistantMessage, *at: str | int) -> list[str]:
    """The ids of a message's calls, which tool messages have to answer."""
    contents = ("content", "tool_calls", "refusal", "function_call", "audio")
    if all(getattr(message, name) is None for name in contents):
        text = f"Invalid value for 'content': expected a string, got null ('messages[{at[1]}]')."
        raise Refusal(text, *at, code="invalid_value")
    ids: list[str] = []
    calls: list[Any] = message.tool_calls or []
    for call in calls:
        if call.id in ids:
            raise Refusal(f"Duplicate value for 'tool_call_id' of '{call.id}'.", *at)
        ids.append(call.id)
    return ids


Penalty = Annotated[float, Meta(ge=-2, le=2)]
Bias = Annotated[float, Meta(ge=-100, le=100)]

GrammarFormat = shape("grammar", grammar=Grammar)
Custom = shape(name=ToolName, description=str | None, format=TextFormat | GrammarFormat | None)
Tool = shape("function", function=Function) | shape("custom", custom=Custom)
Name = shape(name=str)
NamedTool = shape("function", function=Name) | shape("custom", custom=Name)
AllowedTools = shape(
    mode=Literal["auto", "required"], tools=Annotated[list[NamedTool], Meta(min_length=1)]
)
AllowedToolsChoice = shape("allowed_tools", allowed_tools=AllowedTools)
ToolChoice = Literal["none", "auto", "required"] | NamedTool | AllowedToolsChoice
JsonSchemaFormat = shape("json_schema", json_schema=AnswerSchema)
ResponseFormat = TextFormat | JsonObjectFormat | JsonSchemaFormat
Audio = shape(format=Literal["wav", "aac", "mp3", "flac", "opus", "pcm16"], voice=Any)
CacheOptions = shape(mode=Literal["implicit", "explicit"] | None, ttl=Literal["30m"] | None)
Place = shape(city=Maybe, country=Maybe, region=Maybe, timezone=Maybe)
Prediction = shape(type=Literal["content"], content=str | Texts)
StreamOptions = shape(include_obfuscation=bool | None, include_usage=bool | None)
UserLocation = shape(type=Literal["approximate"], approximate=Place)
WebSearchOptions = shape(search_context_size=Level | None, user_location=UserLocation | None)


class OldFunction(Function):
    """What came before tools."""

    strict: None = None


class ChatRequest(Settings, kw_only=True):
    messages: Annotated[list[Message], Meta(min_length=1)]
    audio: Audio | None = None
    frequency_penalty: Penalty | None = None
    function_call: Literal["none", "auto"] | Name | None = None
    functions: Annotated[list[OldFunction], Meta(min_length=1, max_length=MOST_TOOLS)] | None = None
    logit_bias: dict[str, Bias] | None = None
    logprobs: bool | None = None
    max_completion_tokens: Positive | None = None
    max_tokens: Positive | None = None
    modalities: Annotated[list[Literal["text", "audio"]], Meta(min_length=1)] | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    prediction: Prediction | None = None
    presence_penalty: Penalty | None = None
    prompt_cache_options: CacheOptions | None = None
    reasoning_effort: Effort | None = None
    response_format: ResponseFormat | None = None
    seed: int | None = None
    service_tier: Tier | None = None
    stop: str | Annotated[list[str], Meta(max_length=4)] | None = None
    stream_options: StreamOptions | None = None
    tool_choice: ToolChoice | None = None
    tools: Annotated[list[Tool], Meta(min_length=1, max_length=MOST_TOOLS)] | None = None
    verbosity: Level | None = None
    web_search_options: WebSearchOptions | None = None

    def __post_init__(self) -> None:
        _check_options(self)
        _check_tools(self)
        if isinstance(self.response_format, JsonObjectFormat):
            check_json_word(self.messages, "'messages'", "response_format", "messages")
        _check_calls(self.messages)


CompatibleRequest = shape(base=ChatRequest, closed=False)


def check_chat(request: JsonObject, *, compatible: bool = False) -> None:
    """Check a Chat Completions request.

    ``compatible`` lets unknown top-level fields pass, as servers other than OpenAI do.

    Raises:
        ApiError: 400, naming the first field at fault.
    """
    with answering(bracketed):
        convert(request, CompatibleRequest if compatible else ChatRequest)


def _check_options(request: ChatRequest) -> None:
    if request.max_tokens is not None and request.max_completion_tokens is not None:
        raise Refusal(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            "max_tokens",
            code="invalid_parameter_combination",
        )
    for name, other in (("top_logprobs", "logprobs"), ("stream_options", "stream")):
        if getattr(request, name) is not None and not getattr(request, other):
            raise Refusal(f"the parameter is only allowed when '{other}' is enabled.", name)
    if "audio" in (request.modalities or ()):
        detail = "this model does not support audio output."
        raise Refusal(detail, "modalities", code="unsupported_value")


def _check_tools(request: ChatRequest) -> None:
    """That the tools which are named are on offer."""
    for name, offer in (
        ("tool_choice", "tools"),
        ("parallel_tool_calls", "tools"),
        ("function_call", "functions"),
    ):
        if getattr(request, name) is not None and not getattr(request, offer):
            raise Refusal(f"'{name}' is only allowed when '{offer}' are specified.", name)
    names = [_named(tool) for tool in request.tools or ()]
    choice = request.tool_choice
    chosen: list[tuple[Any, tuple[str | int, ...]]] = []
    if isinstance(choice, AllowedToolsChoice):
        at = ("tool_choice", "allowed_tools", "tools")
        chosen = [(tool, (*at, n)) for n, tool in enumerate(choice.allowed_tools.tools)]
    elif isinstance(choice, NamedTool):
        chosen = [(choice, ("tool_choice",))]
    for tool, path in chosen:
        if _named(tool) not in names:
            text = f"Tool choice '{kind_of(tool)}' not found in 'tools' parameter."
            raise Refusal(text, *path, kind_of(tool), "name")
    call = request.function_call
    if isinstance(call, Name) and call.name not in [f.name for f in request.functions or ()]:
        raise Refusal("Function choice not found in 'functions' parameter.", "function_call")


def _named(tool: Any) -> tuple[str, str]:
    """The kind and the name of a tool, as offered or as chosen."""
    kind = kind_of(tool)
    return kind, getattr(tool, kind).name
