"""Reads a Messages request (types/message_create_params.py, stable and beta)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from dragoman.canonical.blocks import Block, Text
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    Extra,
    JsonSchema,
    OutputFormat,
    Request,
    Turn,
)
from dragoman.protocols.anthropic_messages import shapes, wire
from dragoman.protocols.anthropic_messages.content_reader import BlockReader, cache_mark
from dragoman.protocols.anthropic_messages.thinking import read_thinking
from dragoman.protocols.anthropic_messages.threads import threads_unsupported
from dragoman.protocols.anthropic_messages.tools import read_choice, read_tools
from dragoman.protocols.fields import check_depth
from dragoman.protocols.reading import Reader, report_lost
from dragoman.protocols.request_settings import NO_COUNTERPART

B = TypeVar("B", bound=Block)

_PATHS = {
    "auto_cache": "cache_control",
    "instructions": "system",
    "max_output_tokens": "max_tokens",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "safety_identifier": "metadata.user_id",
    "stop": "stop_sequences",
    "turns": "messages",
}
_REQUEST = Reader(shapes.Request)


def read_request(body: bytes, sealer: Sealer, *, counting: bool = False) -> Request:
    """A Messages request in canonical form.

    With `counting` it is one of `count_tokens`, which has no `max_tokens`.

    Raises:
        InvalidRequest: naming the field. For `thread`, with the error code on which the official
        SDKs send whole histories.
    """
    extras: list[Extra] = []
    given = _REQUEST.read(body, extras)
    if given.thread is not None:
        raise threads_unsupported()
    model, limit, messages = given.model, given.max_tokens, given.messages
    if not model:
        raise _missing("model")
    if limit is None and not counting:
        raise _missing("max_tokens")
    if messages is None:
        raise _missing("messages")
    blocks = BlockReader(sealer, extras)
    turns = _read_turns(messages, blocks, extras)
    paths = _PATHS.copy()
    shape, effort = _read_output(given, paths, extras)
    tools = read_tools(given.tools or (), blocks.added_tools, extras)
    choice, parallel = read_choice(given.tool_choice, extras)
    instructions = () if given.system is None else blocks.texts(given.system, "system")
    thinking = read_thinking(given.thinking, effort, extras)
    if given.fallbacks == "default":
        # The service's own choice of models, none of the client's.
        extras.append(Extra("fallbacks", given.fallbacks, LossKind.KNOB, NO_COUNTERPART))
        given.fallbacks = None
    report_lost(given, "", extras)
    return Request(
        model=model,
        turns=turns,
        instructions=tuple([one for one in _without_billing(instructions, extras) if one.text]),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        max_output_tokens=limit,
        temperature=given.temperature,
        top_p=given.top_p,
        top_k=given.top_k,
        stop=tuple(given.stop_sequences or ()),
        output_format=shape,
        thinking=thinking,
        stream=given.stream or False,
        safety_identifier=None if given.metadata is None else given.metadata.user_id,
        auto_cache=cache_mark(given.cache_control),
        service_tier="default" if given.service_tier == "standard_only" else None,
        speed="fast" if given.speed == "fast" else None,
        paths=paths,
        extras=tuple(extras),
    )


def _missing(name: str) -> InvalidRequest:
    return InvalidRequest.at(name, "is required", code="missing_required_parameter")


def _read_turns(
    messages: list[shapes.AnyMessage], blocks: BlockReader, extras: list[Extra]
) -> tuple[Turn, ...]:
    turns = []
    for position, message in enumerate(messages):
        path = f"messages[{position}]"
        if message.clear_at is not None or message.output_config is not None:
            report_lost(message, path, extras)
        role, content = message.role, message.content
        read = () if content is None else blocks.blocks(content, path, role)
        if role == "system":
            # Inside a conversation OpenAI's protocols use the developer role for it.
            role = "developer"
            if read:
                read = tuple(_without_billing(read, extras))
                if not read:
                    continue
        turns.append(Turn(role=role, blocks=read, path=path))
    last = turns[-1].blocks[-1:] if turns and turns[-1].role == "assistant" else ()
    if last and isinstance(last[0], Text):
        detail = "a prefill is not continued upstream"
        extras.append(Extra(turns[-1].path, None, LossKind.CONVERTED, detail))
    return tuple(turns)


def _without_billing(blocks: Iterable[B], extras: list[Extra]) -> Iterator[B]:
    """The blocks of a system message without the billing line of a subscription: it differs in
    every request and would defeat every prompt cache."""
    for block in blocks:
        if isinstance(block, Text) and block.text.startswith(wire.BILLING_HEADER):
            header, _, rest = block.text.partition("\n")
            detail = "the billing header is not for the model"
            extras.append(Extra(block.path, header, LossKind.KNOB, detail))
            rest = rest.lstrip("\n")
            if rest:
                yield replace(block, text=rest)
        else:
            yield block


def _read_output(
    given: shapes.Request, paths: dict[str, str], extras: list[Extra]
) -> tuple[OutputFormat | None, str | None]:
    """The shape and the effort that `output_config` and the older `output_format` ask for."""
    config, older = given.output_config, given.output_format
    effort, shape, path = None, older, "output_format"
    if config is not None:
        report_lost(config, "output_config", extras)
        effort = config.effort
        if config.format is not None:
            shape, path = config.format, "output_config.format"
            if older is not None:
                detail = "output_config.format is given as well and holds"
                extras.append(Extra("output_format", None, LossKind.KNOB, detail))
    if effort is not None and given.thinking is None:
        paths["thinking"] = "output_config.effort"
    if shape is None:
        return None, effort
    paths["output_format"] = path
    if shape.schema is None:
        raise InvalidRequest.at(f"{path}.schema", "is required")
    check_depth(shape.schema, f"{path}.schema")
    return JsonSchema(schema=shape.schema), effort
