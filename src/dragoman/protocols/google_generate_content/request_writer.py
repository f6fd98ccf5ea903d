"""Writes a request for a Google upstream (`GenerateContentRequest` of google-genai 3.4.0)."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import JsonSchema, Request
from dragoman.protocols import google_wire
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_capabilities import GoogleCapabilities
from dragoman.protocols.google_conversation import write_conversation
from dragoman.protocols.google_generate_content import wire
from dragoman.protocols.google_generate_content.content_writer import PartWriter
from dragoman.protocols.google_generate_content.thinking import write_thinking
from dragoman.protocols.google_generate_content.tools import write_tools
from dragoman.protocols.google_schemas import openapi_schema, readable_schema
from dragoman.protocols.google_settings import drop_the_rest, service_tier, write_labels
from dragoman.protocols.request_settings import NO_SCHEMA, NOT_TAKEN, RequestSettings

_JSON = "application/json"


def write_request(request: Request, outbound: Outbound) -> JsonObject:
    """The body of a request for an answer. What it cannot carry is in the ledger."""
    own = outbound.capabilities.of(GoogleCapabilities)
    settings = RequestSettings(request, outbound)
    conversation = write_conversation(request, outbound, PartWriter(outbound))
    body: JsonObject = {
        "contents": [
            {"role": "model" if turn.is_model else "user", "parts": turn.parts}
            for turn in conversation.turns
        ]
    }
    if conversation.system:
        body["systemInstruction"] = {"parts": conversation.system}
    if request.tools or request.tool_choice is not None:
        write_tools(request, body, outbound)
    config = _write_config(settings, outbound, own, "tools" in body)
    if config:
        body["generationConfig"] = config
    if (tier := service_tier(settings)) is not None:
        body["serviceTier"] = tier
    write_labels(body, settings, takes_labels=bool(own.google_cloud))
    drop_the_rest(settings)
    searches = any(wire.SEARCH in tool for tool in body.get("tools", ()))
    for extra in request.extras:
        if not extra.of_search or not searches:
            outbound.ledger.add(extra.path, extra.kind, extra.detail, extra.code)
    return body


def taken_stops(stops: Sequence[str]) -> tuple[str, ...]:
    """The stop sequences that upstreams take: the first five."""
    return tuple(stops[: google_wire.MAX_STOPS])


def _write_config(
    settings: RequestSettings, outbound: Outbound, own: GoogleCapabilities, has_tools: bool
) -> JsonObject:
    """`generationConfig`."""
    request = settings.request
    config: JsonObject = {}
    limit = None
    if request.max_output_tokens is not None and not settings.capabilities.output_limit:
        settings.lose("max_output_tokens", LossKind.KNOB, NOT_TAKEN)
    elif request.max_output_tokens is not None:
        limit = config["maxOutputTokens"] = settings.output_limit(request.max_output_tokens, 1)
    for name, member in (("temperature", "temperature"), ("top_p", "topP")):
        value = settings.sampling(name, getattr(request, name))
        if value is not None:
            config[member] = value
    if request.top_k is not None and settings.capabilities.sampling:
        config["topK"] = request.top_k
    elif request.top_k is not None:
        settings.lose("top_k", LossKind.KNOB, NOT_TAKEN)
    if request.stop:
        detail = f"the upstream takes only {google_wire.MAX_STOPS} stop sequences"
        config["stopSequences"] = settings.stops(
            taken_stops(request.stop), LossKind.CONTENT, detail
        )
    if request.seed is not None:
        config["seed"] = request.seed
    for name, member in _PENALTIES:
        value = getattr(request, name)
        if value and own.google_penalties:
            config[member] = value
        elif value:
            settings.lose(name, LossKind.KNOB, NOT_TAKEN)
    if request.logprobs:
        config["responseLogprobs"] = True
        if request.top_logprobs:
            config["logprobs"] = request.top_logprobs
    elif request.top_logprobs:
        settings.top_logprobs()
    if request.output_format is not None:
        _write_format(config, settings, own, has_tools)
    thinking = write_thinking(settings, outbound, limit)
    if thinking is not None:
        config["thinkingConfig"] = thinking
    return config


_PENALTIES = (
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
)


def _write_format(
    config: JsonObject, settings: RequestSettings, own: GoogleCapabilities, has_tools: bool
) -> None:
    """The form of the answer."""
    shape = settings.request.output_format
    if has_tools and not own.is_signed:
        detail = "the upstream takes no form of the answer beside tools"
        settings.lose("output_format", LossKind.KNOB, detail)
        return
    if not isinstance(shape, JsonSchema):
        config["responseMimeType"] = _JSON
        return
    if not settings.capabilities.structured_output:
        settings.lose("output_format", LossKind.CONTENT, NO_SCHEMA)
        return
    config["responseMimeType"] = _JSON
    if own.google_json_schema:
        member, (schema, changed) = "responseJsonSchema", readable_schema(shape.schema)
    else:
        member, (schema, changed) = "responseSchema", openapi_schema(shape.schema)
    if changed:
        detail = f"the upstream does not enforce all of the schema: {', '.join(changed)}"
        settings.lose("output_format", LossKind.CONVERTED, detail)
    if shape.description and "description" not in schema:
        schema = {**schema, "description": shape.description}
    config[member] = schema
