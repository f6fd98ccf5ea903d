"""Reads a request (createmodelinteraction.py of google-genai)."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.blocks import Text
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    Extra,
    FunctionTool,
    HostedTool,
    JsonObject,
    JsonSchema,
    OutputFormat,
    Request,
    SearchTool,
    Thinking,
    Tool,
    ToolChoice,
    ToolRef,
)
from dragoman.protocols import google_wire
from dragoman.protocols.fields import check_depth
from dragoman.protocols.google_interactions import shapes, wire
from dragoman.protocols.google_interactions.step_reader import StepReader
from dragoman.protocols.portable_schemas import carried_schema
from dragoman.protocols.reading import Reader, needed, report_lost
from dragoman.protocols.request_settings import NO_COUNTERPART

_REQUEST = Reader(shapes.Request)
_CONFIG: Final = "generation_config"
_FORMAT: Final = "response_format"
_JSON: Final = "application/json"

_PATHS: Final = {
    "instructions": "system_instruction",
    "turns": "input",
    "metadata": "labels",
    "output_format": _FORMAT,
    "stop": f"{_CONFIG}.stop_sequences",
    "thinking": f"{_CONFIG}.thinking_level",
    **{name: f"{_CONFIG}.{name}" for name in ("max_output_tokens", "temperature", "top_p", "seed")},
}
"""The client's names of canonical fields."""


def read_request(body: bytes, sealer: Sealer) -> Request:
    """A request in canonical form.

    Raises:
        InvalidRequest: naming the field.
    """
    extras: list[Extra] = []
    unknown: list[Extra] = []
    given = _REQUEST.read(body, unknown)
    turns = StepReader(sealer, extras, unknown).read(given.input)
    if unknown:
        raise unknown_parameter(unknown[0].path)
    config = given.generation_config or shapes.GenerationConfig()
    tools = _tools(given.tools or [], extras)
    choice = _choice(config.tool_choice, extras)
    report_lost(config, _CONFIG, extras)
    report_lost(given, "", extras)
    modalities = [one for one in given.response_modalities or () if one.lower() != "text"]
    if modalities:
        path, detail = "response_modalities", "only text can be translated"
        extras.append(Extra(path, modalities, LossKind.CONTENT, detail))
    system = given.system_instruction
    return Request(
        model=needed(given.model, "", "model"),
        turns=turns,
        instructions=(Text(text=system, path="system_instruction"),) if system else (),
        tools=tools,
        tool_choice=choice,
        max_output_tokens=config.max_output_tokens,
        temperature=config.temperature,
        top_p=config.top_p,
        seed=config.seed,
        stop=config.stop_sequences or (),
        output_format=_format(given, extras),
        thinking=_thinking(config),
        stream=given.stream,
        include_usage=True,
        metadata=given.labels or None,
        service_tier=_tier(given.service_tier, extras),
        store=given.store,
        paths=_PATHS.copy(),
        extras=tuple(extras),
    )


def unknown_parameter(path: str) -> InvalidRequest:
    """The error for a field that the service does not know, which it refuses."""
    return InvalidRequest.at(path, "is not known", code="parameter_unknown")


def unimplemented(what: str) -> InvalidRequest:
    """The error for what only Google's own service has."""
    message = f"{what}: only Google's own service has this."
    return InvalidRequest(
        Fault(FaultKind.INVALID_REQUEST, message, param=what, code="unimplemented", status=501)
    )


def _tier(given: str | None, extras: list[Extra]) -> str | None:
    """The service tier in the words of the OpenAI protocols."""
    if given is None:
        return None
    tier = google_wire.SERVICE_TIERS.get(given)
    if tier is None:
        kind = LossKind.CONTENT if given == "deferred" else LossKind.KNOB
        extras.append(Extra("service_tier", given, kind, NO_COUNTERPART))
    return tier


def _thinking(config: shapes.GenerationConfig) -> Thinking | None:
    level, shown = config.thinking_level, config.thinking_summaries
    if level is None and shown is None:
        return None
    is_shown = shown == "auto"
    return Thinking(
        effort=level,
        display="summarized" if is_shown else "omitted",
        summary="auto" if is_shown else None,
    )


# --- the form of the answer -----------------------------------------------------------------------


