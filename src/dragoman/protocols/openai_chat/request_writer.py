"""Writes a request for a Chat upstream (types/chat/completion_create_params.py)."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import JsonObject as AnyJsonObject
from dragoman.canonical.requests import OutputFormat, Request
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.messages_writer import write_messages
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.openai_chat.thinking import write_thinking
from dragoman.protocols.openai_chat.tools import ToolWriter
from dragoman.protocols.openai_settings import write_labels, write_sampling, write_schema
from dragoman.protocols.request_settings import (
    DECODING,
    NO_COUNTERPART,
    NOT_TAKEN,
    RequestSettings,
)


def write_request(request: Request, outbound: Outbound) -> JsonObject:
    """The body for a Chat upstream; what it does not carry is in the ledger."""
    body: JsonObject = {
        "model": outbound.model,
        "messages": write_messages(request, outbound),
    }
    if request.tools or request.tool_choice is not None:
        ToolWriter(outbound).write(request, body)
    own = outbound.capabilities.of(ChatCapabilities)
    settings = RequestSettings(request, outbound)
    _write_limits(body, settings, own)
    write_sampling(body, settings)
    if request.top_k is not None:
        if own.top_k:
            body["top_k"] = request.top_k
        else:
            settings.drop("top_k")
    for name in DECODING:
        if (value := getattr(request, name)) is not None:
            body[name] = value
    if request.logprobs or request.top_logprobs:
        _write_logprobs(body, settings)
    if request.output_format is not None:
        _write_format(body, request.output_format, settings)
    if request.verbosity is not None:
        body["verbosity"] = request.verbosity
    write_thinking(body, settings, own)
    write_labels(body, settings, wire.SERVICE_TIERS)
    if request.prompt_cache_options is not None:
        _write_cache_options(body, request.prompt_cache_options, request, outbound)
    if request.store:
        settings.drop_store()
    if request.stream:
        body["stream"] = True
        if own.stream_usage:
            body["stream_options"] = {"include_usage": True}
    for extra in request.extras:
        outbound.ledger.add(extra.path, extra.kind, extra.detail, extra.code)
    return body


def taken_stops(stops: Sequence[str]) -> tuple[str, ...]:
    """The stop sequences that upstreams take: the first four."""
    return tuple(stops[: wire.MAX_STOPS])


def _write_limits(body: JsonObject, settings: RequestSettings, own: ChatCapabilities) -> None:
    asked, stop = settings.request.max_output_tokens, settings.request.stop
    if asked == 0:
        settings.lose("max_output_tokens", LossKind.CONTENT, "0 asks for no answer at all")
    elif asked is not None and not settings.capabilities.output_limit:
        settings.lose("max_output_tokens", LossKind.KNOB, NOT_TAKEN)
    elif asked is not None:
        body[own.max_tokens_field] = settings.output_limit(asked)
    if stop:
        detail = f"the upstream takes only {wire.MAX_STOPS} stop sequences"
        body["stop"] = settings.stops(taken_stops(stop), LossKind.CONTENT, detail)


def _write_logprobs(body: JsonObject, settings: RequestSettings) -> None:
    alternatives = settings.top_logprobs()
    if settings.request.logprobs:
        body["logprobs"] = True
        if alternatives is not None:
            body["top_logprobs"] = alternatives


def _write_format(body: JsonObject, asked: OutputFormat, settings: RequestSettings) -> None:
    if isinstance(asked, AnyJsonObject):
        body["response_format"] = {"type": "json_object"}
        return
    schema = write_schema(asked, settings)
    if schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": schema}


def _write_cache_options(
    body: JsonObject, options: JsonObject, request: Request, outbound: Outbound
) -> None:
    path = request.path_of("prompt_cache_options")
    remaining: JsonObject = {}
    for name, value in options.items():
        if name == "mode" or (name == "ttl" and value == "30m"):
            remaining[name] = value
        elif value is not None:
            outbound.ledger.add(f"{path}.{name}", LossKind.KNOB, NO_COUNTERPART)
    if remaining:
        body["prompt_cache_options"] = remaining
