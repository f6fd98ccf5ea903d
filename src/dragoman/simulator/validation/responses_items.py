"""Input items of a Responses request."""

import re
from collections.abc import Mapping
from typing import NoReturn

from dragoman.simulator.seals import decrypt, is_sealed
from dragoman.simulator.validation.nodes import Node
from dragoman.simulator.validation.openai_shared import (
    IMAGE_TYPES,
    TOOL_NAME,
    check_cache_breakpoint,
    check_user_file,
)
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
    "tool_search_call": (("arguments",), ("id", "call_id", "execution", "status")),
    "file_search_call": (("id", "queries", "status"), ("results",)),
    "web_search_call": (("status",), ("id", "action")),
    "code_interpreter_call": (("id", "container_id", "status"), ("code", "outputs")),
    "mcp_list_tools": (("id", "server_label", "tools"), ("error",)),
    "mcp_call": (
        ("id", "server_label", "name", "arguments"),
        ("approval_request_id", "error", "output", "status"),
    ),
    "mcp_approval_request": (("id", "server_label", "name", "arguments"), ()),
    "mcp_approval_response": (("approval_request_id", "approve"), ("id", "reason")),
    "computer_call": (
        ("call_id", "pending_safety_checks"),
        ("id", "status", "action", "actions"),
    ),
    "computer_call_output": (
        ("call_id", "output"),
        ("id", "status", "acknowledged_safety_checks"),
    ),
    "local_shell_call": (("id", "call_id", "action", "status"), ()),
    "local_shell_call_output": (("id", "output"), ("status",)),
    "shell_call": (("call_id", "action"), ("id", "status", "caller", "environment")),
    "shell_call_output": (
        ("call_id", "output"),
        ("id", "status", "caller", "max_output_length"),
    ),
    "apply_patch_call": (("call_id", "operation", "status"), ("id", "caller")),
    "apply_patch_call_output": (("call_id", "status"), ("id", "caller", "output")),
    "program": (("id", "call_id", "code", "fingerprint"), ()),
    "program_output": (("id", "call_id", "result", "status"), ()),
    "compaction": (("encrypted_content",), ("id",)),
    "compaction_trigger": ((), ("id",)),
    "configuration_update": ((), ("id", "reasoning", "text")),
}
"""Required and optional fields beside ``type``, as the openai package declares them."""

_NOT_LOOKED_INTO = frozenset({"image_generation_call"})
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
_CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
_CALLED = {
    "function_call_output": "function call",
    "custom_tool_call_output": "custom tool call",
    "computer_call_output": "computer call",
    "shell_call_output": "shell call",
    "apply_patch_call_output": "apply patch call",
}
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_PHASES = ("commentary", "final_answer")
_STATUSES = ("in_progress", "completed", "incomplete")
_DETAILS = ("auto", "low", "high", "original")
_ANNOTATIONS = ("file_citation", "url_citation", "container_file_citation", "file_path")
_INPUT_PARTS = ("input_text", "input_image", "input_file")
_OUTPUT_PARTS = ("output_text", "refusal")
_MAX_ID = 64


def check_items(
    source: Node, organization: str, stored_items: frozenset[str], links: Mapping[str, str]
) -> None:
    """Check the items one by one, then that calls and outputs meet."""
    calls: dict[str, str] = {}
    outputs: set[str] = set()
    ids: set[str] = set()
    reasoning: Node | None = None
    for item in source.items():
        kind = _check_item(item, organization, stored_items)
        _check_unique(item, ids)
        _check_link(item, kind, ids, links)
        if reasoning is not None and not _belongs_to_reasoning(item, kind):
            _complain_of_reasoning(reasoning)
        reasoning = item if kind == "reasoning" else None
        if kind in _CALLS:
            calls[item.value["call_id"]] = _CALLS[kind]
        elif kind in _CALLED:
            call_id = item.value["call_id"]
            if calls.get(call_id) != kind:
                item.fail_plainly(
                    f"No tool call found for {_CALLED[kind]} output with call_id {call_id}."
                )
            outputs.add(call_id)
    if reasoning is not None:
        _complain_of_reasoning(reasoning)
    for call_id in calls.keys() - outputs:
        source.fail_plainly(f"No tool output found for {_CALLED[calls[call_id]]} {call_id}.")


def _check_unique(item: Node, ids: set[str]) -> None:
    item_id = item.value.get("id")
    if item_id is None or item.value.get("type") in _CALLED:
        return
    if item_id in ids:
        item.fail_plainly(
            f"Duplicate item found with id {item_id}. Remove duplicate items from your input and "
            "try again."
        )
    ids.add(item_id)


