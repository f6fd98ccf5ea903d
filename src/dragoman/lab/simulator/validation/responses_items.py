"""Tools and input items of a Responses request.

Shapes: the members of ``ToolParam`` and ``ResponseInputItemParam`` in the openai package. The
pairing of calls and outputs, the prefixes of ids and the binding of reasoning items are the
service's own rules.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from dragoman.lab.simulator.seals import decrypt, is_sealed
from dragoman.lab.simulator.validation.openai import (
    CacheBreakpoint,
    Detail,
    File,
    Function,
    Grammar,
    Part,
    TextFormat,
    ToolName,
    check_image_url,
)
from dragoman.lab.simulator.validation.refusals import Refusal
from dragoman.lab.simulator.validation.shapes import (
    Maybe,
    NonEmpty,
    Shape,
    convert,
    kind_of,
    one_of,
    shape,
)

GrammarFormat = shape("grammar", base=Grammar)
FunctionTool = shape(
    "function", "allowed_callers? async? defer_loading? output_schema?", base=Function
)
CustomTool = shape(
    "custom",
    "allowed_callers? async? defer_loading?",
    name=ToolName,
    description=str | None,
    format=TextFormat | GrammarFormat | None,
)
NamespaceTool = shape(
    "namespace",
    name=ToolName,
    description=str,
    tools=Annotated[list[FunctionTool | CustomTool], Meta(min_length=1)],
)
_SEARCH = "external_web_access? filters? search_context_size? user_location?"
_PREVIEW = "search_content_types? search_context_size? user_location?"
_MCP = (
    "server_label allowed_callers? allowed_tools? authorization? connector_id? defer_loading? "
    "headers? require_approval? server_description? server_url? tunnel_id?"
)
_HOSTED_TOOLS = (
    shape("file_search", "vector_store_ids filters? max_num_results? ranking_options?"),
    # Codex sends `search_content_types` here as well.
    shape("web_search", f"{_SEARCH} search_content_types?"),
    shape("web_search_2025_08_26", _SEARCH),
    shape("web_search_preview", _PREVIEW),
    shape("web_search_preview_2025_03_11", _PREVIEW),
    shape("code_interpreter", "container allowed_callers?"),
    shape("image_generation", closed=False),
    shape("mcp", _MCP),
    shape("tool_search", "description? execution? parameters?"),
    shape("programmatic_tool_calling"),
    shape("computer"),
    shape("computer_use", closed=False),
    shape("computer_use_preview", "display_height display_width environment"),
    shape("local_shell"),
    shape("shell", "allowed_callers? environment?"),
    shape("apply_patch", "allowed_callers?"),
)
"""The vendor's own tools."""

_HOSTED = frozenset(map(kind_of, _HOSTED_TOOLS))
Tool = one_of(FunctionTool, CustomTool, NamespaceTool, *_HOSTED_TOOLS)
NamedTool = one_of(
    shape("function", name=str),
    shape("custom", name=str),
    shape("mcp", "server_label? name?"),
    *(shape(kind) for kind in sorted(_HOSTED - {"mcp"})),
)
AllowedTools = shape(
    "allowed_tools",
    mode=Literal["auto", "required"],
    tools=Annotated[list[NamedTool], Meta(min_length=1)],
)
ToolChoice = Literal["none", "auto", "required"] | AllowedTools | NamedTool


def check_choice(choice: Any, tools: list[Any]) -> None:
    """Raises ``Refusal`` unless the tools that a ``tool_choice`` names are on offer."""
    offered = _names(tools)
    if choice == "required" and not offered:
        text = "Tool choice 'required' must be specified with 'tools' parameter."
        raise Refusal(text, "tool_choice")
    chosen: list[tuple[Any, tuple[str | int, ...]]] = []
    if isinstance(choice, AllowedTools):
        chosen = [(tool, ("tool_choice", "tools", n)) for n, tool in enumerate(choice.tools)]
    elif isinstance(choice, Shape):
        chosen = [(choice, ("tool_choice",))]
    for tool, path in chosen:
        if not _names([tool]) <= offered:
            kind = kind_of(tool)
            text = f"Tool choice '{kind}' not found in 'tools' parameter."
            raise Refusal(text, *path, "type" if kind in _HOSTED else "name")


def _names(tools: list[Any]) -> set[tuple[str, str]]:
    """Kind and name of the tools, those in namespaces with them."""
    names = set()
    for tool in tools:
        kind = kind_of(tool)
        names.add((kind, "" if kind in _HOSTED else tool.name))
        names |= _names(tool.tools) if isinstance(tool, NamespaceTool) else set()
    return names


Id = Annotated[str, Meta(min_length=1, max_length=64)]
Status = Literal["in_progress", "completed", "incomplete"]

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_ID_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fc",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctc",
    "reasoning": "rs",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "computer_call": "cu",
}
_ANSWERED = frozenset(
    ("function_call", "custom_tool_call", "computer_call", "shell_call", "apply_patch_call")
)
"""Calls that need an output, whose type is the call's with ``_output``."""

