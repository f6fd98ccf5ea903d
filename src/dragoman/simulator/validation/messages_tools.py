"""Tools and tool choice of a Messages request."""

import re

from dragoman.simulator.validation.messages_blocks import check_cache_control
from dragoman.simulator.validation.nodes import Node

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CLIENT_FIELDS = (
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "description",
    "eager_input_streaming",
    "input_examples",
    "strict",
    "type",
)
_ANTHROPIC_TOOL = re.compile(
    r"(bash|text_editor|memory|computer|computer_toolset|browser_toolset|web_search|web_fetch"
    r"|code_execution|advisor)_20\d{6}|tool_search_tool_(bm25|regex)(_20\d{6})?|mcp_toolset"
)


def check_tools(root: Node) -> set[str]:
    """Check ``tools`` and ``tool_choice``; returns the tools' names."""
    names: set[str] = set()
    tools = root.get("tools")
    for tool in tools.items() if tools is not None else ():
        name = _check_tool(tool)
        if name in names:
            tool.fail_plainly("tools: Tool names must be unique.")
        if name:
            names.add(name)
    if choice := root.get("tool_choice"):
        _check_choice(choice, names, bool(tools is not None and tools.value))
    return names


def _check_tool(tool: Node) -> str:
    tool.object()
    kind = tool.get("type")
    if kind is not None and kind.string() != "custom":
        if not _ANTHROPIC_TOOL.fullmatch(kind.value):
            kind.fail(f"'{kind.value[:60]}' is not a known tool type")
        return str(tool.value.get("name") or "")
    tool.object(allowed=_CLIENT_FIELDS, required=("name", "input_schema"))
    schema = tool.child("input_schema").object(required=("type",))
    schema.child("type").one_of(("object",))
    if description := tool.get("description"):
        description.string()
    if cache := tool.get("cache_control"):
        check_cache_control(cache)
    for flag in ("strict", "defer_loading", "eager_input_streaming"):
        if node := tool.get(flag):
            node.boolean()
    return tool.child("name").string(pattern=_NAME)


def _check_choice(choice: Node, names: set[str], has_tools: bool) -> None:
    choice.object(required=("type",))
    kind = choice.child("type").one_of(("auto", "any", "tool", "none"))
    if kind == "none":
        choice.object(allowed=("type",))
    else:
        choice.object(
            allowed=("type", "disable_parallel_tool_use"),
            required=("name",) if kind == "tool" else (),
        )
        if flag := choice.get("disable_parallel_tool_use"):
            flag.boolean()
    if not has_tools:
        choice.fail_plainly("tool_choice: may only be specified while providing tools")
    if kind == "tool" and choice.child("name").string() not in names:
        choice.child("name").fail_plainly(
            f"Tool '{choice.value['name']}' not found in provided tools"
        )
