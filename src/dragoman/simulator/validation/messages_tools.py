"""Tools and tool choice of a Messages request."""

import re

from dragoman.simulator.validation.messages_blocks import check_cache_control
from dragoman.simulator.validation.nodes import Node
from dragoman.simulator.validation.schemas import check_input_schema

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
_OWN = ("allowed_callers", "cache_control", "defer_loading", "name", "strict", "type")
_DOMAINS = (*_OWN, "allowed_domains", "blocked_domains", "max_uses", "response_inclusion")
_FETCH = (*_DOMAINS, "citations", "max_content_tokens", "url_sources", "use_cache")
_ANTHROPIC_TOOLS: tuple[tuple[re.Pattern[str], tuple[str, ...] | None], ...] = (
    (re.compile(r"(bash|memory)_20\d{6}"), (*_OWN, "input_examples")),
    (re.compile(r"text_editor_20\d{6}"), (*_OWN, "input_examples", "max_characters")),
    (re.compile(r"code_execution_20\d{6}"), _OWN),
    (re.compile(r"tool_search_tool_(bm25|regex)(_20\d{6})?"), _OWN),
    (re.compile(r"web_search_20\d{6}"), (*_DOMAINS, "user_location")),
    (re.compile(r"web_fetch_20\d{6}"), _FETCH),
    (re.compile(r"(computer|browser)_toolset_20\d{6}"), ("cache_control", "configs", "type")),
    (re.compile(r"(computer|advisor)_20\d{6}|mcp_toolset"), None),
)
"""Tools whose schema is the vendor's, and their fields (None: behind a beta, not looked into)."""

_CALLERS = re.compile(r"direct|code_execution_20\d{6}")


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
    if tools is not None and tools.value:
        _check_deferral(tools)
    if choice := root.get("tool_choice"):
        _check_choice(choice, names, bool(tools is not None and tools.value))
    return names


def _check_deferral(tools: Node) -> None:
    if all(tool.get("defer_loading") for tool in tools.value):
        tools.fail_plainly(
            "At least one tool must have defer_loading=false. All tools cannot be deferred."
        )
    for tool in tools.items():
        if tool.value.get("defer_loading") and tool.value.get("cache_control"):
            tool.fail("Tools with defer_loading cannot use prompt caching")


def _check_tool(tool: Node) -> str:
    tool.object()
    kind = tool.get("type")
    if kind is not None and kind.string() != "custom":
        _check_anthropic_tool(tool, kind)
        return str(tool.value.get("name") or "")
    tool = tool.tagged("custom")
    tool.object(allowed=_CLIENT_FIELDS, required=("name", "input_schema"))
    name = tool.child("name").string(pattern=_NAME)
    check_input_schema(tool.child("input_schema"), strict=tool.value.get("strict") is True)
    if description := tool.get("description"):
        description.string()
    if cache := tool.get("cache_control"):
        check_cache_control(cache)
    for flag in ("strict", "defer_loading", "eager_input_streaming"):
        if node := tool.get(flag):
            node.boolean()
    if examples := tool.get("input_examples"):
        for example in examples.items():
            example.object()
    if callers := tool.get("allowed_callers"):
        for caller in callers.items():
            caller.string(pattern=_CALLERS)
    return name


def _check_anthropic_tool(tool: Node, kind: Node) -> None:
    for pattern, fields in _ANTHROPIC_TOOLS:
        if pattern.fullmatch(kind.value):
            tool.tagged(kind.value).object(allowed=fields)
            if cache := tool.get("cache_control"):
                check_cache_control(cache)
            return
    tool.fail(
        f"Input tag '{kind.value[:60]}' found using 'type' does not match any of the expected tags"
    )


def _check_choice(choice: Node, names: set[str], has_tools: bool) -> None:
    kind = choice.tag(("auto", "any", "tool", "none"))
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