_OUTPUTS = frozenset(f"{kind}_output" for kind in _ANSWERED)
_NOT_FOUND = "Item with id '{}' not found. Items are not persisted when `store` is set to false."


class InputImage(Part, tag="input_image"):
    detail: Detail | None = None
    file_id: Any = None
    image_url: NonEmpty | None = None

    def __post_init__(self) -> None:
        if self.image_url is not None:
            check_image_url(self.image_url, "image_url")
        elif self.file_id is None:
            detail = "expected 'image_url' or 'file_id'."
            raise Refusal(detail, code="missing_required_parameter")


class InputFile(File, tag="input_file"):
    sources: ClassVar[str] = "'file_data', 'file_id' or 'file_url'"
    detail: Any = None
    file_url: str | None = None
    prompt_cache_breakpoint: CacheBreakpoint | None = None

    def __post_init__(self) -> None:
        if self.file_data is not None or self.file_url is None:
            super().__post_init__()
        elif not self.file_url.startswith(("http://", "https://")):
            raise Refusal("expected a valid URL.", "file_url")


InputText = shape("input_text", base=Part, text=str)
InputParts = list[InputText | InputImage | InputFile]


class Item(Shape, kw_only=True):
    """An input item."""

    id: Id | None = None

    def __post_init__(self) -> None:
        prefix = _ID_PREFIXES.get(_type_of(self))
        if self.id is None or prefix is None:
            return
        if not _ID.fullmatch(self.id):
            detail = f"'{self.id}'. Expected an ID that contains letters, numbers, underscores, or "
            raise Refusal(f"{detail}dashes, but this value contained additional characters.", "id")
        if not self.id.startswith(prefix):
            raise Refusal(f"'{self.id}'. Expected an ID that begins with '{prefix}'.", "id")


class CallItem(Item, kw_only=True):
    """A call or its output."""

    call_id: Id


class OutputItem(CallItem, kw_only=True):
    output: str | InputParts
    caller: Any = None
    status: Status | None = None


class Message(Item, tag_field="role", kw_only=True):
    type: Literal["message"]
    phase: Literal["commentary", "final_answer"] | None = None
    status: Status | None = None


_CITED = ("file_citation", "url_citation", "container_file_citation", "file_path")
Annotation = one_of(*(shape(kind, closed=False) for kind in _CITED))
OutputText = shape("output_text", text=str, annotations=list[Annotation] | None, logprobs=Maybe)
OutputPart = OutputText | shape("refusal", refusal=str)
UserMessage = shape("user", base=Message, content=str | InputParts)
AssistantMessage = shape("assistant", base=Message, content=str | list[OutputPart])
SystemMessage = shape("system", base=UserMessage)
DeveloperMessage = shape("developer", base=UserMessage)
AnyMessage = UserMessage | AssistantMessage | SystemMessage | DeveloperMessage
SummaryText = shape(type=Literal["summary_text"], text=str)
Reasoning = shape(
    "reasoning",
    base=Item,
    content=Annotated[list[Any], Meta(max_length=0)] | None,
    encrypted_content=str | None,
    status=Maybe,
    summary=list[SummaryText],
)
ItemReference = shape("item_reference", id=str)

_CALL = "async? caller? namespace? status?"
_MCP = "approval_request_id? error? output? status?"
_SEARCH = "execution? status?"
_ITEM = one_of(
    shape("message", closed=False),  # read as one of the messages
    Reasoning,
    ItemReference,
    shape("function_call", _CALL, base=CallItem, name=ToolName, arguments=str),
    shape("custom_tool_call", _CALL, base=CallItem, name=ToolName, input=str),
    shape("custom_tool_call_output", base=OutputItem),
    shape("function_call_output", "name? namespace?", base=OutputItem),
    shape("additional_tools", base=Item, role=Literal["developer"], tools=list[Tool]),
    shape("tool_search_call", f"arguments {_SEARCH}", base=Item, call_id=Id | None),
    shape("tool_search_output", _SEARCH, base=Item, call_id=Id | None, tools=list[Tool]),
    shape("file_search_call", "queries status results?", base=Item, id=Id),
    shape("web_search_call", "status action?", base=Item),
    shape("code_interpreter_call", "container_id status code? outputs?", base=Item, id=Id),
    shape("image_generation_call", base=Item, closed=False),
    shape("mcp_list_tools", "server_label tools error?", base=Item, id=Id),
    shape("mcp_call", f"server_label name arguments {_MCP}", base=Item, id=Id),
    shape("mcp_approval_request", "server_label name arguments", base=Item, id=Id),
    shape("mcp_approval_response", "approval_request_id approve reason?", base=Item),
    shape("computer_call", "pending_safety_checks status? action? actions?", base=CallItem),
    shape("computer_call_output", "output status? acknowledged_safety_checks?", base=CallItem),
    shape("local_shell_call", "action status", base=CallItem, id=Id),
    shape("local_shell_call_output", "output status?", base=Item, id=Id),
    shape("shell_call", "action status? caller? environment?", base=CallItem),
    shape("shell_call_output", "output status? caller? max_output_length?", base=CallItem),
    shape("apply_patch_call", "operation status caller?", base=CallItem),
    shape("apply_patch_call_output", "status output? caller?", base=CallItem),
    shape("program", "code fingerprint", base=CallItem, id=Id),
    shape("program_output", "result status", base=CallItem, id=Id),
    shape("compaction", "encrypted_content", base=Item),
    shape("compaction_trigger", base=Item),
    shape("configuration_update", "reasoning? text?", base=Item),
)


