"""The tools of a request and the choice among them, both ways."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from dragoman import jsontext
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    CustomTool,
    Extra,
    FunctionTool,
    HostedTool,
    Request,
    SearchTool,
    Tool,
    ToolChoice,
    ToolRef,
)
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject, check_depth
from dragoman.protocols.google_capabilities import GoogleCapabilities
from dragoman.protocols.google_generate_content import shapes, wire
from dragoman.protocols.google_generate_content.schema_reader import read_schema
from dragoman.protocols.google_schemas import is_read_whole, openapi_schema, readable_schema
from dragoman.protocols.google_tools import ToolWriter
from dragoman.protocols.portable_schemas import carried_schema
from dragoman.protocols.reading import carried_object, needed, report_lost
from dragoman.protocols.tools import decoded

_NEUTRAL: dict[str, tuple[Any, ...]] = {"searchTypes": ({}, {"webSearch": {}})}
"""Settings of a search that ask for nothing, by their names."""


def read_tools(given: list[shapes.Tool], extras: list[Extra]) -> tuple[Tool, ...]:
    """The declared functions of all objects, and the tools of the vendor's.

    Raises:
        InvalidRequest: naming the field.
    """
    tools: list[Tool] = []
    for number, tool in enumerate(given):
        path = f"tools[{number}]"
        for place, function in enumerate(tool.function_declarations or ()):
            tools.append(_function(function, f"{path}.functionDeclarations[{place}]", extras))
        raw: dict[str, Any] = msgspec.to_builtins(
            msgspec.structs.replace(tool, function_declarations=None)
        )
        for name, settings in raw.items():
            check_depth(settings, f"{path}.{name}")
            tools.append(_hosted(name, settings, f"{path}.{name}"))
    return tuple(tools)


def _function(given: shapes.FunctionDeclaration, path: str, extras: list[Extra]) -> FunctionTool:
    report_lost(given, path, extras)
    schema, traits = carried_schema(given.parameters_json_schema, path, "parametersJsonSchema")
    subset = carried_object(given.parameters, path, "parameters")
    if schema is not None and subset is not None:
        raise InvalidRequest.at(f"{path}.parameters", "cannot stand beside parametersJsonSchema")
    read: dict[str, Any] | Raw | None = schema
    if subset is not None:
        read = read_schema(jsontext.decode(subset))
    return FunctionTool(
        name=needed(given.name, path, "name"),
        description=given.description,
        schema=read,
        traits=traits,
        path=path,
    )


def _hosted(name: str, settings: Any, path: str) -> HostedTool:
    search = None
    if name == wire.SEARCH:
        lost = [
            Extra(f"{path}.{member}", value, LossKind.KNOB)
            for member, value in settings.items()
            if value is not None and value not in _NEUTRAL.get(member, ())
        ]
        search = SearchTool(name=None, extras=tuple(lost))
    return HostedTool(origin=wire.NAME, type=name, raw={name: settings}, search=search, path=path)


def read_choice(given: shapes.ToolConfig | None, extras: list[Extra]) -> ToolChoice | None:
    """The choice among the tools.

    Raises:
        InvalidRequest: naming the field.
    """
    if given is None:
        return None
    report_lost(given, "toolConfig", extras)
    config, path = given.function_calling_config, "toolConfig.functionCallingConfig"
    if config is None:
        return None
    report_lost(config, path, extras)
    mode = (config.mode or "AUTO").upper()
    names = config.allowed_function_names
    allowed = tuple([ToolRef(name) for name in names]) if names else None
    match mode:
        case "AUTO" | "MODE_UNSPECIFIED" | "NONE":
            if names:
                problem = "can only be set where the mode is ANY or VALIDATED"
                raise InvalidRequest.at(f"{path}.allowedFunctionNames", problem)
            return ToolChoice(mode="none" if mode == "NONE" else "auto", path=path)
        case "ANY":
            if allowed is not None and len(allowed) == 1:
                return ToolChoice(mode="tool", tool=allowed[0], path=path)
            return ToolChoice(mode="required", allowed=allowed, path=path)
        case "VALIDATED":
            detail = "calls are not held to their schemas in any case"
            extras.append(Extra(f"{path}.mode", config.mode, LossKind.KNOB, detail))
            return ToolChoice(mode="auto", allowed=allowed, path=path)
    raise InvalidRequest.at(f"{path}.mode", "must be one of AUTO, ANY, NONE, VALIDATED")


class DeclarationWriter(ToolWriter):
    """Writes the tools of one request."""

    __slots__ = ()

    origin: ClassVar[str] = wire.NAME
    search: ClassVar[JsonObject] = {wire.SEARCH: {}}

    def _parameters(self, tool: FunctionTool | CustomTool, schema: JsonObject | Raw) -> JsonObject:
        if not self._own.google_json_schema:
            fitted, changed = openapi_schema(decoded(schema))
            if changed:
                detail = f"the schema was fitted to the upstream's: {', '.join(changed)}"
                self._lose(tool.path, LossKind.CONVERTED, detail)
            return {"parameters": fitted}
        if isinstance(schema, Raw) and is_read_whole(schema):
            return {"parametersJsonSchema": schema}
        return {"parametersJsonSchema": readable_schema(decoded(schema))[0]}


def write_tools(request: Request, body: JsonObject, outbound: Outbound) -> None:
    """Add `tools` and `toolConfig` to the body."""
    written = DeclarationWriter(outbound).tools(request)
    tools: list[JsonObject] = []
    if written.functions:
        tools.append({"functionDeclarations": written.functions})
    tools += written.hosted
    config: JsonObject = {}
    is_cloud = outbound.capabilities.of(GoogleCapabilities).google_cloud
    if written.functions and written.hosted and not is_cloud:
        config["includeServerSideToolInvocations"] = True
    choice = written.choice
    if choice is not None:
        calling: JsonObject = {"mode": choice.mode}
        if choice.names:
            calling["allowedFunctionNames"] = choice.names
        config["functionCallingConfig"] = calling
    if tools:
        body["tools"] = tools
    if config:
        body["toolConfig"] = config
