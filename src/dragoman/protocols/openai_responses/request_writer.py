"""Writes a request for a Responses upstream (types: response_create_params.py)."""

from __future__ import annotations

from dragoman.canonical.losses import LossKind
from dragoman.canonical.options import Options
from dragoman.canonical.pairing import pair_tools, report_silence
from dragoman.canonical.requests import JsonSchema, Request, Thinking
from dragoman.protocols.base import Outbound
from dragoman.protocols.efforts import effort_of
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.content_writer import PartWriter
from dragoman.protocols.openai_responses.item_writer import ItemWriter
from dragoman.protocols.openai_responses.settings import ResponsesCapabilities
from dragoman.protocols.openai_responses.tools import write_tool_choice, write_tools
from dragoman.protocols.openai_settings import write_labels, write_sampling, write_schema
from dragoman.protocols.request_settings import NOT_TAKEN, RequestSettings
from dragoman.protocols.system_text import place_system_text
from dragoman.protocols.tools import NO_TOOLS


def write_request(request: Request, outbound: Outbound) -> JsonObject:
    """The upstream's body; what it does not carry goes into the ledger. Members that stay the same
    over a conversation come first, so that a longer conversation begins with the same bytes."""
    request = place_system_text(request, outbound)
    settings, ledger = RequestSettings(request, outbound), outbound.ledger
    body: JsonObject = {"model": outbound.model}
    for extra in request.extras:
        ledger.add(extra.path, extra.kind, extra.detail, extra.code)
    _write_tools(body, request, outbound)
    _write_input(body, request, outbound)
    limit = request.max_output_tokens
    if limit and outbound.capabilities.output_limit:
        body["max_output_tokens"] = settings.output_limit(limit, wire.MIN_OUTPUT_TOKENS)
    elif limit:
        settings.lose("max_output_tokens", LossKind.KNOB, NOT_TAKEN)
    if request.stop:
        drop = settings.options.stop_on_responses == "drop"
        kind = LossKind.KNOB if drop else LossKind.CONTENT
        settings.stops((), kind, "the upstream takes no stop sequences")
    write_sampling(body, settings)
    if request.top_k is not None:
        settings.drop("top_k")
    settings.drop_decoding()
    text = _text(request, settings)
    if text:
        body["text"] = text
    if request.thinking is not None:
        _write_reasoning(body, request.thinking, settings)
    _write_include(body, settings, outbound)
    write_labels(body, settings, wire.SERVICE_TIERS)
    cache_options = request.prompt_cache_options
    if limit == 0:
        cache_options = {**(cache_options or {}), "prewarm": True}
    if cache_options:
        body["prompt_cache_options"] = cache_options
    # Left out, it would mean "store the answer for thirty days".
    body["store"] = bool(request.store)
    if request.stream:
        body["stream"] = True
        body["stream_options"] = {"include_obfuscation": False}
    return body


def _write_tools(body: JsonObject, request: Request, outbound: Outbound) -> None:
    tools, choice = write_tools(request, outbound), request.tool_choice
    if tools:
        body["tools"] = tools
        written = None if choice is None else write_tool_choice(choice, request, outbound)
        if written is not None:
            body["tool_choice"] = written
        if request.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = request.parallel_tool_calls
    elif choice is not None and choice.mode in ("required", "tool"):
        outbound.ledger.add(choice.path, LossKind.CONTENT, NO_TOOLS)


def _write_input(body: JsonObject, request: Request, outbound: Outbound) -> None:
    parts, ledger = PartWriter(outbound), outbound.ledger
    items, texts = ItemWriter(outbound, parts), []
    for text in request.instructions:
        if text.annotations:
            ledger.add(text.path, LossKind.KNOB, "instructions take no citations")
        if text.text:
            texts.append(text)
    if any(text.cache is not None for text in texts):
        items.message("developer", parts.of(texts))
    elif texts:
        body["instructions"] = "\n\n".join([text.text for text in texts])
    items.write(pair_tools(request.turns, outbound.options, ledger))
    parts.finish()
    if not outbound.capabilities.final_assistant:
        items.go_on(request.turns[-1].path if request.turns else "")
    if not items.items and not texts:
        report_silence(request.turns, ledger)
    body["input"] = items.items


def _text(request: Request, settings: RequestSettings) -> JsonObject:
    """The form of the answer."""
    text: JsonObject = {}
    asked = request.output_format
    if isinstance(asked, JsonSchema):
        schema = write_schema(asked, settings)
        if schema is not None:
            text["format"] = {"type": "json_schema", **schema}
    elif asked is not None:
        text["format"] = {"type": "json_object"}
    if request.verbosity is not None:
        text["verbosity"] = request.verbosity
    return text


def _write_include(body: JsonObject, settings: RequestSettings, outbound: Outbound) -> None:
    request, options = settings.request, settings.options
    include = []
    # Models that do not reason refuse to be asked, so ask only for clients that can send
    # the state back: those shown thinking blocks or `reasoning_details`.
    if (options.reasoning_details or _shows_thinking(request.thinking, options)) and (
        outbound.capabilities.of(ResponsesCapabilities).encrypted_reasoning
    ):
        include.append(wire.ENCRYPTED_REASONING)
    alternatives = settings.top_logprobs()
    if request.logprobs:
        include.append(wire.LOGPROBS)
        if alternatives is not None:
            body["top_logprobs"] = alternatives
    if include:
        body["include"] = include


def _write_reasoning(body: JsonObject, thinking: Thinking, settings: RequestSettings) -> None:
    """`reasoning`: the effort and the summary that the client requests."""
    reasoning: JsonObject = {}
    effort = settings.effort(*effort_of(thinking))
    if effort is not None:
        reasoning["effort"] = effort
    settings.check_display(thinking)
    summary = thinking.summary
    if summary is None and not settings.same_protocol:
        summary = _summary(thinking, effort, settings.options)
    if summary is not None:
        reasoning["summary"] = summary
    if reasoning:
        body["reasoning"] = reasoning


def _summary(thinking: Thinking, effort: str | None, options: Options) -> str | None:
    """The summary to request for a client of another protocol: no readable reasoning comes back
    unless requested."""
    hidden = (
        options.show_reasoning == "never"
        or thinking.display == "omitted"
        or thinking.mode in ("disabled", "between_tools")
        or "none" in (thinking.effort, effort)
    )
    return None if hidden else "auto"


def _shows_thinking(thinking: Thinking | None, options: Options) -> bool:
    """Whether the client is shown thinking blocks, which it sends back."""
    if options.show_reasoning != "auto":
        return options.show_reasoning == "always"
    return thinking is not None and thinking.mode in ("adaptive", "enabled")
