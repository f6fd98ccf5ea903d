"""Tools and tool choice of a Responses request. Unlike Chat's, they are flat."""

from dragoman.simulator.validation.nodes import Node
from dragoman.simulator.validation.openai_shared import MOST_TOOLS, TOOL_NAME, check_custom_format
from dragoman.simulator.validation.schemas import check_parameters

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
_SEARCH = ("external_web_access", "filters", "search_context_size", "user_location")
_PREVIEW = ("search_content_types", "search_context_size", "user_location")
_HOSTED: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]] = {
    "file_search": (("vector_store_ids",), ("filters", "max_num_results", "ranking_options")),
    "web_search": ((), (*_SEARCH, "search_content_types")),
    "web_search_2025_08_26": ((), _SEARCH),
    "web_search_preview": ((), _PREVIEW),
    "web_search_preview_2025_03_11": ((), _PREVIEW),
    "code_interpreter": (("container",), ("allowed_callers",)),
    "image_generation": ((), None),
    "mcp": (
        ("server_label",),
        (
            "allowed_callers",
            "allowed_tools",
            "authorization",
            "connector_id",
            "defer_loading",
            "headers",
            "require_approval",
            "server_description",
            "server_url",
            "tunnel_id",
        ),
    ),
    "tool_search": ((), ("description", "execution", "parameters")),
    "programmatic_tool_calling": ((), ()),
    "computer": ((), ()),
    "computer_use": ((), None),
    "computer_use_preview": (("display_height", "display_width", "environment"), ()),
    "local_shell": ((), ()),
    "shell": ((), ("allowed_callers", "environment")),
    "apply_patch": ((), ("allowed_callers",)),
}
"""Required and optional fields of the vendor's own tools; None: not looked into. Codex sends
``search_content_types`` with ``web_search`` as well."""

Names = set[tuple[str, str]]
"""Kind and name of the tools that can be called."""


def check_tools(root: Node) -> Names:
    """Check ``tools``; returns what a tool choice may name."""
    tools = root.get("tools")
    names: Names = set()
    for tool in tools.items(most=MOST_TOOLS) if tools is not None else ():
        check_tool(tool, names)
    return names


def check_tool(tool: Node, names: Names, *, nested: bool = False) -> None:
    """Check one tool and add its name to ``names``."""
    kinds = ("function", "custom") if nested else ("function", "custom", "namespace", *_HOSTED)
    kind = tool.tag(kinds)
    match kind:
        case "function":
            tool.object(allowed=_FUNCTION_FIELDS, required=("name",))
            strict = tool.get("strict")
            is_strict = strict.boolean() if strict else False
            if parameters := tool.get("parameters"):
                check_parameters(parameters, tool.value["name"], strict=is_strict)
        case "custom":
            tool.object(allowed=_CUSTOM_FIELDS, required=("name",))
            if text_format := tool.get("format"):
                _check_custom_format(text_format)
        case "namespace":
            tool.object(allowed=("type",), required=("name", "description", "tools"))
            tool.child("description").string()
            for inner in tool.child("tools").items(least=1):
                check_tool(inner, names, nested=True)
        case _:
            required, optional = _HOSTED[kind]
            allowed = None if optional is None else ("type", *optional)
            tool.object(allowed=allowed, required=required)
            names.add((kind, ""))
            return
    if description := tool.get("description"):
        description.string()
    names.add((kind, tool.child("name").string(pattern=TOOL_NAME)))


def _check_custom_format(text_format: Node) -> None:
    if text_format.tag(("text", "grammar")) == "grammar":
        text_format.object(allowed=("type",), required=("definition", "syntax"))
        check_custom_format(text_format)
    else:
        text_format.object(allowed=("type",))


def check_choice(choice: Node, names: Names) -> None:
    """Check ``tool_choice`` against the tools on offer."""
    if isinstance(choice.value, str):
        if choice.one_of(("none", "auto", "required")) == "required" and not names:
            choice.fail_plainly("Tool choice 'required' must be specified with 'tools' parameter.")
        return
    kind = choice.tag(("function", "custom", "allowed_tools", *_HOSTED))
    if kind == "allowed_tools":
        choice.object(allowed=("type",), required=("mode", "tools"))
        choice.child("mode").one_of(("auto", "required"))
        for tool in choice.child("tools").items(least=1):
            _check_known(tool, tool.tag(("function", "custom", *_HOSTED)), names)
    else:
        _check_known(choice, kind, names)


def _check_known(choice: Node, kind: str, names: Names) -> None:
    """That a tool which is named is on offer."""
    if kind in ("function", "custom"):
        choice.object(allowed=("type",), required=("name",))
        found = (kind, choice.child("name").string()) in names
        named = choice.child("name")
    else:
        fields = ("type", "server_label", "name") if kind == "mcp" else ("type",)
        found = (kind, "") in names
        named = choice.object(allowed=fields).child("type")
    if not found:
        named.fail_plainly(f"Tool choice '{kind}' not found in 'tools' parameter.")
