"""Reads a Responses request (types: response_create_params.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from dragoman.canonical.blocks import Text
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    Extra,
    JsonSchema,
    OutputFormat,
    Request,
    Thinking,
    Tool,
    ToolChoice,
    Turn,
)
from dragoman.canonical.requests import JsonObject as AnyJsonObject
from dragoman.protocols.fields import check_depth
from dragoman.protocols.openai_responses import shapes, wire
from dragoman.protocols.openai_responses.item_reader import ItemReader
from dragoman.protocols.openai_responses.tools import read_tool_choice, read_tools
from dragoman.protocols.openai_responses.web_search import SOURCES, with_choice
from dragoman.protocols.reading import REFUSED, Reader, carried_object, report_lost
from dragoman.protocols.tools import decoded

_INSTEAD_OF_INPUT = ("previous_response_id", "conversation", "prompt")

_PATHS = {
    "output_format": "text.format",
    "verbosity": "text.verbosity",
    "thinking": "reasoning",
    "logprobs": "include",
    "cache": "prompt_cache_breakpoint",
}
_REQUEST = Reader(shapes.Request[shapes.Item])
_odd_request = Reader(shapes.Request[Raw])


def read_request(body: bytes, sealer: Sealer) -> Request:
    """The client's request.

    Raises:
        InvalidRequest: at the field at fault.
    """
    unknown: list[Extra] = []
    given: shapes.Request[shapes.Item] | shapes.Request[Raw]
    try:
        given = _REQUEST.decode(body)
    except REFUSED:
        given = _odd_request.read(body, unknown)
    check_depth(given.moderation, "moderation")
    extras: list[Extra] = []
    paths = _PATHS.copy()
    items = ItemReader(sealer, extras)
    turns = _read_input(given, items)
    tools: tuple[Tool, ...] = (*read_tools(given.tools, "tools", extras), *items.tools)
    thinking = _read_thinking(given, items, paths, extras)
    text, output_format = given.text, None
    if text is not None or items.updates:
        output_format = _read_format(text, items, paths)
    limit, cache_options = given.max_output_tokens, given.prompt_cache_options or None
    if cache_options is not None:
        check_depth(cache_options, "prompt_cache_options")
        if cache_options.get("prewarm") is True:
            # Filling the cache and generating nothing is an output limit of zero.
            limit, paths["max_output_tokens"] = 0, "prompt_cache_options.prewarm"
            rest = {key: item for key, item in cache_options.items() if key != "prewarm"}
            cache_options = rest or None
    if given.stream_options is not None:
        report_lost(given.stream_options, "stream_options", extras)
    chosen, tool_choice = given.tool_choice, None
    if chosen is not None:
        tool_choice = read_tool_choice(chosen, tools, extras)
        if type(chosen) is dict and (tool_choice is None or tool_choice.allowed is not None):
            tools = with_choice(tools, chosen)
    logprobs = bool(given.include) and _read_include(given.include or (), extras)
    report_lost(given, "", extras)
    if items.compacts:
        tool_choice = ToolChoice(mode="none", path="tool_choice")
    told = given.instructions
    return Request(
        model=given.model,
        turns=turns,
        instructions=(Text(text=told, path="instructions"),) if told else (),
        tools=tools,
        tool_choice=tool_choice,
        parallel_tool_calls=given.parallel_tool_calls,
        max_output_tokens=limit,
        temperature=given.temperature,
        top_p=given.top_p,
        logprobs=logprobs,
        top_logprobs=given.top_logprobs,
        output_format=output_format,
        verbosity=None if text is None else text.verbosity,
        thinking=thinking,
        stream=given.stream or False,
        metadata=given.metadata or None,
        user=given.user,
        safety_identifier=given.safety_identifier,
        prompt_cache_key=given.prompt_cache_key,
        prompt_cache_retention=given.prompt_cache_retention,
        prompt_cache_options=cache_options,
        service_tier=given.service_tier,
        moderation=given.moderation or None,
        store=given.store,
        compacts=items.compacts,
        extras=(*extras, *unknown),
        paths=paths,
    )


def _read_input(given: shapes.Request[Any], items: ItemReader) -> tuple[Turn, ...]:
    value = given.input
    if isinstance(value, str):
        return (Turn(role="user", blocks=(Text(text=value, path="input"),), path="input"),)
    if not value:
        if all(getattr(given, name) is None for name in _INSTEAD_OF_INPUT):
            problem = "is required" if value is None else "must not be empty"
            raise InvalidRequest.at("input", problem)
        return ()
    return items.read(value)


def _read_thinking(
    given: shapes.Request[Any], items: ItemReader, paths: dict[str, str], extras: list[Extra]
) -> Thinking | None:
    """The reasoning settings, after the conversation's updates."""
    thinking = _thinking(given.reasoning, "reasoning", extras)
    for path, update in items.updates:
        later = _thinking(update.reasoning, f"{path}.reasoning", extras)
        if later is not None:
            thinking = replace(thinking or Thinking(), effort=later.effort)
            paths["thinking"] = f"{path}.reasoning"
    return thinking


def _thinking(given: shapes.Reasoning | None, path: str, extras: list[Extra]) -> Thinking | None:
    if given is None:
        return None
    report_lost(given, path, extras)
    summary = given.summary or given.generate_summary
    if given.effort is None and summary is None:
        return None
    return Thinking(effort=given.effort, summary=summary)


def _read_format(
    text: shapes.TextSettings | None, items: ItemReader, paths: dict[str, str]
) -> OutputFormat | None:
    """The form of the answer, after the conversation's updates."""
    path = "text"
    for where, update in items.updates:
        if update.text is not None:
            text, path = update.text, f"{where}.text"
            paths["output_format"] = f"{path}.format"
    asked = None if text is None else text.format
    if isinstance(asked, shapes.ObjectFormat):
        return AnyJsonObject()
    if not isinstance(asked, shapes.SchemaFormat):
        return None
    schema = carried_object(asked.schema, path, "format.schema")
    if schema is None:
        raise InvalidRequest.at(f"{path}.format.schema", "is required")
    return JsonSchema(
        schema=decoded(schema),
        name=asked.name,
        description=asked.description,
        strict=asked.strict,
    )


def _read_include(include: Sequence[str], extras: list[Extra]) -> bool:
    """Whether log probabilities are requested."""
    for position, value in enumerate(include):
        if value not in _GIVEN:
            detail, of_search = "the answer cannot include this", value == SOURCES
            path = f"include[{position}]"
            extras.append(Extra(path, value, LossKind.KNOB, detail, of_search=of_search))
    return wire.LOGPROBS in include


_GIVEN = (wire.LOGPROBS, wire.ENCRYPTED_REASONING)
"""Values of `include` that are read, or for what every answer has: the state of reasoning."""