def _format(given: shapes.Request, extras: list[Extra]) -> OutputFormat | None:
    """The form of the answer: one object, several, or a JSON schema without anything around it."""
    value, media_type = given.response_format, given.response_mime_type
    check_depth(value, _FORMAT)
    _check_media_type(media_type, "response_mime_type")
    found: OutputFormat | None = JsonObject() if media_type == _JSON else None
    formats = value if isinstance(value, list) else [value]
    for number, one in enumerate(formats):
        path = f"{_FORMAT}[{number}]" if isinstance(value, list) else _FORMAT
        if one is None:
            continue
        if not isinstance(one, dict):
            raise InvalidRequest.at(path, "must be an object or a list of objects")
        kind = one.get("type")  # In a schema it may be a list.
        if isinstance(kind, str) and kind in wire.MEDIA:
            detail = "only text can be translated"
            extras.append(Extra(path, one, LossKind.CONTENT, detail))
        elif kind == "text":
            found = _text_format(one, path)
        elif one:
            found = JsonSchema(schema=one)
    return found


def _text_format(one: dict[str, Any], path: str) -> OutputFormat | None:
    for name in one.keys() - {"type", "mime_type", "schema"}:
        raise unknown_parameter(f"{path}.{name}")
    schema, media_type = one.get("schema"), one.get("mime_type")
    _check_media_type(media_type, f"{path}.mime_type")
    if schema is None:
        return JsonObject() if media_type == _JSON else None
    if not isinstance(schema, dict):
        raise InvalidRequest.at(f"{path}.schema", "must be an object")
    if media_type == "text/plain":
        raise InvalidRequest.at(f"{path}.mime_type", f"must be {_JSON} where a schema is given")
    return JsonSchema(schema=schema)


def _check_media_type(given: Any, path: str) -> None:
    if given not in (None, _JSON, "text/plain"):
        raise InvalidRequest.at(path, f"must be text/plain or {_JSON}")


# --- tools ----------------------------------------------------------------------------------------


def _tools(
    given: list[shapes.Function | shapes.HostedTool], extras: list[Extra]
) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    for number, tool in enumerate(given):
        path = f"tools[{number}]"
        if isinstance(tool, shapes.HostedTool):
            check_depth(tool.value, path)
            search = None
            if tool.kind == wire.SEARCH:
                types = tool.value.get("search_types")
                lost = () if types in (None, [], ["web_search"]) else (types,)
                search = SearchTool(
                    extras=tuple(
                        [Extra(f"{path}.search_types", one, LossKind.KNOB) for one in lost]
                    )
                )
            tools.append(
                HostedTool(
                    origin=wire.NAME,
                    type=tool.kind[:64],
                    raw=tool.value,
                    search=search,
                    path=path,
                )
            )
            continue
        report_lost(tool, path, extras)
        schema, traits = carried_schema(tool.parameters, path, "parameters")
        tools.append(
            FunctionTool(
                name=needed(tool.name, path, "name"),
                description=tool.description,
                schema=schema,
                traits=traits,
                deferred=tool.defer_loading or False,
                path=path,
            )
        )
    return tuple(tools)


def _choice(given: str | shapes.ToolChoice | None, extras: list[Extra]) -> ToolChoice | None:
    path = f"{_CONFIG}.tool_choice"
    names: list[str] | None = None
    if isinstance(given, shapes.ToolChoice):
        if given.allowed_tools is None:
            return None
        mode, names = given.allowed_tools.mode, given.allowed_tools.tools
        path = f"{path}.allowed_tools"
    elif given is None:
        return None
    else:
        mode = given  # type: ignore[assignment]
    allowed = tuple([ToolRef(name) for name in names]) if names else None
    match mode:
        case "none":
            return ToolChoice(mode="none", path=path)
        case "any":
            if allowed is not None and len(allowed) == 1:
                return ToolChoice(mode="tool", tool=allowed[0], path=path)
            return ToolChoice(mode="required", allowed=allowed, path=path)
        case "auto" | "validated":
            if mode == "validated":
                detail = "calls are not held to their schemas in any case"
                extras.append(Extra(path, mode, LossKind.KNOB, detail))
            return ToolChoice(mode="auto", allowed=allowed, path=path)
    raise InvalidRequest.at(path, "must be one of auto, any, none, validated")
