"""Input items of a Responses request."""

from dragoman.simulator.seals import decrypt
from dragoman.simulator.validation.nodes import Node
from dragoman.simulator.validation.openai_shared import check_cache_breakpoint
from dragoman.simulator.validation.responses_tools import check_tool

_CALL = ("id", "status", "namespace", "caller", "async")
_FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "function_call": (("call_id", "name", "arguments"), _CALL),
    "custom_tool_call": (("call_id", "name", "input"), _CALL),
    "function_call_output": (
        ("call_id", "output"),
        ("id", "status", "name", "namespace", "caller"),
    ),
    "custom_tool_call_output": (("call_id", "output"), ("id", "status", "caller")),
    "reasoning": (("summary",), ("id", "content", "encrypted_content", "status")),
    "item_reference": (("id",), ()),
    "additional_tools": (("role", "tools"), ("id",)),
    "tool_search_output": (("tools",), ("id", "call_id", "execution", "status")),
}
"""Required and optional fields beside ``type`` of the items that are looked into."""

_OTHERS = frozenset(
    {
        "file_search_call",
        "web_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_list_tools",
        "mcp_call",
        "mcp_approval_request",
        "mcp_approval_response",
        "computer_call",
        "computer_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "tool_search_call",
        "program",
        "program_output",
        "compaction",
        "compaction_trigger",
        "configuration_update",
    }
)
_ID_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fc",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctc",
    "reasoning": "rs",
}
_CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}
_INPUT_PARTS = ("input_text", "input_image", "input_file")
_OUTPUT_PARTS = ("output_text", "refusal")
_MAX_CALL_ID = 64


def check_items(source: Node, organization: str, stored_items: frozenset[str]) -> None:
    """Check the items one by one, then that calls and outputs meet."""
    calls: dict[str, str] = {}
    outputs: dict[str, str] = {}
    reasoning: Node | None = None
    for item in source.items():
        kind = _check_item(item, organization, stored_items)
        reasoning = item if kind == "reasoning" else None
        if kind in _CALLS:
            calls[item.value["call_id"]] = _CALLS[kind]
        elif kind in _CALLS.values():
            call_id = item.value["call_id"]
            if calls.get(call_id) != kind:
                called = "function call" if kind == "function_call_output" else "custom tool call"
                item.fail_plainly(f"No tool call found for {called} output with call_id {call_id}.")
            outputs[call_id] = kind
    if reasoning is not None:
        reasoning.fail_plainly(
            f"Item '{reasoning.value.get('id')}' of type 'reasoning' was provided without its "
            "required following item."
        )
    for call_id in calls.keys() - outputs.keys():
        source.fail_plainly(f"No tool output found for function call {call_id}.")


def _check_item(item: Node, organization: str, stored_items: frozenset[str]) -> str:
    item.object()
    kind = item.value.get("type") or ("message" if "role" in item.value else "item_reference")
    item_kind = str(kind)
    if item_kind in _ID_PREFIXES and (node := item.get("id")):
        _check_id(node, _ID_PREFIXES[item_kind])
    if item_kind == "message":
        _check_message(item)
    elif item_kind in _FIELDS:
        required, optional = _FIELDS[item_kind]
        item.object(allowed=("type", *optional), required=required)
        _check_known_item(item, item_kind, organization, stored_items)
    elif item_kind not in _OTHERS:
        item.child("type").one_of(("message", *_FIELDS, *sorted(_OTHERS)))
    return item_kind


def _check_id(node: Node, prefix: str) -> None:
    if not node.string(least=1).startswith(prefix):
        node.fail(f"'{node.value[:40]}'. Expected an ID that begins with '{prefix}'.")


def _check_message(item: Node) -> None:
    item.object(required=("role", "content"))
    role = item.child("role").one_of(("user", "assistant", "system", "developer"))
    item.object(allowed=("type", "role", "content", "id", "status", "phase"))
    content = item.child("content")
    if isinstance(content.value, str):
        return
    for part in content.items():
        _check_part(part, _OUTPUT_PARTS if role == "assistant" else _INPUT_PARTS)


