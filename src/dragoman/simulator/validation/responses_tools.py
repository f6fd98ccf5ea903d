"""Tools and tool choice of a Responses request. Unlike Chat's, they are flat."""

from dragoman.simulator.validation.nodes import Node
from dragoman.simulator.validation.openai_shared import TOOL_NAME, check_parameters

_FUNCTION_FIELDS = (
    "type",
    "allowed_callers",
    "async",
    "defer_loading",
    "description",
    "output_schema",
    "parameters",
    "strict",
)
_CUSTOM_FIELDS = ("type", "allowed_callers", "async", "defer_loading", "description", "format")
_HOSTED = (
    "file_search",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
    "code_interpreter",
    "image_generation",
    "mcp",
    "tool_search",
    "programmatic_tool_calling",
    "computer",
    "computer_use",
    "computer_use_preview",
    "local_shell",
    "shell",
    "apply_patch",
)

Names = set[tuple[str, str]]
"""Kind and name of the tools that can be called."""


def check_tools(root: Node) -> Names:
    """Check ``tools``; returns what a tool choice may name."""
    tools = root.get("tools")
    names: Names = set()
    for tool in tools.items() if tools is not None else ():
        check_tool(tool, names)
    return names


def check_tool(tool: Node, names: Names, *, nested: bool = False) -> None:
    """Check one tool and add its name to ``names``."""
    tool.object(required=("type",))
    kinds = ("function", "custom") if nested else ("function", "custom", "namespace", *_HOSTED)
    kind = tool.child("type").one_of(kinds)
    match kind:
        case "function":
            tool.object(allowed=_FUNCTION_FIELDS, required=("name",))
            strict = tool.get("strict")
            if parameters := tool.get("parameters"):
                check_parameters(parameters, strict.boolean() if strict else False)
        case "custom":
            tool.object(allowed=_CUSTOM_FIELDS, required=("name",))
            if text_format := tool.get("format"):
                _check_custom_format(text_format)
        case "namespace":
            tool.object(allowed=("type",), required=("name", "description", "tools"))
            for inner in tool.child("tools").items():
                check_tool(inner, names, nested=True)
        case _:
            return
    names.add((kind, tool.child("name").string(pattern=TOOL_NAME)))


def _check_custom_format(text_format: Node) -> None:
    text_format.object(required=("type",))
    if text_format.child("type").one_of(("text", "grammar")) == "grammar":
        text_format.object(allowed=("type",), required=("definition", "syntax"))
        text_format.child("definition").string(least=1)
        text_format.child("syntax").one_of(("lark", "regex"))


def check_choice(choice: Node, names: Names) -> None:
    """Check ``tool_choice`` against the tools on offer."""
    if isinstance(choice.value, str):
        if choice.one_of(("none", "auto", "required")) == "required" and not names:
            choice.fail_plainly("Tool choice 'required' must be specified with 'tools' parameter.")
        return
    choice.object(required=("type",))
    kind = choice.child("type").one_of(("function", "custom", "allowed_tools", *_HOSTED))
    if kind in ("function", "custom"):
        choice.object(allowed=("type",), required=("name",))
        if (kind, choice.child("name").string()) not in names:
            choice.child("name").fail_plainly(
                f"Tool choice '{kind}' not found in 'tools' parameter."
            )
    elif kind == "allowed_tools":
        choice.object(allowed=("type",), required=("mode", "tools"))
        choice.child("mode").one_of(("auto", "required"))
        for tool in choice.child("tools").items():
            tool.object(required=("type",))
