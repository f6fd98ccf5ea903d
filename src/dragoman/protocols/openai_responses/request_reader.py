"""Reads a Responses request (types: response_create_params.py)."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.canonical.blocks import Text
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    Extra,
    OutputFormat,
    Request,
    Thinking,
    Tool,
    Turn,
)
from dragoman.canonical.requests import JsonObject as AnyJsonObject
from dragoman.protocols.efforts import EFFORTS
from dragoman.protocols.fields import Fields, Readers, boolean, decode_object, number
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.item_reader import ItemReader
from dragoman.protocols.openai_responses.tools import read_tool_choice, read_tools
from dragoman.protocols.openai_responses.web_search import SOURCES, with_choice
from dragoman.protocols.openai_settings import LABELS, read_schema

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
    fields = Fields(decode_object(body))
    extras: list[Extra] = []
    paths = dict(_PATHS)
    model = fields.need_str("model")
    if not model:
        fields.fail("model", "must not be empty")
    items = ItemReader(sealer, extras)
    turns = _read_input(fields, items)
    tools: tuple[Tool, ...] = (
        *read_tools(fields.take_list("tools"), "tools", extras),
        *items.tools,
    )
    thinking: Thinking | None = None
    output_format: OutputFormat | None = None
    verbosity: str | None = None
    if items.updates or fields.has_any(_SHAPING):
        thinking, output_format, verbosity = _read_settings(fields, items, extras, paths)
    logprobs, top_logprobs = False, None
    if fields.has_any(_PROBABILITIES):
        logprobs, top_logprobs = _read_logprobs(fields, extras)
    max_output_tokens = fields.take_int("max_output_tokens", minimum=1)
    cache_options = fields.take_object("prompt_cache_options")
    if cache_options is not None and cache_options.get("prewarm") is True:
        # Filling the cache and generating nothing is an output limit of zero.
        max_output_tokens = 0
        paths["max_output_tokens"] = "prompt_cache_options.prewarm"
        cache_options = {key: item for key, item in cache_options.items() if key != "prewarm"}
    stream_options = fields.take_fields("stream_options")
    if stream_options is not None:
        stream_options.rest(extras, wire.STREAM_OPTIONS)
    instructions = _read_instructions(fields)
    chosen = fields.take("tool_choice")
    tool_choice = read_tool_choice(chosen, tools, extras)
    if type(chosen) is dict and (tool_choice is None or tool_choice.allowed is not None):
        tools = with_choice(tools, chosen)
    settings = fields.take_given(_SETTINGS, extras)
    fields.rest(extras, wire.REQUEST)
    return Request(
        model=model,
        turns=turns,
        instructions=instructions,
        tools=tools,
        tool_choice=tool_choice,
        max_output_tokens=max_output_tokens,
        logprobs=logprobs,
        top_logprobs=top_logprobs,
        output_format=output_format,
        verbosity=verbosity,
        thinking=thinking,
        prompt_cache_options=cache_options or None,
        extras=tuple(extras),
        paths=paths,
        **settings,
    )


def _read_input(fields: Fields, items: ItemReader) -> tuple[Turn, ...]:
    value = fields.take("input")
    if type(value) is str:
        return (Turn(role="user", blocks=(Text(text=value, path="input"),), path="input"),)
    if value is None or value == []:
        if not any(fields.has(name) for name in _INSTEAD_OF_INPUT):
            fields.fail("input", "is required" if value is None else "must not be empty")
        return ()
    if type(value) is not list:
        fields.fail("input", "must be a string or an array of items")
    for position, item in enumerate(value):
        items.read(item, f"input[{position}]")
    return items.finish()


def _read_instructions(fields: Fields) -> tuple[Text, ...]:
    text = fields.take_str("instructions")
    return (Text(text=text, path="instructions"),) if text else ()


def _read_settings(
    fields: Fields, items: ItemReader, extras: list[Extra], paths: dict[str, str]
) -> tuple[Thinking | None, OutputFormat | None, str | None]:
    """The reasoning and text settings, after the conversation's updates; `paths` are the places of
    these."""
    thinking = _read_reasoning(fields.take_fields("reasoning"), extras)
    output_format, verbosity = _read_text(fields.take_fields("text"), extras)
    for path, update in items.updates:
        updated = Fields(update, path)
        later = _read_reasoning(updated.take_fields("reasoning"), extras)
        if later is not None:
            thinking = replace(thinking or Thinking(), effort=later.effort)
            paths["thinking"] = updated.at("reasoning")
        text = updated.take_fields("text")
        if text is not None:
            output_format = _read_text(text, extras)[0]
            paths["output_format"] = text.at("format")
    return thinking, output_format, verbosity


def _read_reasoning(fields: Fields | None, extras: list[Extra]) -> Thinking | None:
    if fields is None:
        return None
    effort = fields.take_choice("effort", EFFORTS)
    summary = fields.take_choice("summary", wire.SUMMARIES)
    older_summary = fields.take_choice("generate_summary", wire.SUMMARIES)
    fields.rest(extras, wire.REASONING_OPTIONS)
    summary = summary or older_summary
    if effort is None and summary is None:
        return None
    return Thinking(effort=effort, summary=summary)


def _read_text(
    fields: Fields | None, extras: list[Extra]
) -> tuple[OutputFormat | None, str | None]:
    if fields is None:
        return None, None
    output_format = _read_format(fields.take_fields("format"), extras)
    verbosity = fields.take_choice("verbosity", wire.VERBOSITIES)
    fields.rest(extras)
    return output_format, verbosity


def _read_format(fields: Fields | None, extras: list[Extra]) -> OutputFormat | None:
    if fields is None:
        return None
    output_format: OutputFormat | None = None
    match fields.take_choice("type", ("text", "json_object", "json_schema")):
        case None:
            fields.fail("type", "is required")
        case "json_object":
            output_format = AnyJsonObject()
        case "json_schema":
            schema = fields.take_object("schema")
            if schema is None:
                fields.fail("schema", "is required")
            output_format = read_schema(fields, schema)
    fields.rest(extras)
    return output_format


def _read_logprobs(fields: Fields, extras: list[Extra]) -> tuple[bool, int | None]:
    """Whether log probabilities are requested, and the number of alternatives of each token."""
    asked = False
    for position, value in enumerate(fields.take_list("include") or ()):
        path = f"include[{position}]"
        if type(value) is not str:
            raise InvalidRequest.at(path, "must be a string")
        if value == wire.LOGPROBS:
            asked = True
        elif value not in wire.IGNORED_INCLUDE:
            detail = "the answer cannot include this"
            of_search = value == SOURCES
            extras.append(Extra(path, value, LossKind.KNOB, detail, of_search=of_search))
    return asked, fields.take_int("top_logprobs", minimum=0)


_SHAPING = frozenset({"reasoning", "text"})
_PROBABILITIES = frozenset({"include", "top_logprobs"})
_SETTINGS: Readers = {
    "parallel_tool_calls": ("parallel_tool_calls", boolean),
    "temperature": ("temperature", number(0, 2)),
    "top_p": ("top_p", number(0, 1)),
    "stream": ("stream", boolean),
    **LABELS,
}
