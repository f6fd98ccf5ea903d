"""The objects of a request (google/genai/types.py of google-genai, and the protos of the service).

A `Lost` member has no canonical counterpart; its kind of loss applies when it is left out."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Raw

from dragoman.canonical.losses import LossKind
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_generate_content.spelling import Message, renamed
from dragoman.protocols.reading import Lost

_KNOB, _CONTENT = LossKind.KNOB, LossKind.CONTENT
_Object: TypeAlias = dict[str, Any]
_Positive: TypeAlias = Annotated[int, Meta(ge=1)]

_MEDIA_MODEL = "only text can be translated"


# --- content --------------------------------------------------------------------------------------


class Blob(Message):
    """Bytes in a request."""

    data: str
    mime_type: str = ""
    display_name: str | None = None


class FileData(Message):
    """A file at an address."""

    file_uri: str
    mime_type: str = ""
    display_name: str | None = None


class FunctionCall(Message):
    """A call of a declared function."""

    name: str
    args: Raw = Raw()
    id: str | None = None
    partial_args: Annotated[list[Any] | None, Lost(_CONTENT, neutral=([],))] = None
    will_continue: Annotated[bool | None, Lost(_CONTENT, neutral=(False,))] = None


class _Media(Message):
    """Media, inline or by their address, and what is said of them."""

    inline_data: Blob | None = None
    file_data: FileData | None = None
    media_resolution: Any = None
    video_metadata: Annotated[_Object | None, Lost(_CONTENT, neutral=({},))] = None
    media_processing: Annotated[Any, Lost(_KNOB)] = None
    document_metadata: Annotated[_Object | None, Lost(_CONTENT, neutral=({},))] = None
    spreadsheet_metadata: Annotated[_Object | None, Lost(_CONTENT, neutral=({},))] = None
    audio_metadata: Annotated[_Object | None, Lost(_KNOB, neutral=({},))] = None


class ResponsePart(_Media):
    """Media in the result of a call."""


class FunctionResponse(Message):
    """The result of a call."""

    name: str = ""
    response: Raw = Raw()
    id: str | None = None
    parts: list[ResponsePart] | None = None
    scheduling: Annotated[str | None, Lost(_KNOB)] = None
    will_continue: Annotated[bool | None, Lost(_KNOB, neutral=(False,))] = None


class Part(_Media):
    """One piece of content: one of the members of `KINDS`, and what is said of it."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    executable_code: _Object | None = None
    code_execution_result: _Object | None = None
    tool_call: _Object | None = None
    tool_response: _Object | None = None
    audio_transcription: _Object | None = None
    speech_metadata: Annotated[_Object | None, Lost(_KNOB, neutral=({},))] = None
    part_metadata: Annotated[_Object | None, Lost(_KNOB, neutral=({},))] = None


KINDS = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "audioTranscription",
)
"""Members of a part of which there is one."""


class Content(Message):
    """One message of the conversation."""

    parts: list[Part] | None = None
    role: str | None = None


# --- tools ----------------------------------------------------------------------------------------


class FunctionDeclaration(Message):
    """A function that the client runs."""

    name: str
    description: str | None = None
    parameters: Raw = Raw()
    parameters_json_schema: Raw = Raw()
    response: Annotated[Any, Lost(_KNOB)] = None
    response_json_schema: Annotated[Any, Lost(_KNOB)] = None
    behavior: Annotated[str | None, Lost(_KNOB, neutral=("BLOCKING", "UNSPECIFIED"))] = None


class Tool(Message):
    """Declared functions, and tools that the vendor runs."""

    function_declarations: list[FunctionDeclaration] | None = None
    google_search: _Object | None = None
    google_search_retrieval: _Object | None = None
    url_context: _Object | None = None
    code_execution: _Object | None = None
    google_maps: _Object | None = None
    file_search: _Object | None = None
    computer_use: _Object | None = None
    mcp_servers: list[Any] | None = None
    retrieval: _Object | None = None
    enterprise_web_search: _Object | None = None
    parallel_ai_search: _Object | None = None
    exa_ai_search: _Object | None = None


class FunctionCallingConfig(Message):
    """Which functions the model may or must call."""

    mode: str | None = None
    allowed_function_names: list[str] | None = None
    stream_function_call_arguments: Annotated[
        bool | None, Lost(_KNOB, "arguments are given whole", neutral=(False,))
    ] = None


