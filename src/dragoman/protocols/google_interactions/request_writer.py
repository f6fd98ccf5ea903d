"""Writes a request for an upstream (createmodelinteraction.py of google-genai)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Raw

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import CustomTool, FunctionTool, JsonSchema, Request
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_capabilities import GoogleCapabilities
from dragoman.protocols.google_conversation import write_conversation
from dragoman.protocols.google_interactions import wire
from dragoman.protocols.google_interactions.step_writer import StepWriter, steps_of
from dragoman.protocols.google_schemas import is_read_whole, readable_schema
from dragoman.protocols.google_settings import drop_the_rest, service_tier, write_labels
from dragoman.protocols.google_thinking import is_shown, level_for, shows_unasked
from dragoman.protocols.google_tools import Choice, ToolWriter
from dragoman.protocols.request_settings import NO_SCHEMA, NOT_TAKEN, RequestSettings
from dragoman.protocols.tools import decoded


class FunctionWriter(ToolWriter):
    """Writes the tools of one request."""

    __slots__ = ()

    origin: ClassVar[str] = wire.NAME
    search: ClassVar[JsonObject] = {"type": wire.SEARCH}

    def _parameters(self, tool: FunctionTool | CustomTool, schema: JsonObject | Raw) -> JsonObject:
        if isinstance(schema, Raw) and is_read_whole(schema):
            return {"parameters": schema}
        return {"parameters": readable_schema(decoded(schema))[0]}

    def _defer(self, tool: FunctionTool | CustomTool, declared: JsonObject) -> None:
        declared["defer_loading"] = True


def write_request(request: Request, outbound: Outbound) -> JsonObject:
    """The body of a request for an answer. What it cannot carry is in the ledger."""
    settings = RequestSettings(request, outbound)
    conversation = write_conversation(request, outbound, StepWriter(outbound))
    body: JsonObject = {
        "model": outbound.model,
        "input": steps_of(conversation.turns),
        # Left out, it would mean that the answer is kept for weeks.
        "store": False,
    }
    if request.stream:
        body["stream"] = True
    if conversation.system:
        body["system_instruction"] = "\n\n".join([part["text"] for part in conversation.system])
        if len(conversation.system) > 1:
            settings.lose("instructions", LossKind.CONVERTED, "system texts were joined")
    config = _write_config(settings, outbound)
    searches = False
    if request.tools or request.tool_choice is not None:
        tools = FunctionWriter(outbound).tools(request)
        declared = [{"type": "function", **function} for function in tools.functions]
        if declared or tools.hosted:
            body["tools"] = [*declared, *tools.hosted]
        if tools.choice is not None:
            config["tool_choice"] = _choice(tools.choice)
        searches = any(tool.get("type") == wire.SEARCH for tool in tools.hosted)
    if config:
        body["generation_config"] = config
    if request.output_format is not None:
        _write_format(body, settings)
    if (tier := service_tier(settings)) is not None:
        body["service_tier"] = tier
    write_labels(body, settings, takes_labels=True)
    drop_the_rest(settings)
    for extra in request.extras:
        if not extra.of_search or not searches:
            outbound.ledger.add(extra.path, extra.kind, extra.detail, extra.code)
    return body


def _choice(choice: Choice) -> str | JsonObject:
    mode = choice.mode.lower()
    if not choice.names:
        return mode
    return {"allowed_tools": {"mode": mode, "tools": list(choice.names)}}


def _write_config(settings: RequestSettings, outbound: Outbound) -> JsonObject:
    """`generation_config`, without the choice among tools."""
    request = settings.request
    config: JsonObject = {}
    if request.max_output_tokens is not None and not settings.capabilities.output_limit:
        settings.lose("max_output_tokens", LossKind.KNOB, NOT_TAKEN)
    elif request.max_output_tokens is not None:
        config["max_output_tokens"] = settings.output_limit(request.max_output_tokens, 1)
    for name in ("temperature", "top_p"):
        value = settings.sampling(name, getattr(request, name))
        if value is not None:
            config[name] = value
    if request.seed is not None:
        config["seed"] = request.seed
    if request.stop:
        config["stop_sequences"] = list(request.stop)
    if request.top_k is not None:
        settings.drop("top_k")
    for name in ("presence_penalty", "frequency_penalty", "logprobs", "top_logprobs"):
        if getattr(request, name):
            settings.drop(name)
    wish = request.thinking
    if wish is None:
        own = outbound.capabilities.of(GoogleCapabilities)
        if shows_unasked(settings, own):
            config["thinking_summaries"] = "auto"
        return config
    settings.check_display(wish)
    level = level_for(wish, settings)
    if level is not None:
        config["thinking_level"] = level
    if is_shown(wish, settings):
        config["thinking_summaries"] = "auto"
        if wish.summary not in (None, "auto"):
            detail = "there is one kind of summary of thoughts"
            settings.lose_thinking(LossKind.CONVERTED, detail)
    elif wish.display == "omitted":
        config["thinking_summaries"] = "none"
    return config


def _write_format(body: JsonObject, settings: RequestSettings) -> None:
    """The form of the answer."""
    asked = settings.request.output_format
    written: JsonObject = {"type": "text", "mime_type": "application/json"}
    if isinstance(asked, JsonSchema):
        if not settings.capabilities.structured_output:
            settings.lose("output_format", LossKind.CONTENT, NO_SCHEMA)
            return
        schema, changed = readable_schema(asked.schema)
        if changed:
            detail = f"the upstream does not enforce all of the schema: {', '.join(changed)}"
            settings.lose("output_format", LossKind.CONVERTED, detail)
        if asked.description and "description" not in schema:
            schema = {**schema, "description": asked.description}
        written["schema"] = schema
    body["response_format"] = written
