"""Content blocks of a Messages request."""

import re

from dragoman.simulator.seals import open_redacted, thinking_is_genuine
from dragoman.simulator.validation.nodes import Node

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_BLOCK_FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "text": (("text",), ("cache_control", "citations")),
    "image": (("source",), ("cache_control", "transformations")),
    "document": (("source",), ("cache_control", "citations", "context", "title")),
    "search_result": (("source", "title", "content"), ("cache_control", "citations")),
    "thinking": (("thinking", "signature"), ()),
    "redacted_thinking": (("data",), ()),
    "tool_use": (("id", "name", "input"), ("cache_control", "caller", "toolset_name")),
    "tool_result": (
        ("tool_use_id",),
        ("cache_control", "content", "is_error", "toolset_name"),
    ),
    "tool_reference": (("tool_name",), ("cache_control",)),
}
"""Required and optional fields beside ``type``."""

_HOSTED = (
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "container_upload",
    "browser_state",
)
_BETA_BLOCKS = (
    "mcp_tool_use",
    "mcp_tool_result",
    "compaction",
    "fallback",
    "advisor_tool_result",
    "tool_addition",
    "tool_removal",
)
_USER = ("text", "image", "document", "search_result", "tool_result", "container_upload")
_ASSISTANT = ("text", "thinking", "redacted_thinking", "tool_use", *_HOSTED)
_RESULT = ("text", "image", "document", "search_result", "tool_reference", "browser_state")
_NEW_VERSION = "2026-10-21"


def check_cache_control(node: Node) -> None:
    """``{"type": "ephemeral", "ttl": "5m" | "1h"}``."""
    node.object(allowed=("ttl",), required=("type",))
    node.child("type").one_of(("ephemeral",))
    if ttl := node.get("ttl"):
        ttl.one_of(("5m", "1h"))


def check_system_blocks(content: Node, betas: list[str]) -> None:
    """The content of a system prompt or a system message."""
    if isinstance(content.value, str):
        return
    for block in content.items():
        _check_block(block, ("text",), betas)


def check_user_blocks(
    content: Node, version: str, open_calls: set[str], betas: list[str]
) -> set[str]:
    """Check a user turn; returns the ids of the calls that it answers."""
    if isinstance(content.value, str):
        return set()
    answered: set[str] = set()
    only_results = True
    for block in content.items():
        kind = _check_block(block, _USER, betas)
        if kind == "text" and version == _NEW_VERSION and block.value.get("citations"):
            block.child("citations").fail("citations are not permitted in user messages")
        if kind != "tool_result":
            only_results = False
            continue
        call_id = block.value["tool_use_id"]
        if call_id not in open_calls:
            block.fail_plainly(
                f"{block.name}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the "
                "previous message."
            )
        if call_id in answered:
            block.fail(f"each tool_use must have a single result. Found multiple for {call_id}")
        if not only_results:
            block.fail_plainly(
                f"{block.name}: `tool_result` blocks must come first in the user message that "
                "answers `tool_use` blocks"
            )
        answered.add(call_id)
    return answered


def check_assistant_blocks(
    content: Node, version: str, organization: str, seen_calls: set[str], betas: list[str]
) -> set[str]:
    """Check an assistant turn; returns the ids of its calls and adds them to ``seen_calls``."""
    if isinstance(content.value, str):
        return set()
    allowed = _ASSISTANT if version == _NEW_VERSION else (*_ASSISTANT, "document", "image")
    calls: set[str] = set()
    for block in content.items():
        kind = _check_block(block, allowed, betas)
        if kind == "thinking":
            genuine = thinking_is_genuine(
                block.value["thinking"], block.value["signature"], organization
            )
            if not genuine:
                block.fail("Invalid `signature` in `thinking` block")
        elif kind == "redacted_thinking":
            if open_redacted(block.value["data"], organization) is None:
                block.fail("Invalid `data` in `redacted_thinking` block")
        elif kind == "tool_use":
            call_id = block.value["id"]
            if call_id in seen_calls:
                block.child("id").fail("`tool_use` ids must be unique")
            seen_calls.add(call_id)
            calls.add(call_id)
    return calls


def _check_block(block: Node, allowed: tuple[str, ...], betas: list[str]) -> str:
    block.object(required=("type",))
    kind = block.child("type").one_of((*allowed, *_BETA_BLOCKS) if betas else allowed)
    if kind not in _BLOCK_FIELDS:
        return kind
    required, optional = _BLOCK_FIELDS[kind]
    block.object(allowed=("type", *optional), required=required)
    if cache := block.get("cache_control"):
        check_cache_control(cache)
    match kind:
        case "text":
            if not block.child("text").string().strip():
                block.fail_plainly(f"{block.name}: text content blocks must be non-empty")
        case "thinking":
            block.child("thinking").string()
            block.child("signature").string()
        case "redacted_thinking":
            block.child("data").string(least=1)
        case "image":
            _check_image_source(block.child("source"))
        case "document":
            _check_document_source(block.child("source"), betas)
        case "search_result":
            for inner in block.child("content").items():
                _check_block(inner, ("text",), betas)
        case "tool_use":
            block.child("id").string(pattern=_ID)
            block.child("name").string(least=1, most=200)
            block.child("input").object()
        case "tool_result":
            _check_result(block, betas)
    return kind


def _check_result(block: Node, betas: list[str]) -> None:
    block.child("tool_use_id").string(pattern=_ID)
    if flag := block.get("is_error"):
        flag.boolean()
    content = block.get("content")
    if content is None or isinstance(content.value, str):
        return
    for inner in content.items():
        _check_block(inner, _RESULT, betas)


def _check_image_source(source: Node) -> None:
    source.object(required=("type",))
    match source.child("type").one_of(("base64", "url", "file")):
        case "base64":
            source.object(allowed=("type",), required=("media_type", "data"))
            source.child("media_type").one_of(_IMAGE_TYPES)
            source.child("data").base64()
        case kind:
            _check_reference(source, "url" if kind == "url" else "file_id")


def _check_document_source(source: Node, betas: list[str]) -> None:
    source.object(required=("type",))
    match source.child("type").one_of(("base64", "text", "content", "url", "file")):
        case "base64":
            source.object(allowed=("type",), required=("media_type", "data"))
            source.child("media_type").one_of(("application/pdf",))
            source.child("data").base64()
        case "text":
            source.object(allowed=("type",), required=("media_type", "data"))
            source.child("media_type").one_of(("text/plain",))
            source.child("data").string()
        case "content":
            source.object(allowed=("type",), required=("content",))
            content = source.child("content")
            if not isinstance(content.value, str):
                for inner in content.items():
                    _check_block(inner, ("text", "image"), betas)
        case kind:
            _check_reference(source, "url" if kind == "url" else "file_id")


def _check_reference(source: Node, field: str) -> None:
    source.object(allowed=("type",), required=(field,))
    source.child(field).string(least=1)
