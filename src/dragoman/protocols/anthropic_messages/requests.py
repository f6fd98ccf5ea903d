"""Requests, both ways: the fields of the top level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.canonical.blocks import CacheMark, Text
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest
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
from dragoman.canonical.stops import EMULATED, emulated
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.blocks_read import BlockReader
from dragoman.protocols.anthropic_messages.blocks_write import is_plain
from dragoman.protocols.anthropic_messages.caching import settle
from dragoman.protocols.anthropic_messages.conversation import write_conversation
from dragoman.protocols.anthropic_messages.schemas import fitted
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities, MessagesOptions
from dragoman.protocols.anthropic_messages.thinking import read_thinking, write_thinking
from dragoman.protocols.anthropic_messages.tools import (
    read_choice,
    read_tool,
    write_choice,
    write_tools,
)
from dragoman.protocols.anthropic_messages.web_search import mapped_search
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import Fields, JsonObject, Readers, boolean, number, whole

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
_OLD_VERSION = "2023-06-01"
_NO_NAME = "output"
"""What a schema is called that has no name, where a protocol wants one."""
_MISSING = "missing_required_parameter"


def read_request(body: JsonObject, sealer: Sealer, *, counting: bool = False) -> Request:
    """A Messages request in canonical form.

    With `counting` it is one of `count_tokens`, which has no `max_tokens`.

    Raises:
        InvalidRequest: naming the field. For `thread` with the error code that makes the
            official SDKs go on with whole histories.
    """
    fields = Fields(body)
    extras: list[Extra] = []
    blocks = BlockReader(sealer, extras)
    _refuse_thread(fields)
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
        source=body,
        extras=tuple(extras),
        **settings,
    )


def _refuse_thread(fields: Fields) -> None:
    if fields.has("thread"):
        raise threads_unsupported()


def threads_unsupported() -> InvalidRequest:
    """What a client is told that wants its conversation kept by the server: the SDKs then go on
    with whole histories by themselves (lib/threads/_thread_state.py of anthropic)."""
    return InvalidRequest(
        Fault(
            FaultKind.INVALID_REQUEST,
            "thread: server-held conversations are not supported; send the whole history",
            param="thread",
            code="thread_unsupported_request",
            details={"error_code": "thread_unsupported_request"},
        )
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
        # Inside a conversation OpenAI's protocols call it the developer who speaks.
        side: Role = "developer" if role == "system" else role
        turns.append(Turn(role=side, blocks=read, path=path))
    last = turns[-1].blocks[-1:] if turns[-1].role == "assistant" else ()
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
    kept = []
    for text in () if value is None else blocks.texts(value, "system"):
        if text.text.startswith(wire.BILLING_HEADER):
            # New with every request: as part of the prompt it would defeat every prompt cache.
            detail = "the billing header is not for the model"
            extras.append(Extra(text.path, text.text, LossKind.KNOB, detail))
        elif text.text:
            kept.append(text)
    return tuple(kept)


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


# In the order in which mistakes are told.
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


def write_request(request: Request, outbound: Outbound) -> JsonObject:
    """The body of a Messages request. What it cannot carry is in the ledger."""
    ledger = outbound.ledger
    for extra in request.extras:
        if not extra.of_search or mapped_search(request, outbound) is None:
            ledger.add(extra.path, extra.kind, extra.detail, extra.code)
    tools = write_tools(request, outbound)
    conversation = write_conversation(request, outbound)
    limit = _output_limit(request, outbound)
    thinking = write_thinking(
        request,
        outbound,
        limit,
        write_choice(request, outbound, tools),
        request.thinking is not None and conversation.in_unthought_loop,
    )
    kind = None if thinking.config is None else thinking.config["type"]
    if kind == "enabled":
        conversation.put_thinking_first()
    output = _write_output(request, outbound, thinking.effort)
    thinks = kind in ("adaptive", "enabled")
    conversation.settle_prefill(outbound, possible=not thinks and "format" not in (output or {}))
    body: JsonObject = {"model": outbound.model, "max_tokens": limit}
    if request.stream:
        body["stream"] = True
    body |= _write_sampling(request, outbound, thinks)
    stop = _write_stop(request, outbound)
    if stop:
        body["stop_sequences"] = stop
    if thinking.config is not None:
        body["thinking"] = thinking.config
    if output is not None:
        body["output_config"] = output
    user = _write_user(request, outbound)
    if user is not None:
        body["metadata"] = {"user_id": user}
    body |= _write_tier(request, outbound)
    if tools:
        body["tools"] = tools
    if thinking.choice is not None:
        body["tool_choice"] = thinking.choice
    if conversation.system:
        body["system"] = conversation.system
    body["messages"] = conversation.messages
    automatic = request.auto_cache or _cache_by_itself(request, outbound)
    settle(body, automatic, request.path_of("auto_cache"), outbound)
    if len(conversation.system) == 1 and is_plain(conversation.system[0]):
        body["system"] = conversation.system[0]["text"]
    _report_the_rest(request, outbound)
    return body


def _output_limit(request: Request, outbound: Outbound) -> int:
    most = outbound.capabilities.max_output_tokens
    limit = request.max_output_tokens
    if limit is None:
        limit = outbound.options.of(MessagesOptions).default_max_tokens
        return limit if most is None else min(limit, most)
    if most is not None and limit > most:
        detail = f"the output limit was lowered to the model's {most} tokens"
        outbound.ledger.add(request.path_of("max_output_tokens"), LossKind.REPAIRED, detail)
        return most
    return limit


def _write_sampling(request: Request, outbound: Outbound, thinks: bool) -> dict[str, Any]:
    """Temperature and the like, which only the older API version takes. Beside thinking the
    service wants them at their defaults."""
    written: dict[str, Any] = {}
    if request.temperature is None and request.top_p is None and request.top_k is None:
        return written
    capabilities = outbound.capabilities
    takes = (
        capabilities.of(MessagesCapabilities).anthropic_version == _OLD_VERSION
        and capabilities.sampling
    )
    # One is the default of both: it asks for nothing.
    temperature = None if request.temperature == 1 else request.temperature
    top_p = None if request.top_p == 1 else request.top_p
    if temperature is not None and takes and not thinks:
        written["temperature"] = min(temperature, 1.0)
    if top_p is not None and takes and (not thinks or top_p >= 0.95):
        written["top_p"] = top_p
    if request.top_k is not None and takes and not thinks:
        written["top_k"] = request.top_k
    asked = {"temperature": temperature, "top_p": top_p, "top_k": request.top_k}
    for name, value in asked.items():
        if value is not None and written.get(name) != value:
            detail = "was lowered to 1" if name in written else "is not taken upstream"
            outbound.ledger.add(request.path_of(name), LossKind.KNOB, detail)
    return written


def _write_stop(request: Request, outbound: Outbound) -> list[str]:
    if not request.stop:
        return []
    kept = taken_stops(request.stop)
    if emulated(request.stop, kept, outbound.options):
        outbound.ledger.add(request.path_of("stop"), LossKind.CONVERTED, EMULATED)
    elif len(kept) < len(request.stop):
        detail = "blank stop sequences are not taken upstream"
        outbound.ledger.add(request.path_of("stop"), LossKind.KNOB, detail)
    return list(kept)


def taken_stops(stops: Sequence[str]) -> tuple[str, ...]:
    """The stop sequences that upstreams take: those that are not blank."""
    return tuple([stop for stop in stops if stop.strip()])


def _write_output(request: Request, outbound: Outbound, effort: str | None) -> JsonObject | None:
    """`output_config`: the effort and the shape of the answer."""
    config: JsonObject = {} if effort is None else {"effort": effort}
    shape = request.output_format
    if shape is None:
        return config or None
    path = request.path_of("output_format")
    if not isinstance(shape, JsonSchema):
        detail = "answers in JSON without a schema have no counterpart upstream"
        outbound.ledger.add(path, LossKind.KNOB, detail)
    elif not outbound.capabilities.structured_output:
        outbound.ledger.add(path, LossKind.CONTENT, "a schema for the answer is not taken upstream")
    else:
        if shape.strict is False:
            outbound.ledger.add(path, LossKind.KNOB, "the schema is always enforced upstream")
        schema, changed = fitted(_labelled(shape, path, outbound))
        if changed:
            detail = f"the schema was fitted to what is enforced upstream: {', '.join(changed)}"
            outbound.ledger.add(path, LossKind.CONVERTED, detail)
        config["format"] = {"type": "json_schema", "schema": schema}
    return config or None


def _labelled(shape: JsonSchema, path: str, outbound: Outbound) -> JsonObject:
    """The schema with its name and description inside, where it has none of its own."""
    name = None if shape.name == _NO_NAME else shape.name
    labels = {"title": name, "description": shape.description or None}
    given = {label: text for label, text in labels.items() if text is not None}
    if any(shape.schema.get(label, text) != text for label, text in given.items()):
        detail = "the schema has a title or description of its own"
        outbound.ledger.add(path, LossKind.KNOB, detail)
    return {**given, **shape.schema} if given.keys() - shape.schema.keys() else shape.schema


def _write_user(request: Request, outbound: Outbound) -> str | None:
    user = request.safety_identifier
    if user is None:
        user = request.user
    elif request.user not in (None, user):
        detail = "the safety identifier is sent in its place"
        outbound.ledger.add(request.path_of("user"), LossKind.KNOB, detail)
    return user


def _write_tier(request: Request, outbound: Outbound) -> dict[str, Any]:
    """`service_tier` and `speed`."""
    written: dict[str, Any] = {}
    match request.service_tier:
        case None:
            pass
        case "auto":
            written["service_tier"] = "auto"
        case "default":
            written["service_tier"] = "standard_only"
        case "fast" | "priority" if outbound.options.map_fast:
            written["speed"] = "fast"
        case _:
            detail = "the service tier has no counterpart upstream"
            outbound.ledger.add(request.path_of("service_tier"), LossKind.KNOB, detail)
    if request.speed is not None:
        written["speed"] = request.speed
    return written


def _cache_by_itself(request: Request, outbound: Outbound) -> CacheMark | None:
    """A top-level cache mark for clients whose own service caches unasked."""
    if not outbound.capabilities.of(MessagesCapabilities).auto_cache:
        return None
    mode = (request.prompt_cache_options or {}).get("mode", "implicit")
    return CacheMark() if mode == "implicit" else None


def _report_the_rest(request: Request, outbound: Outbound) -> None:
    """Losses of fields that this protocol has no place for at all."""
    lost: list[str] = []
    if request.logprobs:
        lost.append("logprobs")
    if request.top_logprobs:
        lost.append("top_logprobs")
    for name in lost:
        detail = "token probabilities are not given upstream"
        outbound.ledger.add(request.path_of(name), LossKind.CONTENT, detail)
    lost.clear()
    if request.verbosity not in (None, "medium"):
        lost.append("verbosity")
    if request.metadata:
        lost.append("metadata")
    if request.prompt_cache_key is not None:
        lost.append("prompt_cache_key")
    if request.prompt_cache_retention is not None:
        lost.append("prompt_cache_retention")
    if request.prompt_cache_options and request.prompt_cache_options != {"mode": "implicit"}:
        lost.append("prompt_cache_options")
    if request.moderation:
        lost.append("moderation")
    if request.store:
        lost.append("store")
    for name in lost:
        outbound.ledger.add(request.path_of(name), LossKind.KNOB, "has no counterpart upstream")
