"""Reads a Chat request (types/chat/completion_create_params.py)."""

from __future__ import annotations

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    Extra,
    JsonObject,
    JsonSchema,
    OutputFormat,
    Request,
    Thinking,
)
from dragoman.protocols.fields import check_depth
from dragoman.protocols.openai_chat import shapes
from dragoman.protocols.openai_chat.messages_reader import MessagesReader
from dragoman.protocols.openai_chat.tools import read_tool_choice, read_tools
from dragoman.protocols.openai_settings import read_labels
from dragoman.protocols.reading import Reader, report_lost

_PATHS = {
    "output_format": "response_format",
    "thinking": "reasoning_effort",
    "include_usage": "stream_options.include_usage",
}
_REQUEST = Reader(shapes.Request)


def read_request(body: bytes, sealer: Sealer) -> Request:
    """A client's request in canonical form; every member of it is accounted for.

    Raises:
        InvalidRequest: naming the member at fault.
    """
    extras: list[Extra] = []
    given = _REQUEST.read(body, extras)
    paths = _PATHS.copy()
    turns = MessagesReader(sealer, extras).read(given.messages)
    if given.function_call is not None and given.tool_choice is None:
        paths["tool_choice"] = "function_call"
    check_depth(given.prompt_cache_options, "prompt_cache_options")
    tools = read_tools(given, extras)
    tool_choice = read_tool_choice(given, extras)
    limit = _read_limit(given, extras, paths)
    stop, top_k, options = given.stop, given.top_k, given.stream_options
    if options is not None:
        report_lost(options, "stream_options", extras)
    report_lost(given, "", extras)
    return Request(
        model=given.model,
        turns=turns,
        tools=tools,
        tool_choice=tool_choice,
        parallel_tool_calls=given.parallel_tool_calls,
        max_output_tokens=limit,
        temperature=given.temperature,
        top_p=given.top_p,
        # The servers that know top_k turn it off with 0 or -1.
        top_k=top_k if top_k is not None and top_k > 0 else None,
        seed=given.seed,
        presence_penalty=given.presence_penalty,
        frequency_penalty=given.frequency_penalty,
        stop=(stop,) if isinstance(stop, str) else stop or (),
        logprobs=given.logprobs or False,
        top_logprobs=given.top_logprobs,
        output_format=_read_format(given),
        verbosity=given.verbosity,
        thinking=None
        if given.reasoning_effort is None
        else Thinking(effort=given.reasoning_effort),
        stream=given.stream or False,
        include_usage=options is not None and options.include_usage is True,
        prompt_cache_options=given.prompt_cache_options,
        paths=paths,
        extras=tuple(extras),
        **read_labels(given),
    )


def _read_limit(given: shapes.Request, extras: list[Extra], paths: dict[str, str]) -> int | None:
    newer, older = given.max_completion_tokens, given.max_tokens
    paths["max_output_tokens"] = "max_tokens" if newer is None else "max_completion_tokens"
    if newer is not None and older not in (None, newer):
        extras.append(Extra("max_tokens", older, LossKind.KNOB, "max_completion_tokens is used"))
    return older if newer is None else newer


def _read_format(given: shapes.Request) -> OutputFormat | None:
    match given.response_format:
        case shapes.JsonOutput():
            return JsonObject()
        case shapes.SchemaOutput(json_schema=asked):
            check_depth(asked.schema, "response_format.json_schema.schema")
            return JsonSchema(
                schema=asked.schema or {},
                name=asked.name,
                description=asked.description,
                strict=asked.strict,
            )
    return None
