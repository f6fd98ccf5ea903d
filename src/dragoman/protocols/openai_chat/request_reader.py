"""Reads a Chat request (types/chat/completion_create_params.py)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, OutputFormat, Request, Thinking
from dragoman.canonical.requests import JsonObject as AnyJsonObject
from dragoman.protocols.efforts import EFFORTS
from dragoman.protocols.fields import (
    Fields,
    Readers,
    boolean,
    carried,
    choice,
    decode_object,
    number,
    string,
    whole,
)
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.content_reader import needed
from dragoman.protocols.openai_chat.messages_reader import MessagesReader
from dragoman.protocols.openai_chat.tools import read_tool_choice, read_tools
from dragoman.protocols.openai_settings import LABELS, read_schema

_PATHS = {
    "output_format": "response_format",
    "thinking": "reasoning_effort",
    "include_usage": "stream_options.include_usage",
}


def read_request(body: bytes, sealer: Sealer) -> Request:
    """A client's request in canonical form; every field of it is accounted for.

    Raises:
        InvalidRequest: naming the field at fault.
    """
    fields = Fields(decode_object(body))
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
    effort, top_k = given.get("effort"), given.get("top_k")
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
    settings.update(fields.take_given(_LABELS, extras))
    return Request(
        model=model,
        turns=turns,
        tools=tools,
        tool_choice=tool_choice,
        parallel_tool_calls=parallel,
        max_output_tokens=limit,
        paths=paths,
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
        read = read_schema(inner, inner.take_object("schema") or {})
        inner.rest(extras)
    form.rest(extras)
    return read


def _read_stream_options(fields: Fields, name: str, extras: list[Extra]) -> bool:
    options = needed(fields, name)
    include_usage = options.take_bool("include_usage") or False
    options.rest(extras, wire.STREAM_OPTIONS)
    return include_usage


def _leftovers(fields: Fields, extras: list[Extra]) -> tuple[Extra, ...]:
    """All extras, after the fields with a canonical counterpart were read.

    Fields that no other protocol has are still validated, so that mistakes in them are reported.
    """
    checked = fields.take_given(_CHECKED, extras)
    if checked:
        Fields(checked).rest(extras, wire.REQUEST)
    fields.rest(extras, wire.REQUEST)
    return tuple(extras)


def _take_list(fields: Fields, name: str, _: list[Extra]) -> list[Any] | None:
    return fields.take_list(name)


# In the order in which mistakes are reported.
_FIRST: Readers = {
    "reasoning_effort": ("effort", choice(*EFFORTS)),
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
_LABELS: Readers = {**LABELS, "prompt_cache_options": ("prompt_cache_options", carried)}
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
