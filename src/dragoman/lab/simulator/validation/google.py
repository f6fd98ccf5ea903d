"""What Google's generateContent and countTokens refuse.

Shapes: ``types.py`` of the google-genai package, as the Gemini API takes them (what only Vertex has
is unknown). That declarations, modes and settings fit each other, and what depends on a model's
generation, are the service's own rules.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from msgspec import Meta

from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.google_calls import is_before_3
from dragoman.lab.simulator.validation.google_contents import Content, Message, check_contents
from dragoman.lab.simulator.validation.google_names import with_json_names
from dragoman.lab.simulator.validation.google_schemas import check_dialect, check_json_schema
from dragoman.lab.simulator.validation.refusals import Refusal, bracketed
from dragoman.lab.simulator.validation.shapes import Positive, Share, convert
from dragoman.lab.simulator.view import JsonObject

FunctionName = Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}\Z")]
_MOST_STOPS = 5
_MOST_DECLARED = 512


class Declared(Message, kw_only=True):
    name: FunctionName
    description: str | None = None
    parameters: Any = None
    parameters_json_schema: Any = None
    response: Any = None
    response_json_schema: Any = None
    behavior: Literal["BLOCKING", "NON_BLOCKING"] | None = None

    def __post_init__(self) -> None:
        if self.parameters is not None and self.parameters_json_schema is not None:
            raise Refusal("only one of parameters and parameters_json_schema may be set", "name")
        if self.parameters is not None:
            check_dialect(self.parameters, "parameters")
        if self.parameters_json_schema is not None:
            check_json_schema(self.parameters_json_schema, "parametersJsonSchema")


class Tool(Message, kw_only=True):
    """What only Vertex has is left out."""

    function_declarations: list[Declared] | None = None
    google_search: dict[str, Any] | None = None
    google_search_retrieval: dict[str, Any] | None = None
    url_context: dict[str, Any] | None = None
    code_execution: dict[str, Any] | None = None
    google_maps: dict[str, Any] | None = None
    file_search: dict[str, Any] | None = None
    computer_use: dict[str, Any] | None = None
    mcp_servers: list[Any] | None = None

    def hosted(self) -> bool:
        """Whether it has a tool that Google runs itself."""
        return any(getattr(self, name) is not None for name in self.__struct_fields__[1:])


class CallingConfig(Message, kw_only=True):
    mode: Literal["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"] | None = None
    allowed_function_names: list[str] | None = None


class ToolConfig(Message, kw_only=True):
    function_calling_config: CallingConfig | None = None
    retrieval_config: dict[str, Any] | None = None
    include_server_side_tool_invocations: bool | None = None


class ThinkingConfig(Message, kw_only=True):
    include_thoughts: bool | None = None
    thinking_budget: Annotated[int, Meta(ge=-1, le=32_768)] | None = None
    thinking_level: Literal["MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"] | None = None

    def __post_init__(self) -> None:
        if self.thinking_budget is not None and self.thinking_level is not None:
            raise Refusal("You can only set only one of thinking budget and thinking level.")


class GenerationConfig(Message, kw_only=True):
    max_output_tokens: Positive | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Share | None = None
    top_k: Annotated[float, Meta(ge=1)] | None = None
    candidate_count: Annotated[int, Meta(ge=1, le=8)] | None = None
    stop_sequences: Annotated[list[str], Meta(max_length=_MOST_STOPS)] | None = None
    seed: int | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, lt=2)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, lt=2)] | None = None
    response_logprobs: bool | None = None
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    response_mime_type: Literal["text/plain", "application/json", "text/x.enum"] | None = None
    response_schema: Any = None
    response_json_schema: Any = None
    response_format: Any = None
    response_modalities: list[Literal["TEXT", "IMAGE", "AUDIO", "VIDEO"]] | None = None
    speech_config: Any = None
    image_config: Any = None
    media_resolution: str | None = None
    audio_transcription_config: Any = None
    translation_config: Any = None
    enable_enhanced_civic_answers: bool | None = None
    thinking_config: ThinkingConfig | None = None

    def __post_init__(self) -> None:
        schema, json_schema = self.response_schema, self.response_json_schema
        if schema is not None and json_schema is not None:
            raise Refusal("Only one of response_schema and response_json_schema may be set.")
        if (schema or json_schema) and self.response_mime_type in (None, "text/plain"):
            raise Refusal("A schema needs the response mime type application/json.")
        if schema is not None:
            check_dialect(schema, "responseSchema")
        if json_schema is not None:
            check_json_schema(json_schema, "responseJsonSchema")
        if self.logprobs is not None and not self.response_logprobs:
            raise Refusal("logprobs needs response_logprobs to be true.", "logprobs")


class SafetySetting(Message, kw_only=True):
    category: Annotated[str, Meta(pattern=r"^HARM_CATEGORY_[A-Z_]+\Z")]
    threshold: Literal[
        "HARM_BLOCK_THRESHOLD_UNSPECIFIED",
        "BLOCK_LOW_AND_ABOVE",
        "BLOCK_MEDIUM_AND_ABOVE",
        "BLOCK_ONLY_HIGH",
        "BLOCK_NONE",
        "OFF",
    ]


class GenerateRequest(Message, kw_only=True):
    contents: list[Content]
    model: str | None = None
    system_instruction: Content | None = None
    tools: list[Tool] | None = None
    tool_config: ToolConfig | None = None
    generation_config: GenerationConfig | None = None
    safety_settings: list[SafetySetting] | None = None
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    service_tier: Literal["flex", "standard", "priority"] | None = None
    store: bool | None = None
    continuation_token: str | None = None


class CountRequest(Message, kw_only=True):
    contents: list[Content] | None = None
    generate_content_request: GenerateRequest | None = None

    def __post_init__(self) -> None:
        if (self.contents is None) == (self.generate_content_request is None):
            text = "Exactly one of contents and generate_content_request must be set."
            raise Refusal(text, "contents")


def check_google(
    request: JsonObject, model: str, organization: str, *, counting: bool = False
) -> JsonObject:
    """Check a request; returns it with the names that its members have in JSON, and of a request
    to count with those of the request that is counted.

    Raises:
        ApiError: 400, naming the first field at fault.
    """
    named: JsonObject = with_json_names(request)
    with _answering():
        if counting:
            counted: CountRequest = convert(named, CountRequest)
            inner = counted.generate_content_request
            if inner is not None:
                _check(inner, model, organization)
                named = named["generateContentRequest"]
            else:
                check_contents(counted.contents or [], organization, signed=False)
            return named
        _check(convert(named, GenerateRequest), model, organization)
    return named


@contextmanager
def _answering() -> Iterator[None]:
    """Turns a refusal into the error to answer.

    Raises:
        ApiError: 400, naming the value that is refused.
    """
    try:
        yield
    except Refusal as refusal:
        detail, at = refusal.detail, refusal.at
        if "unknown field" in detail:
            detail = f'Unknown name "{at[-1]}": Cannot find field.'
        name = bracketed(at)
        is_shape = detail.startswith(("Unknown name", "Invalid value", "Expected", "Object"))
        message = f"Invalid JSON payload received. {detail} at '{name}'" if is_shape else detail
        raise ApiError(400, message, param=name or None) from None


def _check(request: GenerateRequest, model: str, organization: str) -> None:
    old = is_before_3(model)
    system = request.system_instruction
    for index, part in enumerate(system.parts if system is not None else ()):
        if part.text is None:
            raise Refusal("A system instruction has text only.", "systemInstruction", index)
    names = _check_tools(request, old=old)
    _check_mode(request, names)
    settings = request.generation_config or GenerationConfig()
    thinking = settings.thinking_config or ThinkingConfig()
    if old and thinking.thinking_level is not None:
        raise Refusal("Thinking level is not supported for this model.", "generationConfig")
    if old and names and settings.response_mime_type == "application/json":
        text = "Function calling with a response mime type: 'application/json' is unsupported"
        raise Refusal(text, "generationConfig", "responseMimeType")
    categories = [setting.category for setting in request.safety_settings or ()]
    if len(set(categories)) < len(categories):
        raise Refusal("Each category may have one setting.", "safetySettings")
    last = request.contents[-1] if request.contents else None
    if last is not None and last.role == "model" and not old:
        text = "Please ensure that multiturn requests end with a user turn."
        raise Refusal(text, "contents")
    check_contents(request.contents, organization, signed=not old)


def _check_tools(request: GenerateRequest, *, old: bool) -> set[str]:
    """Check the tools; returns the names of the functions."""
    tools = request.tools or []
    names = [one.name for tool in tools for one in tool.function_declarations or ()]
    if len(names) > _MOST_DECLARED:
        raise Refusal(f"At most {_MOST_DECLARED} functions may be declared.", "tools")
    for name in names:
        if names.count(name) > 1:
            raise Refusal(f"Duplicate function declaration found: {name}", "tools")
    is_hosted = any(tool.hosted() for tool in tools)
    for index, tool in enumerate(tools):
        if not tool.function_declarations and not tool.hosted():
            raise Refusal("A tool must have one of its fields set.", "tools", index)
    config = request.tool_config
    if is_hosted and names and old:
        raise Refusal("Tool use with function calling is unsupported by the model.", "tools")
    if is_hosted and names and not (config and config.include_server_side_tool_invocations):
        text = "Please enable tool_config.include_server_side_tool_invocations to use Built-in "
        raise Refusal(f"{text}tools with Function calling.", "toolConfig")
    return set(names)


def _check_mode(request: GenerateRequest, names: set[str]) -> None:
    calling = request.tool_config and request.tool_config.function_calling_config
    if not calling:
        return
    at = ("toolConfig", "functionCallingConfig")
    allowed = calling.allowed_function_names or []
    if allowed and calling.mode not in ("ANY", "VALIDATED"):
        text = "Allowed function names should only be set when the function calling mode is ANY."
        raise Refusal(text, *at, "allowedFunctionNames")
    for name in allowed:
        if name not in names:
            text = f"Function '{name[:60]}' of allowed_function_names is not declared."
            raise Refusal(text, *at, "allowedFunctionNames")
    if calling.mode in ("ANY", "VALIDATED") and not names:
        text = "Function calling config is set without function_declarations."
        raise Refusal(text, *at, "mode")
