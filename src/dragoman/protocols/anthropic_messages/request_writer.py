"""Writes a request for a Messages upstream (types/message_create_params.py)."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.canonical.blocks import CacheMark
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import JsonSchema, Request
from dragoman.protocols.anthropic_messages.caching import Marks
from dragoman.protocols.anthropic_messages.content_writer import is_plain
from dragoman.protocols.anthropic_messages.conversation import write_conversation
from dragoman.protocols.anthropic_messages.schemas import fitted
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities, MessagesOptions
from dragoman.protocols.anthropic_messages.thinking import write_thinking
from dragoman.protocols.anthropic_messages.tools import write_choice, write_tools
from dragoman.protocols.anthropic_messages.web_search import mapped_search
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.request_settings import (
    FAST_TIERS,
    NO_SCHEMA,
    NOT_TAKEN,
    UNNAMED,
    RequestSettings,
)

_SERVICE_TIERS = {"auto": "auto", "default": "standard_only"}


def write_request(request: Request, outbound: Outbound) -> JsonObject:
    """The body of a Messages request. What it cannot carry is in the ledger."""
    for extra in request.extras:
        if not extra.of_search or mapped_search(request, outbound) is None:
            outbound.ledger.add(extra.path, extra.kind, extra.detail, extra.code)
    settings = RequestSettings(request, outbound)
    marks = Marks()
    tools = write_tools(request, outbound, marks)
    conversation = write_conversation(request, outbound, marks)
    limit = _output_limit(settings)
    thinking = write_thinking(
        settings,
        limit,
        write_choice(request, outbound, tools),
        request.thinking is not None and conversation.in_unthought_loop,
    )
    kind = None if thinking.config is None else thinking.config["type"]
    if kind == "enabled":
        conversation.put_thinking_first()
    output = _write_output(settings, thinking.effort)
    thinks = kind in ("adaptive", "enabled")
    is_taken = outbound.capabilities.final_assistant and not thinks
    conversation.settle_prefill(outbound, possible=is_taken and "format" not in (output or {}))
    body: JsonObject = {"model": outbound.model, "max_tokens": limit}
    if request.stream:
        body["stream"] = True
    _write_sampling(body, settings, outbound, thinks)
    stop = _write_stop(settings)
    if stop:
        body["stop_sequences"] = stop
    if thinking.config is not None:
        body["thinking"] = thinking.config
    if output is not None:
        body["output_config"] = output
    user = _write_user(settings)
    if user is not None:
        body["metadata"] = {"user_id": user}
    _write_tier(body, settings)
    if tools:
        body["tools"] = tools
    if thinking.choice is not None:
        body["tool_choice"] = thinking.choice
    if conversation.system:
        body["system"] = conversation.system
    body["messages"] = conversation.messages
    automatic = request.auto_cache or _cache_by_itself(request, outbound)
    marks.settle(body, automatic, request.path_of("auto_cache"), outbound)
    if len(conversation.system) == 1 and is_plain(conversation.system[0]):
        body["system"] = conversation.system[0]["text"]
    _drop_the_rest(settings)
    return body


def _output_limit(settings: RequestSettings) -> int:
    if settings.request.max_output_tokens is not None:
        return settings.output_limit(settings.request.max_output_tokens)
    most = settings.capabilities.max_output_tokens
    limit = settings.options.of(MessagesOptions).default_max_tokens
    return limit if most is None else min(limit, most)


def _write_sampling(
    body: JsonObject, settings: RequestSettings, outbound: Outbound, thinks: bool
) -> None:
    """Temperature, top_p and top_k, which only the older API version takes. With thinking, the
    service requires their defaults."""
    request = settings.request
    if request.temperature is None and request.top_p is None and request.top_k is None:
        return
    own = outbound.capabilities.of(MessagesCapabilities)
    takes = own.is_old and outbound.capabilities.sampling
    # One is the default of both: it asks for nothing.
    if request.temperature not in (None, 1):
        if takes and not thinks:
            body["temperature"] = min(request.temperature, 1.0)
            if request.temperature > 1:
                settings.lose(
                    "temperature", LossKind.REPAIRED, "fitted to the upstream's limit of 1"
                )
        else:
            settings.lose("temperature", LossKind.KNOB, NOT_TAKEN)
    if request.top_p not in (None, 1):
        if takes and (not thinks or request.top_p >= 0.95):
            body["top_p"] = request.top_p
        else:
            settings.lose("top_p", LossKind.KNOB, NOT_TAKEN)
    if request.top_k is not None:
        if takes and not thinks:
            body["top_k"] = request.top_k
        else:
            settings.drop("top_k")


def _write_stop(settings: RequestSettings) -> list[str]:
    stop = settings.request.stop
    if not stop:
        return []
    detail = "the upstream takes no blank stop sequences"
    return settings.stops(taken_stops(stop), LossKind.KNOB, detail)


def taken_stops(stops: Sequence[str]) -> tuple[str, ...]:
    """The stop sequences that upstreams take: those that are not blank."""
    return tuple([stop for stop in stops if stop.strip()])


def _write_output(settings: RequestSettings, effort: str | None) -> JsonObject | None:
    """`output_config`: the effort and the shape of the answer."""
    config: JsonObject = {} if effort is None else {"effort": effort}
    shape = settings.request.output_format
    if shape is None:
        return config or None
    if not isinstance(shape, JsonSchema):
        detail = "answers in JSON without a schema have no counterpart upstream"
        settings.lose("output_format", LossKind.KNOB, detail)
    elif not settings.capabilities.structured_output:
        settings.lose("output_format", LossKind.CONTENT, NO_SCHEMA)
    else:
        if shape.strict is False:
            settings.lose("output_format", LossKind.KNOB, "the schema is always enforced upstream")
        schema, changed = fitted(_labelled(shape, settings))
        if changed:
            detail = f"the schema was fitted to what is enforced upstream: {', '.join(changed)}"
            settings.lose("output_format", LossKind.CONVERTED, detail)
        config["format"] = {"type": "json_schema", "schema": schema}
    return config or None


def _labelled(shape: JsonSchema, settings: RequestSettings) -> JsonObject:
    """The schema with its name and description inside, where it has none of its own."""
    name = None if shape.name == UNNAMED else shape.name
    labels = {"title": name, "description": shape.description or None}
    given = {label: text for label, text in labels.items() if text is not None}
    if any(shape.schema.get(label, text) != text for label, text in given.items()):
        detail = "the schema has a title or description of its own"
        settings.lose("output_format", LossKind.KNOB, detail)
    return {**given, **shape.schema} if given.keys() - shape.schema.keys() else shape.schema


def _write_user(settings: RequestSettings) -> str | None:
    request = settings.request
    user = request.safety_identifier
    if user is None:
        return request.user
    if request.user not in (None, user):
        settings.lose("user", LossKind.KNOB, "the safety identifier is sent in its place")
    return user


def _write_tier(body: JsonObject, settings: RequestSettings) -> None:
    """`service_tier` and `speed`."""
    tier = settings.request.service_tier
    if tier in FAST_TIERS and settings.options.map_fast:
        body["speed"] = "fast"
    elif tier in _SERVICE_TIERS:
        body["service_tier"] = _SERVICE_TIERS[tier]
    elif tier is not None:
        settings.drop("service_tier")
    if settings.request.speed is not None:
        body["speed"] = settings.request.speed


def _cache_by_itself(request: Request, outbound: Outbound) -> CacheMark | None:
    """A top-level cache mark for clients whose own service caches unasked."""
    if not outbound.capabilities.of(MessagesCapabilities).auto_cache:
        return None
    mode = (request.prompt_cache_options or {}).get("mode", "implicit")
    return CacheMark() if mode == "implicit" else None


def _drop_the_rest(settings: RequestSettings) -> None:
    """Report the fields that this protocol has no place for at all."""
    request = settings.request
    if request.logprobs:
        for name in ("logprobs", "top_logprobs"):
            if getattr(request, name):
                detail = "token probabilities are not given upstream"
                settings.lose(name, LossKind.CONTENT, detail)
    elif request.top_logprobs:
        settings.top_logprobs()
    settings.drop_decoding()
    if request.verbosity not in (None, "medium"):
        settings.drop("verbosity")
    for name in ("metadata", "prompt_cache_key", "prompt_cache_retention", "moderation"):
        if getattr(request, name) not in (None, {}):
            settings.drop(name)
    if request.prompt_cache_options and request.prompt_cache_options != {"mode": "implicit"}:
        settings.drop("prompt_cache_options")
    if request.store:
        settings.drop_store()