class ToolConfig(Message):
    """What concerns all tools."""

    function_calling_config: FunctionCallingConfig | None = None
    retrieval_config: Annotated[_Object | None, Lost(_KNOB, neutral=({},))] = None
    include_server_side_tool_invocations: Annotated[bool | None, Lost(_KNOB, neutral=(False,))] = (
        None
    )


# --- settings -------------------------------------------------------------------------------------


class ThinkingConfig(Message):
    """How much the model thinks, and whether it shows a summary of that."""

    include_thoughts: bool | None = None
    thinking_budget: int | None = None
    thinking_level: str | None = None

    @classmethod
    def adapted(cls, value: JsonObject) -> JsonObject:
        """The object in camelCase, with numbers for their digits."""
        return _with_numbers(renamed(value))


class GenerationConfig(Message):
    """How the answer is made."""

    max_output_tokens: Annotated[int, Meta(ge=0)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[float, Meta(ge=0)] | None = None
    stop_sequences: tuple[str, ...] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_logprobs: bool | None = None
    logprobs: Annotated[int, Meta(ge=0)] | None = None
    response_mime_type: str | None = None
    response_schema: Raw = Raw()
    response_json_schema: Raw = Raw()
    thinking_config: ThinkingConfig | None = None
    response_modalities: list[str] | None = None
    candidate_count: Annotated[
        _Positive | None, Lost(_CONTENT, "only one candidate can be translated", neutral=(1,))
    ] = None
    response_format: Annotated[Any, Lost(_CONTENT, neutral=([], {}))] = None
    speech_config: Annotated[_Object | None, Lost(_CONTENT, _MEDIA_MODEL, neutral=({},))] = None
    image_config: Annotated[_Object | None, Lost(_CONTENT, _MEDIA_MODEL, neutral=({},))] = None
    media_resolution: Annotated[
        str | None, Lost(_KNOB, neutral=("MEDIA_RESOLUTION_UNSPECIFIED",))
    ] = None
    audio_timestamp: Annotated[bool | None, Lost(_KNOB, neutral=(False,))] = None
    audio_transcription_config: Annotated[Any, Lost(_KNOB, neutral=({},))] = None
    translation_config: Annotated[Any, Lost(_CONTENT, neutral=({},))] = None
    routing_config: Annotated[Any, Lost(_KNOB, neutral=({},))] = None
    model_config: Annotated[Any, Lost(_KNOB, neutral=({},))] = None
    model_selection_config: Annotated[Any, Lost(_KNOB, neutral=({},))] = None
    enable_affective_dialog: Annotated[bool | None, Lost(_KNOB, neutral=(False,))] = None
    enable_enhanced_civic_answers: Annotated[bool | None, Lost(_KNOB, neutral=(False,))] = None

    @classmethod
    def adapted(cls, value: JsonObject) -> JsonObject:
        """The object in camelCase, with numbers for their digits."""
        return _with_numbers(renamed(value))


_NUMBERS = (
    "maxOutputTokens",
    "topK",
    "seed",
    "logprobs",
    "candidateCount",
    "thinkingBudget",
)


def _with_numbers(value: JsonObject) -> JsonObject:
    """The members that are numbers, which proto3 JSON allows to be their digits in a text."""
    changed = {
        name: int(given)
        for name in _NUMBERS
        if type(given := value.get(name)) is str and given.removeprefix("-").isdecimal()
    }
    return {**value, **changed} if changed else value


class Request(Message):
    """A request for an answer."""

    contents: list[Content] | None = None
    system_instruction: Content | None = None
    tools: list[Tool] | None = None
    tool_config: ToolConfig | None = None
    generation_config: GenerationConfig | None = None
    service_tier: str | None = None
    labels: dict[str, str] | None = None
    store: bool | None = None
    model: str | None = None
    safety_settings: Annotated[
        list[Any] | None, Lost(_KNOB, "filters have no counterpart upstream", neutral=([],))
    ] = None
    cached_content: Annotated[
        str | None, Lost(_CONTENT, "a cache of the vendor's cannot be read upstream", neutral=("",))
    ] = None
    continuation_token: Annotated[
        str | None, Lost(_CONTENT, "only its own service can continue an answer", neutral=("",))
    ] = None
    model_armor_config: Annotated[Any, Lost(_KNOB, neutral=({},))] = None
    output_config: Annotated[Any, Lost(_KNOB, neutral=({},))] = None