def _check_link(item: Node, kind: str, ids: set[str], links: Mapping[str, str]) -> None:
    """That an item the service holds comes with the reasoning that led to it."""
    needed = links.get(item.value.get("id") or "")
    if needed is not None and needed not in ids:
        item.fail_plainly(
            f"Item '{item.value['id']}' of type '{kind}' was provided without its required "
            f"'reasoning' item: '{needed}'."
        )


def _belongs_to_reasoning(item: Node, kind: str) -> bool:
    """Whether an item may follow reasoning: what the model said or did next."""
    if kind == "message":
        return bool(item.value["role"] == "assistant")
    return kind in ("reasoning", "program", "compaction") or kind.endswith(("_call", "_request"))


def _complain_of_reasoning(reasoning: Node) -> NoReturn:
    reasoning.fail_plainly(
        f"Item '{reasoning.value.get('id')}' of type 'reasoning' was provided without its "
        "required following item."
    )


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
    elif item_kind not in _NOT_LOOKED_INTO:
        item.child("type").one_of(("message", *_FIELDS, *_NOT_LOOKED_INTO))
    return item_kind


def _check_id(node: Node, prefix: str) -> None:
    value = node.string(least=1, most=_MAX_ID)
    if not _ID.fullmatch(value):
        node.fail(
            f"'{value}'. Expected an ID that contains letters, numbers, underscores, or dashes, "
            "but this value contained additional characters."
        )
    if not value.startswith(prefix):
        node.fail(f"'{value}'. Expected an ID that begins with '{prefix}'.")


def _check_message(item: Node) -> None:
    item.object(required=("role", "content"))
    role = item.child("role").one_of(("user", "assistant", "system", "developer"))
    item.object(allowed=("type", "role", "content", "id", "status", "phase"))
    if phase := item.get("phase"):
        phase.one_of(_PHASES)
    if status := item.get("status"):
        status.one_of(_STATUSES)
    content = item.child("content")
    if isinstance(content.value, str):
        return
    for part in content.items():
        _check_part(part, _OUTPUT_PARTS if role == "assistant" else _INPUT_PARTS)


def _check_part(part: Node, kinds: tuple[str, ...]) -> None:
    match part.tag(kinds):
        case "input_text":
            part.object(allowed=("type", "prompt_cache_breakpoint"), required=("text",))
            part.child("text").string()
        case "output_text":
            part.object(allowed=("type", "annotations", "logprobs"), required=("text",))
            part.child("text").string()
            if annotations := part.get("annotations"):
                for annotation in annotations.items():
                    annotation.tag(_ANNOTATIONS)
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
        url.url(media_types=IMAGE_TYPES)
    elif not part.get("file_id"):
        part.fail("expected 'image_url' or 'file_id'.", "missing_required_parameter")
    if detail := part.get("detail"):
        detail.one_of(_DETAILS)


def _check_file(part: Node) -> None:
    if part.get("file_data"):
        check_user_file(part)
    elif url := part.get("file_url"):
        if not url.string().startswith(("http://", "https://")):
            url.fail("expected a valid URL.")
    elif not part.get("file_id"):
        part.fail("expected 'file_data', 'file_id' or 'file_url'.", "missing_required_parameter")


def _check_known_item(
    item: Node, kind: str, organization: str, stored_items: frozenset[str]
) -> None:
    if "call_id" in item.value:
        item.child("call_id").string(least=1, most=_MAX_ID)
    match kind:
        case "function_call" | "custom_tool_call":
            item.child("name").string(pattern=TOOL_NAME)
            item.child("arguments" if kind == "function_call" else "input").string()
        case "function_call_output" | "custom_tool_call_output":
            output = item.child("output")
            if not isinstance(output.value, str):
                for part in output.items():
                    _check_part(part, _INPUT_PARTS)
            if status := item.get("status"):
                status.one_of(_STATUSES)
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
    if content := item.get("content"):
        for part in content.items(most=0):
            part.tag(("reasoning_text",))
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
        foreign = is_sealed(encrypted.value)
        reason = (
            "Encrypted content organization_id did not match the target organization."
            if foreign
            else "Encrypted content could not be decrypted or parsed."
        )
        encrypted.fail_plainly(
            f"The encrypted content for item {item_id} could not be verified. Reason: {reason}",
            "invalid_encrypted_content",
        )
    if item_id is not None and opened[0] != item_id:
        encrypted.fail_plainly(
            "Encrypted content item_id did not match the target item id.",
            "invalid_encrypted_content",
        )