def _check_part(part: Node, kinds: tuple[str, ...]) -> None:
    part.object(required=("type",))
    match part.child("type").one_of(kinds):
        case "input_text":
            part.object(allowed=("type", "prompt_cache_breakpoint"), required=("text",))
            part.child("text").string()
        case "output_text":
            part.object(allowed=("type", "annotations", "logprobs"), required=("text",))
            part.child("text").string()
        case "refusal":
            part.object(allowed=("type",), required=("refusal",))
            part.child("refusal").string()
        case "input_image":
            part.object(
                allowed=("type", "image_url", "file_id", "detail", "prompt_cache_breakpoint")
            )
            _check_image(part)
        case "input_file":
            part.object(
                allowed=(
                    "type",
                    "file_data",
                    "file_id",
                    "file_url",
                    "filename",
                    "detail",
                    "prompt_cache_breakpoint",
                )
            )
            _check_file(part)
    check_cache_breakpoint(part)


def _check_image(part: Node) -> None:
    if url := part.get("image_url"):
        url.url()
    elif not part.get("file_id"):
        part.fail("expected 'image_url' or 'file_id'.", "missing_required_parameter")
    if detail := part.get("detail"):
        detail.one_of(("auto", "low", "high", "original"))


def _check_file(part: Node) -> None:
    if data := part.get("file_data"):
        if data.string().startswith("data:"):
            data.data_url()
        else:
            data.base64()
        if not part.get("filename"):
            part.fail("'filename' is required with 'file_data'.", "missing_required_parameter")
    elif url := part.get("file_url"):
        url.url()
    elif not part.get("file_id"):
        part.fail("expected 'file_data', 'file_id' or 'file_url'.", "missing_required_parameter")


def _check_known_item(
    item: Node, kind: str, organization: str, stored_items: frozenset[str]
) -> None:
    if "call_id" in item.value:
        item.child("call_id").string(least=1, most=_MAX_CALL_ID)
    match kind:
        case "function_call" | "custom_tool_call":
            item.child("name").string(least=1)
            item.child("arguments" if kind == "function_call" else "input").string()
        case "function_call_output" | "custom_tool_call_output":
            output = item.child("output")
            if not isinstance(output.value, str):
                for part in output.items():
                    _check_part(part, _INPUT_PARTS)
            if status := item.get("status"):
                status.one_of(("in_progress", "completed", "incomplete"))
        case "reasoning":
            _check_reasoning(item, organization, stored_items)
        case "item_reference":
            if item.child("id").string() not in stored_items:
                item.child("id").fail_plainly(
                    f"Item with id '{item.value['id']}' not found. Items are not persisted when "
                    "`store` is set to false.",
                    "not_found",
                )
        case "additional_tools" | "tool_search_output":
            if kind == "additional_tools":
                item.child("role").one_of(("developer",))
            for tool in item.child("tools").items():
                check_tool(tool, set())


def _check_reasoning(item: Node, organization: str, stored_items: frozenset[str]) -> None:
    for part in item.child("summary").items():
        part.object(allowed=(), required=("type", "text"))
        part.child("type").one_of(("summary_text",))
        part.child("text").string()
    item_id = item.value.get("id")
    encrypted = item.get("encrypted_content")
    if encrypted is None:
        if item_id not in stored_items:
            item.fail_plainly(
                f"Item with id '{item_id}' not found. Items are not persisted when `store` is set "
                "to false. Try again with `store` set to true, or remove this item from your "
                "input.",
                "not_found",
            )
        return
    opened = decrypt(encrypted.string(), organization)
    if opened is None:
        encrypted.fail_plainly(
            f"The encrypted content for item {item_id} could not be verified.",
            "invalid_encrypted_content",
        )
    if item_id is not None and opened[0] != item_id:
        encrypted.fail_plainly(
            "Encrypted content item_id did not match the target item id.",
            "invalid_encrypted_content",
        )
