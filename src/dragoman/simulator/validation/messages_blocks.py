"""Content blocks of a Messages request."""

import re
from dataclasses import dataclass, field

from dragoman.simulator.seals import open_redacted, thinking_is_genuine
from dragoman.simulator.validation.nodes import Node

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
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
    "server_tool_use": (("id", "name", "input"), ("cache_control", "caller")),
    "web_search_tool_result": (("tool_use_id", "content"), ("cache_control", "caller")),
    "web_fetch_tool_result": (("tool_use_id", "content"), ("cache_control", "caller")),
    "code_execution_tool_result": (("tool_use_id", "content"), ("cache_control",)),
    "bash_code_execution_tool_result": (("tool_use_id", "content"), ("cache_control",)),
    "text_editor_code_execution_tool_result": (("tool_use_id", "content"), ("cache_control",)),
    "tool_search_tool_result": (("tool_use_id", "content"), ("cache_control",)),
    "container_upload": (("file_id",), ("cache_control",)),
}
"""Required and optional fields beside ``type``."""

_SERVER_RESULTS = (
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
)
_HOSTED = ("server_tool_use", *_SERVER_RESULTS, "container_upload", "browser_state")
_CITATIONS: dict[str, tuple[str, ...]] = {
    "char_location": ("document_index", "start_char_index", "end_char_index"),
    "page_location": ("document_index", "start_page_number", "end_page_number"),
    "content_block_location": ("document_index", "start_block_index", "end_block_index"),
    "web_search_result_location": ("url", "encrypted_index"),
    "search_result_location": (
        "search_result_index",
        "source",
        "start_block_index",
        "end_block_index",
    ),
}
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
    kind = node.tag(("ephemeral",))
    node = node.tagged(kind).object(allowed=("ttl",), required=("type",))
    if ttl := node.get("ttl"):
        ttl.one_of(("5m", "1h"))


def check_system_blocks(content: Node, betas: list[str]) -> None:
    """The content of a system prompt or a system message."""
    if isinstance(content.value, str):
        return
    for block in content.items():
        _check_block(block, ("text",), betas)


@dataclass(slots=True)
class Exchange:
    """What the turns so far have left open.

    ``open_calls`` are calls whose results have to come; ``said`` tells that something else than
    a result has been said since they were made, for neighbouring turns of one role are one turn.
    """

    version: str
    organization: str
    betas: list[str]
    tools: set[str]
    open_calls: set[str] = field(default_factory=set)
    seen_calls: set[str] = field(default_factory=set)
    server_calls: set[str] = field(default_factory=set)
    said: bool = False

    def check_user(self, content: Node) -> None:
        """Check a user turn, whose results come before all else."""
        if isinstance(content.value, str):
            self.said = True
            return
        answered: set[str] = set()
        for block in content.items():
            kind = _check_block(block, _USER, self.betas)
            citations = block.value.get("citations") if kind == "text" else None
            if citations and self.version == _NEW_VERSION:
                block.child("citations").fail("citations are not permitted in user messages")
            if kind == "tool_result":
                self._check_result(block, answered)
            else:
                self.said = True
        self.open_calls -= answered

    def _check_result(self, block: Node, answered: set[str]) -> None:
        call_id = block.value["tool_use_id"]
        if call_id in answered:
            block.fail(f"each tool_use must have a single result. Found multiple for {call_id}")
        if call_id not in self.open_calls:
            block.fail_plainly(
                f"{block.name}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the "
                "previous message."
            )
        if self.said:
            block.fail_plainly(
                f"{block.name}: `tool_result` blocks must come first in the user message that "
                "answers `tool_use` blocks"
            )
        answered.add(call_id)
        content = block.value.get("content")
        for inner in content if isinstance(content, list) else ():
            if inner["type"] == "tool_reference" and inner["tool_name"] not in self.tools:
                block.fail_plainly(
                    f"Tool reference '{inner['tool_name']}' not found in available tools"
                )

    def check_assistant(self, content: Node) -> None:
        """Check an assistant turn and open its calls."""
        self.said = False
        if isinstance(content.value, str):
            return
        old = self.version != _NEW_VERSION
        allowed = (*_ASSISTANT, "document", "image") if old else _ASSISTANT
        for block in content.items():
            kind = _check_block(block, allowed, self.betas)
            if kind == "thinking":
                text, signature = block.value["thinking"], block.value["signature"]
                if not thinking_is_genuine(text, signature, self.organization):
                    block.fail("Invalid `signature` in `thinking` block")
            elif kind == "redacted_thinking":
                if open_redacted(block.value["data"], self.organization) is None:
                    block.fail("Invalid `data` in `redacted_thinking` block")
            elif kind == "tool_use":
                self._open_call(block)
            elif kind == "server_tool_use":
                self.server_calls.add(block.value["id"])
            elif kind in _SERVER_RESULTS and block.value["tool_use_id"] not in self.server_calls:
                block.fail_plainly(
                    f"{block.name}: unexpected `tool_use_id` found in `{kind}` blocks: "
                    f"{block.value['tool_use_id']}. Each `{kind}` block must have a corresponding "
                    "`server_tool_use` block before it."
                )

    def _open_call(self, block: Node) -> None:
        call_id = block.value["id"]
        if call_id in self.seen_calls:
            block.child("id").fail("`tool_use` ids must be unique")
        self.seen_calls.add(call_id)
        self.open_calls.add(call_id)


