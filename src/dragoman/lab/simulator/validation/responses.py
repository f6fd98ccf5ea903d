"""What OpenAI's Responses endpoint refuses.

Shapes: ``types/responses/response_create_params.py`` and its neighbours in the openai package.
The relations between fields are the service's own rules.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from dragoman.lab.simulator.validation.openai import (
    MOST_TOOLS,
    AnswerSchema,
    Effort,
    JsonObjectFormat,
    Level,
    Settings,
    TextFormat,
    Tier,
    check_json_word,
)
from dragoman.lab.simulator.validation.refusals import Refusal, answering, bracketed
from dragoman.lab.simulator.validation.responses_items import (
    Tool,
    ToolChoice,
    check_choice,
    check_items,
)
from dragoman.lab.simulator.validation.shapes import Maybe, Positive, convert, shape
from dragoman.lab.simulator.view import JsonObject

Include = Literal[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]
Summary = Literal["auto", "concise", "detailed"]
JsonSchemaFormat = shape("json_schema", base=AnswerSchema, schema=dict[str, Any])
Text = shape(format=TextFormat | JsonObjectFormat | JsonSchemaFormat | None, verbosity=Level | None)
Reasoning = shape(
    context=Literal["auto", "current_turn", "all_turns"] | None,
    effort=Effort | None,
    generate_summary=Summary | None,
    mode=Literal["standard", "pro"] | None,
    summary=Summary | None,
)
CacheOptions = shape(
    comparison_response_id=Maybe,
    mode=Literal["implicit", "explicit"] | None,
    prewarm=bool | None,
    ttl=Literal["30m", "12h"] | None,
)
ContextEdit = shape(type=Literal["compaction"], compact_threshold=Positive | None)
StreamOptions = shape(include_obfuscation=Maybe)
Image = shape(context_compression=Literal["auto", "enabled", "disabled"] | None)
AccessPrograms = shape(cyber=Maybe)

_NO_LINKS: Mapping[str, str] = {}


class ResponsesRequest(Settings, kw_only=True):
    access_programs: AccessPrograms | None = None
    background: Any = None
    client_metadata: dict[str, Any] | None = None
    context_management: list[ContextEdit] | None = None
    conversation: Any = None
    image: Image | None = None
    include: list[Include] | None = None
    input: str | list[Any] | None = None
    instructions: str | None = None
    max_output_tokens: Annotated[int, Meta(ge=16)] | None = None
    max_tool_calls: Positive | None = None
    previous_response_id: Any = None
    prompt: Any = None
    prompt_cache_options: CacheOptions | None = None
    reasoning: Reasoning | None = None
    service_tier: Tier | Literal["ultrafast"] | None = None
    stream_options: dict[str, Any] | None = None  # checked once it is known to be allowed
    text: Text | None = None
    tool_choice: ToolChoice | None = None
    tools: Annotated[list[Tool], Meta(max_length=MOST_TOOLS)] | None = None
    truncation: Literal["auto", "disabled"] | None = None

    def __post_init__(self) -> None:
        if self.stream_options is not None and not self.stream:
            detail = "the parameter is only allowed when 'stream' is enabled."
            raise Refusal(detail, "stream_options")
        if self.stream_options is not None:
            convert(self.stream_options, StreamOptions, "stream_options")
        if self.background:
            raise Refusal("background responses are not simulated.", "background")
        for name in ("conversation", "prompt"):
            if getattr(self, name) is not None:
                raise Refusal("no such object.", name, code="not_found")
        if self.text is not None and isinstance(self.text.format, JsonObjectFormat):
            check_json_word(self.input, "Response input messages", "text.format", "input")
        check_choice(self.tool_choice, self.tools or [])
        if self.input is None:
            code = "missing_required_parameter"
            raise Refusal("Object missing required field `input`", "input", code=code)


CompatibleRequest = shape(base=ResponsesRequest, closed=False)


def check_responses(
    request: JsonObject,
    organization: str,
    stored_items: frozenset[str],
    links: Mapping[str, str] = _NO_LINKS,
    *,
    compatible: bool = False,
) -> None:
    """Check a Responses request whose stored history has been put before its input.

    ``stored_items`` are the ids of items that the service still stores, ``links`` those of the
    reasoning that led to them; ``organization`` owns the encrypted reasoning. ``compatible`` lets
    unknown top-level fields pass.

    Raises:
        ApiError: 400, naming the first field at fault.
    """
    declared = CompatibleRequest if compatible else ResponsesRequest
    with answering(bracketed):
        checked: ResponsesRequest = convert(request, declared)
        if isinstance(checked.input, list):
            check_items(checked.input, organization, stored_items, links)
