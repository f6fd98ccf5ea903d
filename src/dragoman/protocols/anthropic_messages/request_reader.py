"""Reads a Messages request (types/message_create_params.py, stable and beta)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

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
    Role,
    Tool,
    ToolChoice,
    Turn,
)
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.content_reader import BlockReader
from dragoman.protocols.anthropic_messages.thinking import read_thinking
from dragoman.protocols.anthropic_messages.threads import threads_unsupported
from dragoman.protocols.anthropic_messages.tools import read_choice, read_tool
from dragoman.protocols.fields import (
    Fields,
    Readers,
    boolean,
    decode_object,
    number,
    whole,
)

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
_PLAIN_MESSAGE = frozenset({"role", "content"})
_MISSING = "missing_required_parameter"


def read_request(body: bytes, sealer: Sealer, *, counting: bool = False) -> Request:
    """A Messages request in canonical form.

    With `counting` it is one of `count_tokens`, which has no `max_tokens`.

    Raises:
        InvalidRequest: naming the field. For `thread`, with the error code on which the official
        SDKs send whole histories.
    """
    fields = Fields(decode_object(body))
    extras: list[Extra] = []
    blocks = BlockReader(sealer, extras)
    if fields.has("thread"):
        raise threads_unsupported()
    model = fields.take_str("model")
    if not model:
        raise InvalidRequest.at("model", "is required", code=_MISSING)
    limit = fields.take_int("max_tokens", 0)
    if limit is None and not counting:
        raise InvalidRequest.at("max_tokens", "is required", code=_MISSING)
    turns = _read_turns(fields, blocks, extras)
    paths = _PATHS.copy()
    shape, effort = _read_output(fields, paths, extras)
    tools, choice, parallel = _read_tools(fields, blocks, extras)
    settings = fields.take_given(_SERVICE, extras)
    instructions = _read_system(fields, blocks, extras)
    settings.update(fields.take_given(_SAMPLING, extras))
    thinking = read_thinking(fields.take_fields("thinking"), effort, extras)
    settings.update(fields.take_given(_REST, extras))
    automatic = blocks.cache_mark(fields)
    fields.rest(extras, wire.REQUEST)
    return Request(
        model=model,
        turns=turns,
        instructions=instructions,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        max_output_tokens=limit,
        output_format=shape,
        thinking=thinking,
        auto_cache=automatic,
        paths=paths,
        extras=tuple(extras),
        **settings,
    )


def _read_turns(fields: Fields, blocks: BlockReader, extras: list[Extra]) -> tuple[Turn, ...]:
    messages = fields.take_list("messages")
    if messages is None:
        raise InvalidRequest.at("messages", "is required", code=_MISSING)
    if not messages:
        fields.fail("messages", "must hold at least one message")
    turns = []
    for position, message in enumerate(messages):
        path = f"messages[{position}]"
        if type(message) is dict and message.keys() == _PLAIN_MESSAGE:
            # Nearly every message is one of these.
            role, content = message["role"], message["content"]
        else:
            role, content = _read_message(Fields(message, path), extras)
        if role not in wire.ROLES:
            raise InvalidRequest.at(f"{path}.role", f"must be one of {', '.join(wire.ROLES)}")
        if content is None and role == "system":
            # A system message may carry nothing but settings for the turns after it.
            content = []
        read = blocks.message(content, f"{path}.content", role)
        if role == "system" and read:
            read = tuple(_without_billing(read, extras))
            if not read:
                continue
        # Inside a conversation OpenAI's protocols use the developer role for it.
        side: Role = "developer" if role == "system" else role
        turns.append(Turn(role=side, blocks=read, path=path))
    last = turns[-1].blocks[-1:] if turns and turns[-1].role == "assistant" else ()
    if last and isinstance(last[0], Text):
        detail = "a prefill is not continued upstream"
        extras.append(Extra(turns[-1].path, None, LossKind.CONVERTED, detail))
    return tuple(turns)


def _read_message(entry: Fields, extras: list[Extra]) -> tuple[Any, Any]:
    """Role and content; other members are accounted for."""
    role, content = entry.need_str("role"), entry.take("content")
    entry.rest(extras, wire.MESSAGE)
    return role, content


def _read_system(fields: Fields, blocks: BlockReader, extras: list[Extra]) -> tuple[Text, ...]:
    value = fields.take("system")
    texts = () if value is None else blocks.texts(value, "system")
    return tuple([text for text in _without_billing(texts, extras) if text.text])


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


def _read_tools(
    fields: Fields, blocks: BlockReader, extras: list[Extra]
) -> tuple[tuple[Tool, ...], ToolChoice | None, bool | None]:
    """All declarations, those made inside the conversation included, and the choice."""
    tools: list[Tool] = []
    for position, tool in enumerate(fields.take_list("tools") or ()):
        tools.append(read_tool(tool, f"tools[{position}]", blocks, extras))
    for tool, path in blocks.added_tools:
        tools.append(read_tool(tool, path, blocks, extras))
    choice = fields.take_fields("tool_choice")
    return (tuple(tools), *((None, None) if choice is None else read_choice(choice, extras)))


def _read_output(
    fields: Fields, paths: dict[str, str], extras: list[Extra]
) -> tuple[OutputFormat | None, str | None]:
    """The shape and the effort that `output_config` and the older `output_format` ask for."""
    config = fields.take_fields("output_config")
    effort, path, shape = None, "output_format", None
    if config is not None:
        effort = config.take_choice("effort", wire.EFFORTS)
        shape, path = config.take_fields("format"), config.at("format")
        config.rest(extras, wire.OUTPUT_CONFIG)
    if shape is None:
        path, shape = "output_format", fields.take_fields("output_format")
    if effort is not None and not fields.has("thinking"):
        paths["thinking"] = "output_config.effort"
    if shape is None:
        return None, effort
    paths["output_format"] = path
    if shape.need_str("type") != "json_schema":
        shape.fail("type", "must be json_schema")
    schema = shape.take_object("schema")
    if schema is None:
        shape.fail("schema", "is required")
    shape.rest(extras)
    return JsonSchema(schema=schema), effort


def _read_tier(fields: Fields, name: str, _: list[Extra]) -> str | None:
    tier = fields.take_choice(name, ("auto", "standard_only"))
    return "default" if tier == "standard_only" else None


def _read_speed(fields: Fields, name: str, _: list[Extra]) -> str | None:
    return "fast" if fields.take_choice(name, ("standard", "fast")) == "fast" else None


def _read_stop(fields: Fields, name: str, _: list[Extra]) -> tuple[str, ...]:
    sequences = fields.take_list(name) or ()
    for position, sequence in enumerate(sequences):
        if type(sequence) is not str:
            fields.fail(f"{name}[{position}]", "must be a string")
    return tuple(sequences)


def _read_user(fields: Fields, name: str, extras: list[Extra]) -> str | None:
    metadata = fields.take_fields(name)
    if metadata is None:
        return None
    user = metadata.take_str("user_id")
    metadata.rest(extras)
    return user


# In the order in which mistakes are reported.
_SERVICE: Readers = {
    "service_tier": ("service_tier", _read_tier),
    "speed": ("speed", _read_speed),
}
_SAMPLING: Readers = {
    "temperature": ("temperature", number(0, 1)),
    "top_p": ("top_p", number(0, 1)),
    "top_k": ("top_k", whole(0)),
    "stop_sequences": ("stop", _read_stop),
}
_REST: Readers = {
    "stream": ("stream", boolean),
    "metadata": ("safety_identifier", _read_user),
}