def _check_block(block: Node, allowed: tuple[str, ...], betas: list[str]) -> str:
    kind = block.tag((*allowed, *_BETA_BLOCKS) if betas else allowed)
    if kind not in _BLOCK_FIELDS:
        return kind
    plain, block = block, block.tagged(kind)
    required, optional = _BLOCK_FIELDS[kind]
    block.object(allowed=("type", *optional), required=required)
    if cache := block.get("cache_control"):
        check_cache_control(cache)
    match kind:
        case "text":
            _check_text(plain, block)
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
            block.child("name").string(pattern=_NAME)
            block.child("input").object()
        case "tool_result":
            _check_result(plain, block, betas)
        case "server_tool_use":
            block.child("id").string(pattern=_ID)
            block.child("name").string(least=1)
            block.child("input").object()
    return kind


def _check_text(plain: Node, block: Node) -> None:
    text = block.child("text").string()
    if not text:
        plain.fail_plainly(f"{plain.name}: text content blocks must be non-empty")
    if not text.strip():
        plain.fail_plainly(f"{plain.name}: text content blocks must contain non-whitespace text")
    citations = block.get("citations")
    if citations is None or isinstance(citations.value, dict):
        return
    for citation in citations.items():
        kind = citation.tag(tuple(_CITATIONS))
        citation.tagged(kind).object(required=(*_CITATIONS[kind], "cited_text"))


def _check_result(plain: Node, block: Node, betas: list[str]) -> None:
    block.child("tool_use_id").string(pattern=_ID)
    if flag := block.get("is_error"):
        flag.boolean()
    content = block.get("content")
    if content is None or isinstance(content.value, str):
        return
    kinds = {_check_block(inner, _RESULT, betas) for inner in content.items()}
    if block.value.get("is_error") and not kinds <= {"text"}:
        plain.fail_plainly(f"{block.name}: all content must be type `text` if `is_error` is true")


def _check_image_source(source: Node) -> None:
    kind = source.tag(("base64", "url", "file"))
    source = source.tagged(kind)
    match kind:
        case "base64":
            source.object(allowed=("type",), required=("media_type", "data"))
            source.child("media_type").one_of(_IMAGE_TYPES)
            source.child("data").base64()
        case _:
            _check_reference(source, "url" if kind == "url" else "file_id")


def _check_document_source(source: Node, betas: list[str]) -> None:
    kind = source.tag(("base64", "text", "content", "url", "file"))
    source = source.tagged(kind)
    match kind:
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
        case _:
            _check_reference(source, "url" if kind == "url" else "file_id")


def _check_reference(source: Node, name: str) -> None:
    source.object(allowed=("type",), required=(name,))
    value = source.child(name).string(least=1)
    if name == "url" and not value.startswith("https://"):
        source.child(name).fail("Only HTTPS URLs are supported.")
