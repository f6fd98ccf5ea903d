"""Tools and the choice among them, for an upstream."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Raw

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import CustomTool, FunctionTool, Request
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_capabilities import GoogleCapabilities
from dragoman.protocols.google_generate_content import wire
from dragoman.protocols.google_schemas import is_read_whole, openapi_schema, read_schema
from dragoman.protocols.google_tools import ToolWriter
from dragoman.protocols.tools import decoded


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
        return {"parametersJsonSchema": read_schema(decoded(schema))[0]}


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
