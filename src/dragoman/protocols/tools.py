"""Tools of a request, common to all protocols: replacements for tools that the upstream does not
support, and the losses reported for them."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from dragoman import jsontext
from dragoman.canonical.blocks import ToolCall
from dragoman.canonical.losses import LossKind, Policy
from dragoman.canonical.requests import CustomTool, FunctionTool, HostedTool
from dragoman.canonical.tools import CUSTOM_INPUT, with_renamed_keys, wrap_custom
from dragoman.protocols.base import Outbound, to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.portable_schemas import (
    has_old_words,
    is_combined,
    portable,
)

NO_TOOLS: Final = (
    "there are no tools to choose from: the upstream runs none of other vendors, such as web search"
)
NOT_OFFERED: Final = "names a tool that is not offered upstream"

EMPTY: Final[JsonObject] = {"type": "object", "properties": {}}
"""The schema of a tool without arguments."""
CLOSED: Final[JsonObject] = {**EMPTY, "additionalProperties": False}
"""The same schema for strict mode."""


def drop_hosted(tool: HostedTool, outbound: Outbound) -> None:
    """Report a tool that only its own vendor can run."""
    reject = outbound.options.hosted_tools == "reject"
    kind = LossKind.CONTENT if reject else LossKind.KNOB
    outbound.ledger.add(tool.path, kind, f"the upstream cannot run the tool {tool.type}")


def drop_strict(tool: FunctionTool, outbound: Outbound) -> None:
    """Report that arguments are not checked against their schema."""
    detail = "the upstream does not enforce this schema"
    outbound.ledger.add(f"{tool.path}.strict", LossKind.KNOB, detail)


def drop_deferral(path: str, outbound: Outbound) -> None:
    """Report a tool at `path` that was to be hidden until it is searched for."""
    detail = "offered at once: the upstream has no tool search to find it with"
    outbound.ledger.add(f"{path}.defer_loading", LossKind.KNOB, detail)


def drop_mark(tool: FunctionTool, outbound: Outbound) -> None:
    """Report the cache mark of a tool, if it has one."""
    if tool.cache is not None:
        detail = "tools take no cache mark upstream"
        outbound.ledger.add(f"{tool.path}.cache_control", LossKind.KNOB, detail)


def decoded(schema: JsonObject | Raw) -> JsonObject:
    """A schema, to look into."""
    return jsontext.decode(schema) if isinstance(schema, Raw) else schema


def others_than_texts(tool: FunctionTool | CustomTool) -> frozenset[str]:
    """The properties of a tool's arguments that are not texts by its schema."""
    if isinstance(tool, CustomTool) or not tool.schema:
        return frozenset()
    properties = decoded(tool.schema).get("properties")
    return frozenset(
        name
        for name, of in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(of, dict) and of.get("type", "string") != "string"
    )


def object_schema(tool: FunctionTool, outbound: Outbound) -> JsonObject | Raw:
    """The schema of a tool's arguments, with an object at its root as all services require."""
    schema = tool.schema
    if tool.traits is not None and tool.traits.is_plain and schema is not None:
        return schema
    schema = None if schema is None else decoded(schema)
    if not schema:
        return CLOSED if tool.strict else EMPTY
    if is_combined(schema) or has_old_words(to_json(schema)):
        schema, changes = portable(schema)
        for detail in changes:
            outbound.ledger.add(tool.path, LossKind.CONVERTED, detail)
    if schema.get("type") == "object":
        return schema
    outbound.ledger.add(tool.path, LossKind.REPAIRED, "the schema's root became an object")
    return {**schema, "type": "object"}


def emulation_of(tool: CustomTool, outbound: Outbound) -> tuple[str, JsonObject] | None:
    """Description and schema of a function with one string in place of a free-text tool; None if
    the options disable it."""
    if outbound.options.custom_tools == "reject":
        detail = "the upstream has no free-text tools"
        outbound.ledger.add(tool.path, LossKind.CONTENT, detail)
        return None
    about = [tool.description] if tool.description else []
    detail = "emulated by a function with one string"
    if tool.grammar is not None:
        detail += ", grammar not enforced"
        about.append(
            f"The text in `{CUSTOM_INPUT}` must conform to this {tool.grammar.syntax} grammar:\n"
            f"{tool.grammar.definition}"
        )
    outbound.ledger.add(tool.path, LossKind.CONVERTED, detail)
    schema = {
        "type": "object",
        "properties": {
            CUSTOM_INPUT: {"type": "string", "description": "The whole input, as plain text."}
        },
        "required": [CUSTOM_INPUT],
        "additionalProperties": False,
    }
    return "\n\n".join(about), schema


def input_of(block: ToolCall, name: str, outbound: Outbound) -> JsonObject:
    """The arguments of a call, whose tool has this name upstream, as the object that they are
    there."""
    if block.custom:
        if outbound.options.custom_tools == "reject":
            detail = "a call of a free-text tool cannot be sent upstream"
            outbound.ledger.add(block.path, LossKind.CONTENT, detail)
        else:
            detail = "a free-text call, sent as a function call"
            outbound.ledger.add(block.path, LossKind.CONVERTED, detail)
        return wrap_custom(block.arguments)
    if not block.arguments.strip() and outbound.options.policy is not Policy.STRICT:
        return {}
    value = jsontext.object_of(block.arguments)
    if value is None:
        return _invalid_input(block, outbound)
    known = outbound.names.inward(name)
    if known is not None and known.properties:
        value = with_renamed_keys(value, known.properties)
    return value


def _invalid_input(block: ToolCall, outbound: Outbound) -> JsonObject:
    """The object to send for arguments that are none."""
    problem = "the arguments are not a JSON object"
    match outbound.options.invalid_tool_arguments:
        case "error":
            outbound.ledger.add(block.path, LossKind.CONTENT, problem)
        case "empty":
            detail = f"{problem}: replaced by an empty one"
            outbound.ledger.add(block.path, LossKind.CONVERTED, detail)
            return {}
        case _:
            outbound.ledger.add(block.path, LossKind.CONVERTED, f"{problem}: wrapped in one")
    return {"invalid_arguments": block.arguments}
