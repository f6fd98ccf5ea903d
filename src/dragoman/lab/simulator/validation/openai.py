"""Shapes and rules that Chat Completions and Responses have in common."""

import re
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from dragoman.lab.simulator.validation.refusals import Refusal
from dragoman.lab.simulator.validation.schemas import check_answer_schema, check_parameters
from dragoman.lab.simulator.validation.shapes import NonEmpty, Shape, Share, check_base64, shape

MOST_TOOLS = 128
ToolName = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}\Z")]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Level = Literal["low", "medium", "high"]
Detail = Literal["auto", "low", "high", "original"]
Tier = Literal["auto", "default", "flex", "scale", "priority", "fast"]
Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]],
    Meta(max_length=16),
]
ModerationRule = shape(mode=Literal["score", "block"])
ModerationPolicy = shape(input=ModerationRule | None, output=ModerationRule | None)
Moderation = shape(model=NonEmpty, policy=ModerationPolicy | None)
CacheBreakpoint = shape(mode=Literal["explicit"], ttl=Literal["30m", "12h"] | None)
Grammar = shape(definition=NonEmpty, syntax=Literal["lark", "regex"])
TextFormat = shape("text")
JsonObjectFormat = shape("json_object")

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(;[\w-]+=[^;,]*)*;base64,")
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")


class Settings(Shape, kw_only=True):
    """Fields of the same name and range in both protocols."""

    model: NonEmpty
    metadata: Metadata | None = None
    moderation: Moderation | None = None
    parallel_tool_calls: bool | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: Literal["in_memory", "in-memory", "24h"] | None = None
    safety_identifier: Annotated[str, Meta(max_length=128)] | None = None
    store: bool | None = None
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    top_p: Share | None = None
    user: str | None = None


class Part(Shape, kw_only=True):
    """A content part."""

    prompt_cache_breakpoint: CacheBreakpoint | None = None


class File(Shape, kw_only=True):
    """A file by its data, with its name, or by its id."""

    sources: ClassVar[str] = "'file_data' or 'file_id'"
    file_data: NonEmpty | None = None
    file_id: Any = None
    filename: Any = None

    def __post_init__(self) -> None:
        missing = "missing_required_parameter"
        if self.file_data is not None:
            check_data_url(self.file_data, "file_data")
            if self.filename is None:
                raise Refusal("'filename' is required with 'file_data'.", code=missing)
        elif self.file_id is None:
            raise Refusal(f"expected {self.sources}.", code=missing)


class Function(Shape, kw_only=True):
    """The definition of a function."""

    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    def __post_init__(self) -> None:
        if self.parameters is not None:
            check_parameters(self.parameters, self.name, strict=bool(self.strict))


class AnswerSchema(Shape, kw_only=True):
    """The schema that an answer has to fit."""

    name: ToolName
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None

    def __post_init__(self) -> None:
        if self.schema is not None:
            check_answer_schema(self.schema, self.name, strict=bool(self.strict))


def check_image_url(url: str, *at: str) -> None:
    """Raises ``Refusal`` unless it is a link, or a data URL of an image."""
    if url.startswith("data:"):
        check_data_url(url, *at, media_types=_IMAGE_TYPES)
    elif not url.startswith(("http://", "https://")):
        raise Refusal("expected a valid URL or a base64-encoded data URL.", *at)


def check_data_url(url: str, *at: str, media_types: tuple[str, ...] = ()) -> None:
    """Raises ``Refusal`` unless it is a data URL, of those media types if any, with base64."""
    head = _DATA_URL.match(url)
    if head is None:
        raise Refusal("expected a base64-encoded data URL with a MIME type.", *at)
    if media_types and head[1].lower() not in media_types:
        expected = str(media_types)[1:-1]
        detail = f"unsupported MIME type '{head[1]}'. Expected one of: {expected}."
        raise Refusal(detail, *at)
    check_base64(url[head.end() :], *at)


def check_json_word(text: object, subject: str, setting: str, *at: str) -> None:
    """Raises ``Refusal`` unless JSON without a schema is asked for in words as well."""
    if "json" not in str(text).lower():
        text = f"{subject} must contain the word 'json' in some form, to use '{setting}' of type "
        raise Refusal(f"{text}'json_object'.", *at)