def _type_of(item: Shape) -> str:
    return "message" if isinstance(item, Message) else kind_of(item)


def check_items(
    items: list[Any], organization: str, stored_items: frozenset[str], links: Mapping[str, str]
) -> None:
    """Check the items one by one, then that calls and outputs meet.

    Raises:
        Refusal: a rule is broken.
    """
    calls: dict[str, str] = {}
    answered: set[str] = set()
    ids: set[str] = set()
    alone: Refusal | None = None
    for index, value in enumerate(items):
        item, at = _converted(value, index), ("input", index)
        kind, item_id = _type_of(item), item.id
        if kind in ("reasoning", "item_reference"):
            _check_stored(item, organization, stored_items, *at)
        if item_id is not None and kind not in _OUTPUTS:
            if item_id in ids:
                text = f"Duplicate item found with id {item_id}. Remove duplicate items from your "
                raise Refusal(f"{text}input and try again.", *at)
            ids.add(item_id)
        if (needed := links.get(item_id or "")) is not None and needed not in ids:
            text = f"Item '{item_id}' of type '{kind}' was provided without its required "
            raise Refusal(f"{text}'reasoning' item: '{needed}'.", *at)
        if alone is not None and not _may_follow_reasoning(item, kind):
            raise alone
        alone = None
        if kind == "reasoning":
            text = f"Item '{item_id}' of type 'reasoning' was provided without its required "
            alone = Refusal(f"{text}following item.", *at)
        elif kind in _ANSWERED:
            calls[item.call_id] = kind
        elif kind in _OUTPUTS:
            if f"{calls.get(item.call_id)}_output" != kind:
                text = f"No tool call found for {_words(kind)} with call_id {item.call_id}."
                raise Refusal(text, *at)
            answered.add(item.call_id)
    if alone is not None:
        raise alone
    for call_id, kind in calls.items():
        if call_id not in answered:
            text = f"No tool output found for {_words(kind)} {call_id}."
            raise Refusal(text, "input")


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _converted(value: Any, index: int) -> Any:
    """An item as an instance of its shape; messages and references may leave out their type."""
    if isinstance(value, dict) and not value.get("type"):
        value = {**value, "type": "message" if "role" in value else "item_reference"}
    is_message = isinstance(value, dict) and value["type"] == "message"
    return convert(value, AnyMessage if is_message else _ITEM, "input", index)


def _may_follow_reasoning(item: Any, kind: str) -> bool:
    """Whether an item is output of the model that follows."""
    if kind == "message":
        return isinstance(item, AssistantMessage)
    return kind in ("reasoning", "program", "compaction") or kind.endswith(("_call", "_request"))


def _check_stored(
    item: Any, organization: str, stored_items: frozenset[str], *at: str | int
) -> None:
    """Raises ``Refusal`` if the service can't know what an item stands for."""
    if isinstance(item, ItemReference):
        if item.id not in stored_items:
            raise Refusal(_NOT_FOUND.format(item.id), *at, "id", code="not_found")
    elif item.encrypted_content is None:
        if item.id not in stored_items:
            advice = " Try again with `store` set to true, or remove this item from your input."
            text = _NOT_FOUND.format(item.id) + advice
            raise Refusal(text, *at, code="not_found")
    elif (problem := _unreadable(item, item.encrypted_content, organization)) is not None:
        code = "invalid_encrypted_content"
        raise Refusal(problem, *at, "encrypted_content", code=code)


def _unreadable(item: Any, encrypted: str, organization: str) -> str | None:
    """Why encrypted reasoning can't be opened."""
    opened = decrypt(encrypted, organization)
    if opened is None:
        reason = (
            "Encrypted content organization_id did not match the target organization."
            if is_sealed(encrypted)
            else "Encrypted content could not be decrypted or parsed."
        )
        return f"The encrypted content for item {item.id} could not be verified. Reason: {reason}"
    if item.id is not None and opened[0] != item.id:
        return "Encrypted content item_id did not match the target item id."
    return None
