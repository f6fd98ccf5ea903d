"""A tool search that the client itself carries out (`execution: client`).

The model looks for tools that are not offered yet, and what the client found can be called from
then on. Other protocols have no such type of tool, so there it is a function; its calls come
back to the client as the items it knows (types: tool_search_tool_param.py,
response_tool_search_call.py, response_tool_search_output_item_param.py).
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.blocks import ToolCall, ToolReference, ToolResult
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, FunctionTool, HostedTool, Tool
from dragoman.jsontext import JsonError, decode
from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import Fields, JsonObject

TOOL_SEARCH = "tool_search"
"""The wire type of the tool, and the name of the function that replaces it."""

_DESCRIPTION = "Searches for tools that are not offered yet. Those it finds can be called next."
_PARAMETERS = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
}


def read_search_tool(value: JsonObject, path: str, extras: list[Extra]) -> FunctionTool | None:
    """The function that replaces a tool search; None if the client does not search itself."""
    fields = Fields(value, path)
    if fields.take_str("type") != TOOL_SEARCH or fields.take_str("execution") != "client":
        return None
    tool = FunctionTool(
        name=TOOL_SEARCH,
        description=fields.take_str("description") or _DESCRIPTION,
        schema=fields.take_object("parameters") or _PARAMETERS,
        form=TOOL_SEARCH,
        path=path,
    )
    detail = "offered as a function; its calls are turned back"
    extras.append(Extra(path, value, LossKind.CONVERTED, detail))
    fields.rest(extras)
    return tool


def read_search_call(fields: Fields) -> ToolCall | None:
    """A search in the history; None if it was not the client's."""
    call_id = fields.take_str("call_id")
    if fields.take_str("execution") != "client" or not call_id:
        return None
    arguments = fields.take("arguments")
    return ToolCall(
        id=call_id,
        name=TOOL_SEARCH,
        arguments=to_json_text({} if arguments is None else arguments),
        form=TOOL_SEARCH,
        path=fields.path,
    )


def search_result(call_id: str, found: list[Tool], path: str) -> ToolResult:
    """The results of a search, as references to offered tools."""
    references = tuple(
        ToolReference(name=tool.name, namespace=tool.namespace, path=tool.path)
        for tool in found
        if not isinstance(tool, HostedTool)
    )
    return ToolResult(call_id=call_id, content=references, path=path)


def is_clients_output(value: JsonObject) -> bool:
    """Whether an output item answers a search of the client."""
    return value.get("execution") == "client" and isinstance(value.get("call_id"), str)


def search_call_item(item_id: str, call: ToolCall, payload: str, status: str) -> JsonObject:
    """The item of a search. `payload` is the JSON of its arguments, or the part received so far."""
    return {
        "type": "tool_search_call",
        "id": item_id,
        "call_id": call.id,
        "execution": "client",
        "arguments": _arguments(payload),
        "status": status,
    }


def _arguments(payload: str) -> Any:
    try:
        return decode(payload)
    except JsonError:
        return {}
