"""A whole request, both ways: the settings beside the messages and tools."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.names import safe_id
from dragoman.canonical.requests import Extra, JsonSchema, OutputFormat, Request, Thinking
from dragoman.canonical.requests import JsonObject as AnyJsonObject
from dragoman.canonical.stops import EMULATED, emulated
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import (
    Fields,
    JsonObject,
    Readers,
    boolean,
    carried,
    choice,
    number,
    string,
    whole,
)
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.content import needed
from dragoman.protocols.openai_chat.messages_reader import MessagesReader
from dragoman.protocols.openai_chat.messages_writer import write_messages
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.openai_chat.tools import ToolWriter, read_tool_choice, read_tools
from dragoman.protocols.openai_schemas import is_strict

# --- reading ------------------------------------------------------------------------------------

_PATHS = {
    "output_format": "response_format",
    "thinking": "reasoning_effort",
    "include_usage": "stream_options.include_usage",
}


def read_request(body: JsonObject, sealer: Sealer) -> Request:
    """A client's request in canonical form; every field of it is accounted for.

    Raises:
        InvalidRequest: naming the field at fault.
    """
    fields = Fields(body)
    extras: list[Extra] = []
    paths = _PATHS.copy()
    model = fields.need_str("model")
    if not model:
        fields.fail("model", "must not be empty")
    messages = fields.take_list("messages")
    if not messages:
        fields.fail("messages", "is required" if messages is None else "must not be empty")
    reader = MessagesReader(sealer, extras)
    turns = tuple([reader.read(message, f"messages[{n}]") for n, message in enumerate(messages)])
    if fields.has("function_call") and not fields.has("tool_choice"):
        paths["tool_choice"] = "function_call"
    given = fields.take_given(_FIRST, extras)
    effort, metadata, top_k = given.get("effort"), given.get("metadata"), given.get("top_k")
    tools = read_tools(fields, extras)
    tool_choice = read_tool_choice(fields, extras)
    parallel = fields.take_bool("parallel_tool_calls")
    limit = _read_limit(fields, extras, paths)
    settings = fields.take_given(_SETTINGS, extras)
    if effort is not None:
        settings["thinking"] = Thinking(effort=effort)
    # The servers that know top_k turn it off with 0 or -1.
    if top_k is not None and top_k > 0:
        settings["top_k"] = top_k
    if metadata is not None:
        settings["metadata"] = _checked_metadata(metadata)
    settings.update(fields.take_given(_LABELS, extras))
    return Request(
        model=model,
        turns=turns,
        tools=tools,
        tool_choice=tool_choice,
        parallel_tool_calls=parallel,
        max_output_tokens=limit,
        paths=paths,
        source=body,
        extras=_leftovers(fields, extras),
        **settings,
    )


def _read_limit(fields: Fields, extras: list[Extra], paths: dict[str, str]) -> int | None:
    newer = fields.take_int("max_completion_tokens", 1)
    older = fields.take_int("max_tokens", 1)
    paths["max_output_tokens"] = "max_tokens" if newer is None else "max_completion_tokens"
    if newer is not None and older not in (None, newer):
        extras.append(Extra("max_tokens", older, LossKind.KNOB, "max_completion_tokens is used"))
    return older if newer is None else newer


def _read_stop(fields: Fields, name: str, _: list[Extra]) -> tuple[str, ...]:
    stop = fields.take(name)
    if type(stop) is str:
        return (stop,)
    if type(stop) is not list:
        fields.fail("stop", "must be a string or an array of strings")
    for position, value in enumerate(stop):
        if type(value) is not str:
            fields.fail(f"stop[{position}]", "must be a string")
    return tuple(stop)


def _read_format(fields: Fields, name: str, extras: list[Extra]) -> OutputFormat | None:
    form = needed(fields, name)
    kind = form.take_choice("type", ("text", "json_object", "json_schema"))
    if kind is None:
        form.fail("type", "is required")
    read: OutputFormat | None = AnyJsonObject() if kind == "json_object" else None
    if kind == "json_schema":
        inner = needed(form, "json_schema")
        read = JsonSchema(
            schema=inner.take_object("schema") or {},
            name=inner.need_str("name"),
            description=inner.take_str("description"),
            strict=inner.take_bool("strict"),
        )
        inner.rest(extras)
    form.rest(extras)
    return read


def _read_stream_options(fields: Fields, name: str, extras: list[Extra]) -> bool:
    options = needed(fields, name)
    include_usage = options.take_bool("include_usage") or False
    options.rest(extras, wire.STREAM_OPTIONS)
    return include_usage


def _checked_metadata(metadata: dict[str, Any]) -> dict[str, str]:
    for key, value in metadata.items():
        if type(value) is not str:
            raise InvalidRequest.at(f"metadata.{key}", "must be a string")
    return metadata


def _leftovers(fields: Fields, extras: list[Extra]) -> tuple[Extra, ...]:
    """All extras, once everything with a canonical home was taken.

    Fields no other protocol has are still checked, so that a mistake in them is told.
    """
    checked = fields.take_given(_CHECKED, extras)
    if checked:
        Fields(checked).rest(extras, wire.REQUEST)
    fields.rest(extras, wire.REQUEST)
    return tuple(extras)


def _take_list(fields: Fields, name: str, _: list[Extra]) -> list[Any] | None:
    return fields.take_list(name)


# In the order in which mistakes are told.
_FIRST: Readers = {
    "reasoning_effort": ("effort", choice(*wire.EFFORTS)),
    "metadata": ("metadata", carried),
    "top_k": ("top_k", whole()),
}
_SETTINGS: Readers = {
    "temperature": ("temperature", number(0, 2)),
    "top_p": ("top_p", number(0, 1)),
    "stop": ("stop", _read_stop),
    "logprobs": ("logprobs", boolean),
    "top_logprobs": ("top_logprobs", whole(0)),
    "response_format": ("output_format", _read_format),
    "verbosity": ("verbosity", string),
    "stream": ("stream", boolean),
    "stream_options": ("include_usage", _read_stream_options),
}
_LABELS: Readers = {
    "user": ("user", string),
    "safety_identifier": ("safety_identifier", string),
    "prompt_cache_key": ("prompt_cache_key", string),
    "prompt_cache_retention": ("prompt_cache_retention", string),
    "prompt_cache_options": ("prompt_cache_options", carried),
    "service_tier": ("service_tier", string),
    "moderation": ("moderation", carried),
    "store": ("store", boolean),
}
_CHECKED: Readers = {
    "n": ("n", whole(1)),
    "seed": ("seed", whole()),
    "frequency_penalty": ("frequency_penalty", number(-2, 2)),
    "presence_penalty": ("presence_penalty", number(-2, 2)),
    "logit_bias": ("logit_bias", carried),
    "prediction": ("prediction", carried),
    "audio": ("audio", carried),
    "modalities": ("modalities", _take_list),
}


# --- writing ------------------------------------------------------------------------------------


def write_request(request: Request, outbound: Outbound) -> JsonObject:
    """The body for a Chat upstream; what it does not carry is in the ledger."""
    body: JsonObject = {
        "model": outbound.model,
        "messages": write_messages(request, outbound),
    }
    if request.tools or request.tool_choice is not None:
        ToolWriter(outbound).write(request, body)
    writer = _SettingsWriter(request, outbound, body)
    writer.limits()
    writer.sampling()
    writer.output()
    writer.thinking()
    writer.account()
    writer.stream()
    for extra in request.extras:
        outbound.ledger.add(extra.path, extra.kind, extra.detail, extra.code)
    return body


class _SettingsWriter:
    """Writes the settings of one request into its body, by topic."""

    __slots__ = ("_body", "_capabilities", "_ledger", "_options", "_own", "_request")

    def __init__(self, request: Request, outbound: Outbound, body: JsonObject) -> None:
        self._body = body
        self._capabilities = outbound.capabilities
        self._own = outbound.capabilities.of(ChatCapabilities)
        self._ledger = outbound.ledger
        self._options = outbound.options
        self._request = request

    def _lose(self, name: str, kind: LossKind, detail: str) -> None:
        self._ledger.add(self._request.path_of(name), kind, detail)

    def limits(self) -> None:
        limit = self._request.max_output_tokens
        most = self._capabilities.max_output_tokens
        if limit == 0:
            self._lose("max_output_tokens", LossKind.CONTENT, "0 asks for no answer at all")
            limit = None
        if limit is not None and most is not None and limit > most:
            self._lose("max_output_tokens", LossKind.REPAIRED, "fitted to the upstream's limit")
            limit = most
        if limit is not None:
            self._body[self._own.max_tokens_field] = limit
        stop = self._request.stop
        taken = taken_stops(stop)
        if emulated(stop, taken, self._options):
            self._lose("stop", LossKind.CONVERTED, EMULATED)
        elif len(taken) < len(stop):
            self._lose("stop", LossKind.CONTENT, f"only {wire.MAX_STOPS} stop sequences upstream")
        if taken:
            self._body["stop"] = list(taken)

    def sampling(self) -> None:
        request = self._request
        if request.temperature is not None:
            self._sample("temperature", request.temperature)
        if request.top_p is not None:
            self._sample("top_p", request.top_p)
        if request.top_k is not None and self._own.top_k:
            self._body["top_k"] = request.top_k
        elif request.top_k is not None:
            self._lose("top_k", LossKind.KNOB, "has no counterpart upstream")
        if request.logprobs:
            self._body["logprobs"] = True
            if request.top_logprobs is not None:
                self._body["top_logprobs"] = request.top_logprobs
        elif request.top_logprobs:
            self._lose("top_logprobs", LossKind.KNOB, "log probabilities were not asked for")

    def _sample(self, name: str, value: float) -> None:
        if self._capabilities.sampling:
            self._body[name] = value
        elif value != 1:  # 1 is what the model does anyway
            self._lose(name, LossKind.KNOB, "the upstream does not take it")

    def output(self) -> None:
        if self._request.output_format is not None:
            self._format(self._request.output_format)
        if self._request.verbosity is not None:
            self._body["verbosity"] = self._request.verbosity

    def _format(self, form: OutputFormat) -> None:
        if isinstance(form, AnyJsonObject):
            self._body["response_format"] = {"type": "json_object"}
        elif self._capabilities.structured_output:
            schema = self._json_schema(form)
            self._body["response_format"] = {"type": "json_schema", "json_schema": schema}
        else:
            self._lose("output_format", LossKind.CONTENT, "the upstream takes no JSON schema")

    def _json_schema(self, form: JsonSchema) -> JsonObject:
        name = "output" if form.name is None else safe_id(form.name, wire.MAX_FORMAT_NAME)
        written: JsonObject = {"name": name}
        if form.description is not None:
            written["description"] = form.description
        written["schema"] = form.schema
        if form.name is not None:
            if form.strict is not None:
                written["strict"] = form.strict
            return written
        # A format without a name comes from Messages, which always enforces the schema.
        written["strict"] = is_strict(form.schema)
        if not written["strict"]:
            self._lose("output_format", LossKind.CONVERTED, "the schema is not enforced upstream")
        return written

    def thinking(self) -> None:
        thinking = self._request.thinking
        effort = None
        if thinking is not None:
            if thinking.display not in (None, "summarized", "omitted"):
                self._lose("thinking", LossKind.KNOB, "reasoning is shown whole or not at all")
            effort = self._effort(thinking)
        if self._body.get("tools") and not self._own.reasoning_with_tools:
            # Also for clients that asked for nothing: such models reason unless told not to.
            if effort != "none":
                self._lose("thinking", LossKind.KNOB, "the upstream does not reason beside tools")
            effort = "none"
        if effort is None:
            return
        match self._own.effort:
            case "effort":
                known = self._nearest(effort)
                if known != effort:
                    self._lose("thinking", LossKind.KNOB, "the nearest effort known is asked for")
                if known is not None:
                    self._body["reasoning_effort"] = known
                return
            case "chat_template_kwargs":
                self._body["chat_template_kwargs"] = {"enable_thinking": effort != "none"}
            case "enable_thinking":
                self._body["enable_thinking"] = effort != "none"
            case "none":
                self._lose("thinking", LossKind.KNOB, "the upstream cannot be asked to think")
                return
        if effort != "none":
            self._lose("thinking", LossKind.KNOB, "thinking can only be on or off upstream")

    def _effort(self, thinking: Thinking) -> str | None:
        if thinking.effort is not None:
            return thinking.effort
        match thinking.mode:
            case "disabled":
                return "none"
            case "adaptive":
                self._lose("thinking", LossKind.KNOB, "how much to think is left to the upstream")
            case "between_tools":
                self._lose("thinking", LossKind.KNOB, "thinking between tool calls is turned off")
                return "none"
            case "enabled" if thinking.budget is not None:
                self._lose("thinking", LossKind.KNOB, "the token budget becomes an effort")
                return effort_for_budget(thinking.budget)
        return None

    def _nearest(self, effort: str) -> str | None:
        """The effort itself, else the nearest lower one the upstream knows, else the lowest.

        Not thinking at all is no lower effort: it is used only when asked for.
        """
        words = wire.EFFORTS if effort == "none" else wire.EFFORTS[1:]
        known = [word for word in words if word in self._capabilities.efforts]
        wanted = words.index(effort) if effort in words else len(words)
        lower = [word for word in known if words.index(word) <= wanted]
        return lower[-1] if lower else next(iter(known), None)

    def account(self) -> None:
        request = self._request
        if request.metadata:
            self._body["metadata"] = request.metadata
        if request.user is not None:
            self._identify("user", request.user)
        if request.safety_identifier is not None:
            self._identify("safety_identifier", request.safety_identifier)
        if request.prompt_cache_key is not None:
            self._body["prompt_cache_key"] = request.prompt_cache_key
        if request.prompt_cache_retention is not None:
            self._body["prompt_cache_retention"] = request.prompt_cache_retention
        if request.moderation is not None:
            self._body["moderation"] = request.moderation
        if request.prompt_cache_options is not None:
            self._cache_options(request.prompt_cache_options)
        if request.auto_cache is not None:
            self._lose("auto_cache", LossKind.KNOB, "the upstream caches by itself or not at all")
        if request.store:
            self._lose("store", LossKind.KNOB, "the upstream is not asked to keep the answer")
        self._service_tier()

    def _identify(self, name: str, value: str) -> None:
        if len(value) > wire.MAX_USER_ID:
            value = _hashed(value)
            self._lose(name, LossKind.CONVERTED, "too long for the upstream: its hash is sent")
        self._body[name] = value

    def _cache_options(self, options: JsonObject) -> None:
        path = self._request.path_of("prompt_cache_options")
        kept: JsonObject = {}
        for name, value in options.items():
            if name == "mode" or (name == "ttl" and value == "30m"):
                kept[name] = value
            elif value is not None:
                self._ledger.add(f"{path}.{name}", LossKind.KNOB, "has no counterpart upstream")
        if kept:
            self._body["prompt_cache_options"] = kept

    def _service_tier(self) -> None:
        tier, speed = self._request.service_tier, self._request.speed
        if tier in wire.SERVICE_TIERS:
            self._body["service_tier"] = tier
        elif tier is not None:
            self._lose("service_tier", LossKind.KNOB, "the upstream has no such tier")
        if speed == "fast" and self._options.map_fast:
            self._body["service_tier"] = "fast"
        elif speed not in (None, "standard"):
            self._lose("speed", LossKind.KNOB, "has no counterpart upstream")

    def stream(self) -> None:
        if not self._request.stream:
            return
        self._body["stream"] = True
        if self._own.stream_usage:
            self._body["stream_options"] = {"include_usage": True}


def taken_stops(stops: Sequence[str]) -> tuple[str, ...]:
    """The stop sequences that upstreams take: the first four."""
    return tuple(stops[: wire.MAX_STOPS])


def effort_for_budget(budget: int) -> str:
    """The effort word for a budget of thinking tokens."""
    for limit, word in ((2048, "low"), (12288, "medium"), (32768, "high")):
        if budget <= limit:
            return word
    return "xhigh"


def _hashed(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
