"""Reads a Responses request (types: response_create_params.py)."""

from __future__ import annotations

from operator import attrgetter
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
    Request,
    Thinking,
    Tool,
    ToolChoice,
    Turn,
)
from dragoman.canonical.requests import JsonObject as AnyJsonObject
from dragoman.protocols.fields import JsonObject, check_depth
from dragoman.protocols.openai_responses import shapes, wire
from dragoman.protocols.openai_responses.item_reader import ItemReader
from dragoman.protocols.openai_responses.tools import read_tool_choice, read_tools
from dragoman.protocols.openai_responses.web_search import SOURCES, with_choice
from dragoman.protocols.openai_settings import Labels
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
    turns = _read_input(given, items, extras)
    tools: tuple[Tool, ...] = (*read_tools(given.tools, "tools", extras), *items.tools)
    settings = {
        name: value
        for name, value in zip(_SAME, _same_of(given), strict=True)
        if value is not None and value != {}
    }
    _read_thinking(given, items, settings, paths, extras)
    _read_format(given, items, settings, paths)
    _read_cache_options(given, settings, paths)
    if given.stream_options is not None:
        report_lost(given.stream_options, "stream_options", extras)
    chosen, tool_choice = given.tool_choice, None
    if chosen is not None:
        tool_choice = read_tool_choice(chosen, tools, extras)
    if type(chosen) is dict and (tool_choice is None or tool_choice.allowed is not None):
        tools = with_choice(tools, chosen)
    if given.include and _read_include(given.include, extras):
        settings["logprobs"] = True
    report_lost(given, "", extras)
    if items.compacts:
        settings["compacts"] = True
        tool_choice = ToolChoice(mode="none", path="tool_choice")
    if tool_choice is not None:
        settings["tool_choice"] = tool_choice
    if given.instructions:
        settings["instructions"] = (Text(text=given.instructions, path="instructions"),)
    return Request(
        model=given.model,
        turns=turns,
        tools=tools,
        extras=(*extras, *unknown),
        paths=paths,
        **settings,
    )


_SAME = (
    *Labels.__struct_fields__,
    "parallel_tool_calls",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_logprobs",
    "stream",
)
"""Settings that are in a canonical request as they are."""

_same_of = attrgetter(*_SAME)
_REQUEST = Reader(shapes.Request[shapes.Item])
_odd_request = Reader(shapes.Request[Raw])
_item = Reader(shapes.Item)


def _read_input(
    given: shapes.Request[Any], items: ItemReader, extras: list[Extra]
) -> tuple[Turn, ...]:
    value = given.input
    if isinstance(value, str):
        return (Turn(role="user", blocks=(Text(text=value, path="input"),), path="input"),)
    if not value:
        if all(getattr(given, name) is None for name in _INSTEAD_OF_INPUT):
            problem = "is required" if value is None else "must not be empty"
            raise InvalidRequest.at("input", problem)
        return ()
    for position, item in enumerate(value):
        path = f"input[{position}]"
        items.read(item if type(item) is shapes.Item else _item.read(item, extras, path), path)
    return items.finish()


def _read_thinking(
    given: shapes.Request[Any],
    items: ItemReader,
    settings: JsonObject,
    paths: dict[str, str],
    extras: list[Extra],
) -> None:
    """Add the reasoning settings, after the conversation's updates."""
    thinking = _thinking(given.reasoning, "reasoning", extras)
    for path, update in items.updates:
        later = _thinking(update.reasoning, f"{path}.reasoning", extras)
        if later is not None:
            thinking = replace(thinking or Thinking(), effort=later.effort)
            paths["thinking"] = f"{path}.reasoning"
    if thinking is not None:
        settings["thinking"] = thinking


def _thinking(given: shapes.Reasoning | None, path: str, extras: list[Extra]) -> Thinking | None:
    if given is None:
        return None
    report_lost(given, path, extras)
    summary = given.summary or given.generate_summary
    if given.effort is None and summary is None:
        return None
    return Thinking(effort=given.effort, summary=summary)


def _read_format(
    given: shapes.Request[Any], items: ItemReader, settings: JsonObject, paths: dict[str, str]
) -> None:
    """Add the form of the answer, after the conversation's updates."""
    text, path = given.text, "text"
    if text is not None and text.verbosity is not None:
        settings["verbosity"] = text.verbosity
    for where, update in items.updates:
        if update.text is not None:
            text, path = update.text, f"{where}.text"
            paths["output_format"] = f"{path}.format"
    if text is None:
        return
    if isinstance(text.format, shapes.ObjectFormat):
        settings["output_format"] = AnyJsonObject()
    elif isinstance(text.format, shapes.SchemaFormat):
        schema = carried_object(text.format.schema, f"{path}.format.schema")
        if schema is None:
            raise InvalidRequest.at(f"{path}.format.schema", "is required")
        settings["output_format"] = JsonSchema(
            schema=decoded(schema),
            name=text.format.name,
            description=text.format.description,
            strict=text.format.strict,
        )


def _read_cache_options(
    given: shapes.Request[Any], settings: JsonObject, paths: dict[str, str]
) -> None:
    options = given.prompt_cache_options
    if not options:
        return
    check_depth(options, "prompt_cache_options")
    if options.get("prewarm") is True:
        # Filling the cache and generating nothing is an output limit of zero.
        settings["max_output_tokens"] = 0
        paths["max_output_tokens"] = "prompt_cache_options.prewarm"
        options = {key: item for key, item in options.items() if key != "prewarm"}
    settings["prompt_cache_options"] = options or None


def _read_include(include: list[str], extras: list[Extra]) -> bool:
    """Whether log probabilities are requested."""
    for position, value in enumerate(include):
        if value not in _GIVEN:
            detail, of_search = "the answer cannot include this", value == SOURCES
            path = f"include[{position}]"
            extras.append(Extra(path, value, LossKind.KNOB, detail, of_search=of_search))
    return wire.LOGPROBS in include


_GIVEN = (wire.LOGPROBS, wire.ENCRYPTED_REASONING)
"""Values of `include` that are read, or for what every answer has: the state of reasoning."""
