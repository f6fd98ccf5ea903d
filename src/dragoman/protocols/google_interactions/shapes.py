"""The objects of a request (google/genai/_gaos/types/interactions of google-genai 3.6.1).

A `Lost` member has no canonical counterpart; its kind of loss applies when it is left out. Steps of
tools that the vendor runs are carried whole."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Raw

from dragoman.canonical.losses import LossKind
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.reading import Lost, Shape, Unknown

_KNOB, _CONTENT = LossKind.KNOB, LossKind.CONTENT
_Object: TypeAlias = dict[str, Any]

_MEDIA_MODEL = "only text can be translated"


# --- content --------------------------------------------------------------------------------------


class TextContent(Shape, tag_field="type", tag="text"):
    """Text, and the sources that it cites."""

    text: str
    annotations: Annotated[
        list[_Object] | None, Lost(_KNOB, "citations are not sent", neutral=([],))
    ] = None


class _Media(Shape, tag_field="type"):
    """A file, inline or at an address."""

    data: str | None = None
    uri: str | None = None
    mime_type: str = ""


class ImageContent(_Media, tag="image"):
    """A picture."""

    resolution: str | None = None


class AudioContent(_Media, tag="audio"):
    """A recording."""

    sample_rate: Annotated[int | None, Lost(_KNOB)] = None
    channels: Annotated[int | None, Lost(_KNOB)] = None
    processing: Annotated[Any, Lost(_KNOB)] = None


class DocumentContent(_Media, tag="document"):
    """A document."""

    resolution: Annotated[str | None, Lost(_KNOB)] = None
    processing: Annotated[Any, Lost(_KNOB)] = None


class VideoContent(_Media, tag="video"):
    """A film."""

    resolution: Annotated[str | None, Lost(_KNOB)] = None
    processing: Annotated[Any, Lost(_KNOB)] = None
    name: Annotated[str | None, Lost(_KNOB)] = None


class UnknownContent(Unknown, tag=""):
    """Content of another type."""


Content: TypeAlias = (
    TextContent | ImageContent | AudioContent | DocumentContent | VideoContent | UnknownContent
)


# --- steps ----------------------------------------------------------------------------------------


class UserInput(Shape, tag_field="type", tag="user_input"):
    """Content of the user."""

    content: list[Content] | None = None


class ModelOutput(Shape, tag_field="type", tag="model_output"):
    """Content of the model."""

    content: list[Content] | None = None
    error: Annotated[_Object | None, Lost(_KNOB, neutral=({},))] = None


class Thought(Shape, tag_field="type", tag="thought"):
    """What the model thought."""

    signature: str | None = None
    summary: list[Content] | None = None


class FunctionCall(Shape, tag_field="type", tag="function_call"):
    """A call of a function that the client runs."""

    id: str
    name: str
    arguments: Raw = Raw()


class FunctionResult(Shape, tag_field="type", tag="function_result"):
    """The result of such a call."""

    call_id: str
    name: str | None = None
    result: Raw = Raw()
    is_error: bool | None = None


class UnknownItem(Unknown, tag=""):
    """A step that is carried, or a turn of a revision before steps."""

    @classmethod
    def implied(cls, value: JsonObject) -> str | None:
        """Turns have no type but a role."""
        return TURN if "role" in value else None


TURN: Final = "role"

Item: TypeAlias = (
    TextContent
    | ImageContent
    | AudioContent
    | DocumentContent
    | VideoContent
    | UserInput
    | ModelOutput
    | Thought
    | FunctionCall
    | FunctionResult
    | UnknownItem
)
"""An element of an input: all are content, or all are steps."""


# --- tools ----------------------------------------------------------------------------------------


class Function(Shape, tag_field="type", tag="function"):
    """A function that the client runs."""

    name: str
    description: str | None = None
    parameters: Raw = Raw()
    defer_loading: bool | None = None
    short_description: Annotated[str | None, Lost(_KNOB)] = None


class HostedTool(Unknown, tag=""):
    """A tool that the vendor runs."""


class AllowedTools(Shape):
    """Tools that may or must be called."""

    mode: Literal["auto", "any", "none", "validated"] = "auto"
    tools: list[str] | None = None


class ToolChoice(Shape):
    """Which tools the model may or must call."""

    allowed_tools: AllowedTools | None = None


# --- settings -------------------------------------------------------------------------------------


class GenerationConfig(Shape):
    """How the answer is made."""

    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] | None = None
    thinking_level: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None
    thinking_summaries: Literal["auto", "none"] | None = None
    tool_choice: str | ToolChoice | None = None
    image_config: Annotated[_Object | None, Lost(_CONTENT, _MEDIA_MODEL, neutral=({},))] = None
    speech_config: Annotated[Any, Lost(_CONTENT, _MEDIA_MODEL, neutral=({}, []))] = None
    video_config: Annotated[_Object | None, Lost(_CONTENT, _MEDIA_MODEL, neutral=({},))] = None
    transcription_config: Annotated[_Object | None, Lost(_KNOB, neutral=({},))] = None


class Request(Shape):
    """A request for an answer of a model."""

    model: str
    input: Raw = Raw()
    system_instruction: str | None = None
    tools: list[Function | HostedTool] | None = None
    generation_config: GenerationConfig | None = None
    response_format: Any = None
    response_mime_type: str | None = None
    response_modalities: list[str] | None = None
    service_tier: str | None = None
    labels: dict[str, str] | None = None
    store: bool | None = None
    stream: bool = False
    previous_interaction_id: Annotated[
        str | None, Lost(_CONTENT, "only what is stored can be continued", neutral=("",))
    ] = None
    continuation_token: Annotated[
        str | None, Lost(_CONTENT, "only its own service can continue an answer", neutral=("",))
    ] = None
    background: Annotated[
        bool | None, Lost(_CONTENT, "needs a gateway that stores answers", neutral=(False,))
    ] = None
    cached_content: Annotated[
        str | None, Lost(_CONTENT, "a cache of the vendor's cannot be read upstream", neutral=("",))
    ] = None
    environment: Annotated[Any, Lost(_CONTENT, neutral=({}, ""))] = None
    webhook_config: Annotated[_Object | None, Lost(_CONTENT, neutral=({},))] = None
    safety_settings: Annotated[
        list[Any] | None, Lost(_KNOB, "filters have no counterpart upstream", neutral=([],))
    ] = None
