"""Tools on the client's own machine that this protocol declares by their type alone: `shell`,
`local_shell` and `apply_patch`.

Other protocols have no such types, so there each is a function of the same name; its calls come
back to the client as the items it knows, and what the client answers is given as text (types:
function_shell_tool_param.py, response_function_shell_tool_call.py, apply_patch_tool_param.py,
response_apply_patch_tool_call.py; LocalShellCall in response_input_item_param.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dragoman.canonical.blocks import Text, ToolCall, ToolResult
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, FunctionTool
from dragoman.jsontext import object_of
from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import Fields, JsonObject
from dragoman.protocols.openai_responses import wire

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_NUMBER: Final = {"type": "integer"}


def _schema(required: JsonObject, optional: JsonObject) -> JsonObject:
    properties = {**required, **optional}
    return {"type": "object", "properties": properties, "required": list(required)}


_DECLARED: Final[dict[str, tuple[str, JsonObject]]] = {
    "shell": (
        "Runs shell commands on the user's machine and gives what they print.",
        _schema({"commands": _TEXTS}, {"timeout_ms": _NUMBER, "max_output_length": _NUMBER}),
    ),
    "local_shell": (
        "Runs a command, given as its words, on the user's machine and gives what it prints.",
        _schema({"command": _TEXTS}, {"working_directory": _TEXT, "timeout_ms": _NUMBER}),
    ),
    "apply_patch": (
        "Creates, changes or deletes a file. `diff` is in the V4A format: each line begins with a "
        "space (kept), `+` (added) or `-` (removed), each hunk with `@@`; all lines of a new file "
        "begin with `+`.",
        _schema(
            {
                "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
                "path": _TEXT,
            },
            {"diff": _TEXT},
        ),
    ),
}
"""Description and parameters of the function that replaces a tool, by the tool's type."""

MACHINE_TOOLS: Final = frozenset(_DECLARED)
MACHINE_CALLS: Final = {f"{form}_call": form for form in _DECLARED}
MACHINE_OUTPUTS: Final = {f"{form}_call_output": form for form in _DECLARED}
PREFIXES: Final = {"shell": "sh_", "local_shell": "lsh_", "apply_patch": "apc_"}
"""Prefixes of the ids of such calls."""

_PAYLOADS: Final = {"shell": "action", "local_shell": "action", "apply_patch": "operation"}


def read_machine_tool(value: JsonObject, path: str, extras: list[Extra]) -> FunctionTool | None:
    """The function that replaces such a tool; None if it runs on the vendor's machine."""
    fields = Fields(value, path)
    kind = fields.take_str("type")
    environment = value.get("environment")
    elsewhere = isinstance(environment, dict) and environment.get("type") != "local"
    if kind not in _DECLARED or elsewhere:
        return None
    description, schema = _DECLARED[kind]
    detail = "offered as a function; its calls are turned back"
    extras.append(Extra(path, value, LossKind.CONVERTED, detail))
    fields.rest(extras, wire.TOOL)
    return FunctionTool(name=kind, description=description, schema=schema, form=kind, path=path)


def machine_call_item(item_id: str, call: ToolCall, payload: str, status: str) -> JsonObject:
    """The item of a call. `payload` is the JSON of its arguments, or the part received so far."""
    form = str(call.form)
    given = _arguments(payload)
    body: JsonObject
    if form == "apply_patch":
        body = {"type": "update_file", "path": "", "diff": "", **given}
        if body["type"] == "delete_file":
            del body["diff"]
    elif form == "shell":
        body = {"commands": [], "timeout_ms": None, "max_output_length": None, **given}
    else:
        body = {"type": "exec", "command": [], "env": {}, **given}
    return {
        "type": f"{form}_call",
        "id": item_id,
        "call_id": call.id,
        _PAYLOADS[form]: body,
        "status": status,
    }


def _arguments(payload: str) -> JsonObject:
    return object_of(payload) or {}


def read_machine_call(form: str, fields: Fields) -> ToolCall:
    """A call in the history.

    Raises:
        InvalidRequest: it is malformed.
    """
    call_id = fields.need_str("call_id")
    body = fields.take(_PAYLOADS[form])
    if not isinstance(body, dict):
        raise InvalidRequest.at(fields.at(_PAYLOADS[form]), "must be an object")
    given = {name: value for name, value in body.items() if value not in (None, {})}
    if form == "local_shell":
        given.pop("type", None)
    return ToolCall(
        id=call_id, name=form, arguments=to_json_text(given), form=form, path=fields.path
    )


def read_machine_output(form: str, fields: Fields, extras: list[Extra]) -> ToolResult:
    """The output of a call, as text.

    Raises:
        InvalidRequest: it is malformed.
    """
    # A local shell's result has only the id of its call.
    call_id = fields.need_str("id" if form == "local_shell" else "call_id")
    text = _OUTPUTS[form](fields, extras)
    content = (Text(text=text, path=fields.at("output")),) if text else ()
    return ToolResult(call_id=call_id, content=content, path=fields.path)


def _local_shell_output(fields: Fields, extras: list[Extra]) -> str:
    return fields.need_str("output")


def _patch_output(fields: Fields, extras: list[Extra]) -> str:
    status, output = fields.need_str("status"), fields.take_str("output")
    return f"{status}: {output}" if output else status


def _shell_output(fields: Fields, extras: list[Extra]) -> str:
    lines: list[str] = []
    for number, chunk in enumerate(fields.take_list("output") or ()):
        part = Fields(chunk, f"{fields.at('output')}[{number}]")
        lines += filter(None, (part.take_str("stdout"), part.take_str("stderr")))
        lines.append(_outcome(part.take("outcome")))
        part.rest(extras)
    return "\n".join(lines)


def _outcome(outcome: Any) -> str:
    if isinstance(outcome, dict) and outcome.get("type") == "exit":
        return f"[exit code {outcome.get('exit_code')}]"
    return "[timed out]"


_OUTPUTS: Final[dict[str, Callable[[Fields, list[Extra]], str]]] = {
    "shell": _shell_output,
    "local_shell": _local_shell_output,
    "apply_patch": _patch_output,
}
