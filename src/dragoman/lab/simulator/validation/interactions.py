"""What Google's Interactions API refuses.

Shapes: ``CreateModelInteraction`` of the google-genai package. What a request names together, and
the revision of the schema, are the service's own rules.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from msgspec import Meta

from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.validation.google_schemas import check_json_schema
from dragoman.lab.simulator.validation.interactions_steps import CONTENTS, check_steps
from dragoman.lab.simulator.validation.refusals import Refusal, bracketed
from dragoman.lab.simulator.validation.shapes import (
    NonEmpty,
    Positive,
    Shape,
    Share,
    convert,
    one_of,
    shape,
)
from dragoman.lab.simulator.view import JsonObject

REVISION = "2026-05-20"
"""The first revision of the schema with steps."""

_LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
FunctionName = Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}\Z")]


class Function(Shape, tag="function", kw_only=True):
    name: FunctionName
    description: str | None = None
    parameters: Any = None
    defer_loading: bool | None = None
    short_description: str | None = None

    def __post_init__(self) -> None:
        if self.parameters is not None:
            check_json_schema(self.parameters, "parameters")


Tool = one_of(
    Function,
    shape("mcp_server", "allowed_tools? defer_loading? headers?", name=NonEmpty, url=NonEmpty),
    shape("google_search", "search_types?"),
    shape("url_context"),
    shape("code_execution"),
    shape("google_maps", "enable_widget? latitude? longitude?"),
    shape("file_search", "file_search_store_names? metadata_filter? top_k?"),
    shape("computer_use", closed=False),
    shape("retrieval", closed=False),
    shape("tool_search", "description? execution? name? parameters?"),
)
_Mode = Literal["auto", "any", "none", "validated"]
AllowedTools = shape(mode=_Mode | None, tools=list[str] | None)
ToolChoice = shape(allowed_tools=AllowedTools)


class GenerationConfig(Shape, kw_only=True):
    max_output_tokens: Positive | None = None
    seed: int | None = None
    stop_sequences: list[str] | None = None
    thinking_level: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None
    thinking_summaries: Literal["auto", "none"] | None = None
    tool_choice: _Mode | ToolChoice | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Share | None = None
    speech_config: Any = None
    transcription_config: Any = None
    video_config: Any = None
    image_config: Any = None


_FORMATS = {
    "text": shape(
        type=Literal["text"],
        mime_type=Literal["application/json", "text/plain"] | None,
        schema=dict[str, Any] | None,
    ),
    "image": shape(None, "aspect_ratio? delivery? image_size? mime_type?", type=str),
    "audio": shape(None, "bit_rate? delivery? mime_type? sample_rate?", type=str),
    "video": shape(None, "aspect_ratio? delivery? duration? gcs_uri? resolution?", type=str),
}
"""Formats of an answer; anything else is a schema by itself."""

SafetySetting = shape(
    type=NonEmpty,
    threshold=Literal[
        "block_low_and_above", "block_medium_and_above", "block_only_high", "block_none", "off"
    ],
    method=Literal["severity", "probability"] | None,
)


class CreateRequest(Shape, kw_only=True):
    model: NonEmpty | None = None
    agent: NonEmpty | None = None
    agent_config: dict[str, Any] | None = None
    input: Any = None
    system_instruction: str | None = None
    previous_interaction_id: NonEmpty | None = None
    continuation_token: NonEmpty | None = None
    tools: list[Tool] | None = None
    generation_config: GenerationConfig | None = None
    response_format: Any = None
    response_mime_type: str | None = None
    response_modalities: list[Literal["text", "image", "audio", "video", "document"]] | None = None
    safety_settings: list[SafetySetting] | None = None
    service_tier: Literal["flex", "standard", "priority", "deferred"] | None = None
    labels: dict[str, str] | None = None
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    environment: Any = None
    webhook_config: dict[str, Any] | None = None
    cached_content: str | None = None


def check_interactions(
    request: JsonObject, steps: list[JsonObject], headers: Mapping[str, str], organization: str
) -> None:
    """Check a request; ``steps`` are its conversation, with that of its predecessor.

    Raises:
        ApiError: 400, naming the field at fault, or 501 for what only agents have.
    """
    revision = headers.get("api-revision", REVISION)
    if revision < REVISION:
        message = f"Api-Revision {revision} is no longer supported; use {REVISION} or later."
        raise ApiError(400, message)
    with _answering():
        asked: CreateRequest = convert(request, CreateRequest)
        if (asked.model is None) == (asked.agent is None):
            raise Refusal("Exactly one of model and agent must be set.", "model")
        if asked.agent is not None:
            raise ApiError(501, "Agents are not simulated.")
        if asked.agent_config is not None:
            raise Refusal("agent_config is only valid with an agent.", "agent_config")
        if asked.background and asked.store is False:
            raise Refusal("background requires store to be true.", "background")
        if asked.input is None and asked.continuation_token is None:
            raise Refusal("input is required.", "input")
        if asked.cached_content is not None:
            raise ApiError(403, "CachedContent not found (or permission denied)")
        _check_tools(asked)
        _check_format(asked)
        for name, value in (asked.labels or {}).items():
            if not _LABEL.fullmatch(name) or not _LABEL_VALUE.fullmatch(value):
                raise Refusal("Invalid label.", "labels", name)
        check_steps(steps, organization)


@contextmanager
def _answering() -> Iterator[None]:
    """Turns a refusal into the error to answer.

    Raises:
        ApiError: 400, naming the value that is refused.
    """
    try:
        yield
    except Refusal as refusal:
        name = bracketed(refusal.at)
        unknown = "unknown field" in refusal.detail
        detail = f"Unknown parameter '{name}'." if unknown else refusal.detail
        message = detail if unknown or not name else f"{name}: {detail}"
        code = "parameter_unknown" if unknown else "invalid_request"
        raise ApiError(400, message, code=code, param=name or None) from None


def _check_tools(asked: CreateRequest) -> None:
    functions: list[Any] = [tool for tool in asked.tools or () if type(tool) is Function]
    names = [function.name for function in functions]
    for name in names:
        if names.count(name) > 1:
            raise Refusal(f"Duplicate function declaration found: {name}", "tools")
    settings = asked.generation_config
    mode: Any = settings.tool_choice if settings is not None else None
    at = ("generation_config", "tool_choice")
    if isinstance(mode, ToolChoice):
        allowed = mode.allowed_tools
        mode = allowed.mode
        for name in allowed.tools or ():
            if name not in names:
                raise Refusal(f"Function '{name[:60]}' is not declared.", *at, "allowed_tools")
    if mode in ("any", "validated") and not names:
        raise Refusal("Function calling is required without functions.", *at)


def _check_format(asked: CreateRequest) -> None:
    given = asked.response_format
    for index, one in enumerate(given if isinstance(given, list) else [given]):
        at = ("response_format", index) if isinstance(given, list) else ("response_format",)
        if one is None:
            continue
        if not isinstance(one, dict):
            raise Refusal("Expected `object`.", *at)
        kind = _FORMATS.get(one.get("type"))  # type: ignore[arg-type]
        if kind is None:
            check_json_schema(one, *at)
            continue
        convert(one, kind, *at)
        if one.get("schema") is not None:
            if one.get("mime_type") != "application/json":
                raise Refusal("A schema needs the mime_type application/json.", *at, "mime_type")
            check_json_schema(one["schema"], *at, "schema")


def steps_of(given: Any) -> list[JsonObject]:
    """The input of a request as steps.

    Raises:
        ApiError: 400, it is none, or mixes contents with steps.
    """
    if given is None:
        return []
    if isinstance(given, str):
        return [{"type": "user_input", "content": [{"type": "text", "text": given}]}]
    items = given if isinstance(given, list) else [given]
    if not items or not all(isinstance(item, dict) for item in items):
        raise ApiError(400, "input: Expected a text, contents or steps.", param="input")
    contents = [item for item in items if item.get("type") in CONTENTS]
    if len(contents) == len(items):
        return [{"type": "user_input", "content": items}]
    if contents or not isinstance(given, list):
        message = "input: must be either contents or steps."
        raise ApiError(400, message, code="invalid_request", param="input")
    return items
