"""Writes blocks as the content of messages; what cannot be written goes into the ledger."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Any

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    Document,
    FileId,
    Foreign,
    Image,
    Media,
    Nested,
    PlainText,
    Reasoning,
    Refusal,
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
    Url,
    WebSearch,
)
from dragoman.canonical.losses import LossKind
from dragoman.canonical.names import safe_id
from dragoman.canonical.requests import Role
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.annotations import own_citation
from dragoman.protocols.anthropic_messages.caching import Marks
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.media import image_type
from dragoman.protocols.tools import input_of

_PDF = "application/pdf"


class BlockWriter:
    """Writes the blocks of one request. `thinks`: there is thinking in what was written."""

    __slots__ = ("_ids", "_marks", "_outbound", "_role", "thinks")

    def __init__(self, outbound: Outbound, marks: Marks) -> None:
        self._outbound = outbound
        self._marks = marks
        self._role: Role = "user"
        self._ids: dict[str, str] = {}
        """The ids of calls that were written, by the client's."""
        self.thinks = False

    def turn(self, blocks: Iterable[Block], role: Role) -> list[JsonObject]:
        """The content of a message of `role`."""
        self._role = role
        entries: list[JsonObject] = []
        unknown = self._outbound.unknown
        for block in blocks:
            written = _WRITERS[type(block)](self, block)
            if unknown and written:
                first, *rest = written
                written = self._outbound.with_unknown(first, block.path), *rest
            entries += written
        return entries

    def _lose(self, block: Block, kind: LossKind, detail: str) -> tuple[()]:
        self._outbound.ledger.add(block.path, kind, detail)
        return ()

    def _cannot(self, block: Block, what: str) -> tuple[()]:
        return self._lose(block, LossKind.CONTENT, f"{what} cannot be sent upstream")

    def _text(self, block: Text) -> Iterable[JsonObject]:
        if block.annotations or block.logprobs or block.phase:
            return self._annotated(block)
        return self._plain(block.text, block)

    def _refusal(self, block: Refusal) -> Iterable[JsonObject]:
        self._lose(block, LossKind.CONVERTED, "the refusal became ordinary text")
        return self._plain(block.text, block)

    def _other(self, block: Block) -> Iterable[JsonObject]:
        return self._cannot(block, type(block).__name__.lower())

    def _plain(self, text: str, block: Block) -> Iterable[JsonObject]:
        """A text block; the service refuses blank ones."""
        if not text:
            return ()
        if text.isspace():
            return self._lose(block, LossKind.REPAIRED, "blank text was left out")
        entry: JsonObject = {"type": "text", "text": text}
        if block.cache is not None:
            self._marks.put(entry, block.cache, block.path)
        return (entry,)

    def _annotated(self, block: Text) -> Iterable[JsonObject]:
        own = [raw for one in block.annotations if (raw := own_citation(one)) is not None]
        # A user's text with citations is refused.
        remaining = own if self._role == "assistant" else []
        if block.phase is not None:
            self._outbound.lose_phase(block.path)
        if block.logprobs:
            self._lose(block, LossKind.KNOB, "token probabilities are not sent upstream")
        if len(remaining) < len(block.annotations):
            self._lose(block, LossKind.KNOB, "citations have no counterpart upstream")
        entries = list(self._plain(block.text, block))
        if remaining:
            entries = [{**entry, "citations": remaining} for entry in entries]
        return entries

    def _image(self, block: Image) -> Iterable[JsonObject]:
        if not self._outbound.capabilities.images:
            return self._plain(self._outbound.unseen(block.path), block)
        if self._refused_here():
            return self._cannot(block, f"an image of the {self._role}")
        if block.detail not in (None, "auto"):
            self._lose(block, LossKind.KNOB, "image detail has no counterpart upstream")
        source = block.source
        if isinstance(source, Base64):
            media_type = image_type(source.media_type)
            if media_type not in wire.IMAGE_TYPES:
                return self._cannot(block, f"an image of type {media_type[:40]}")
            written = _base64(media_type, source.data)
        elif (linked := self._linked(block, source)) is not None:
            written = linked
        else:
            return ()
        entry: JsonObject = {"type": "image", "source": written}
        self._marks.put(entry, block.cache, block.path)
        return (entry,)

    def _linked(self, block: Block, source: Url | FileId) -> JsonObject | None:
        if isinstance(source, Url):
            return {"type": "url", "url": source.url}
        if source.vendor == wire.VENDOR:
            return {"type": "file", "file_id": source.id}
        self._cannot(block, "a file of another vendor's store")
        return None

    def _refused_here(self) -> bool:
        """Whether images and documents are refused in a turn of this role."""
        if self._role == "assistant":
            return not self._outbound.capabilities.of(MessagesCapabilities).is_old
        return self._role != "user"

    def _document(self, block: Document) -> Iterable[JsonObject]:
        if self._refused_here():
            return self._cannot(block, f"a document of the {self._role}")
        source = self._document_source(block)
        if source is None:
            return ()
        entry: JsonObject = {"type": "document", "source": source}
        if block.title:
            entry["title"] = block.title
        if block.context:
            entry["context"] = block.context
        if block.citations:
            entry["citations"] = {"enabled": True}
        self._marks.put(entry, block.cache, block.path)
        return (entry,)

    def _document_source(self, block: Document) -> JsonObject | None:
        source = block.source
        match source:
            case PlainText():
                return _text_source(source.text)
            case Nested():
                inner = [entry for item in source.blocks for entry in self._unmarked(item)]
                return {"type": "content", "content": inner}
            case Url() | FileId():
                return self._linked(block, source)
        media_type = source.media_type.lower().partition(";")[0].strip()
        if media_type == _PDF:
            return _base64(_PDF, source.data)
        text = _decoded_text(source.data) if media_type.startswith("text/") else None
        if text is None:
            self._cannot(block, f"a document of type {media_type[:40]}")
            return None
        return _text_source(text)

    def _unmarked(self, block: Block) -> list[JsonObject]:
        """Blocks that may not have a cache mark."""
        entries = [dict(entry) for entry in _WRITERS[type(block)](self, block)]
        for entry in entries:
            if (mark := entry.pop("cache_control", None)) is not None:
                detail = "no cache mark can stand inside another block"
                self._outbound.ledger.add(mark.path, LossKind.KNOB, detail)
        return entries

    def _search_result(self, block: SearchResult) -> Iterable[JsonObject]:
        if self._role != "user":
            return self._cannot(block, f"a search result of the {self._role}")
        entry: JsonObject = {
            "type": "search_result",
            "source": block.source,
            "title": block.title,
            "content": [entry for text in block.content for entry in self._unmarked(text)],
        }
        if block.citations:
            entry["citations"] = {"enabled": True}
        self._marks.put(entry, block.cache, block.path)
        return (entry,)

    def _reasoning(self, block: Reasoning) -> Iterable[JsonObject]:
        opaque = block.opaque
        if opaque is None or opaque.origin != wire.NAME:
            if block.parts or opaque is not None:
                # The service refuses thinking that it did not sign itself.
                self._lose(block, LossKind.KNOB, "reasoning of another model is not sent")
            return ()
        if block.cache is not None:
            detail = "no cache mark can stand on thinking"
            path = f"{block.path}.{block.cache.member}"
            self._outbound.ledger.add(path, LossKind.KNOB, detail)
        self.thinks = True
        if block.redacted:
            return ({"type": "redacted_thinking", "data": opaque.data},)
        return ({"type": "thinking", "thinking": block.text, "signature": opaque.data},)

    def _tool_use(self, block: ToolCall) -> Iterable[JsonObject]:
        name = self._outbound.names.outward(block.name, block.namespace)
        call_id = self._ids[block.id] = safe_id(block.id, wire.ID_LIMIT)
        entry = {
            "type": "tool_use",
            "id": call_id,
            "name": name,
            "input": input_of(block, name, self._outbound),
        }
        if block.cache is not None:
            self._marks.put(entry, block.cache, block.path)
        return (entry,)

    def _tool_result(self, block: ToolResult) -> Iterable[JsonObject]:
        entry: JsonObject = {
            "type": "tool_result",
            "tool_use_id": self._ids[block.call_id],
        }
        content: list[JsonObject] = []
        for inner in block.content:
            content += _WRITERS[type(inner)](self, inner)
        if len(content) == 1 and is_plain(content[0]):
            entry["content"] = content[0]["text"]
        elif content:
            entry["content"] = content
        if block.is_error is not None:
            entry["is_error"] = block.is_error
        if block.cache is not None:
            self._marks.put(entry, block.cache, block.path)
        return (entry,)

    def _tool_reference(self, block: ToolReference) -> Iterable[JsonObject]:
        name = self._outbound.names.outward(block.name, block.namespace)
        entry: JsonObject = {"type": "tool_reference", "tool_name": name}
        self._marks.put(entry, block.cache, block.path)
        return (entry,)

    def _foreign(self, block: Foreign) -> Iterable[JsonObject]:
        if block.origin == wire.NAME:
            self._marks.expected = True
            return (dict(block.raw),)
        if block.text:
            self._lose(block, LossKind.CONVERTED, f"the text of {block.type} is sent")
            return self._plain(block.text, block)
        kind = block.loss_on(self._outbound.options)
        return self._lose(block, kind, f"{block.type} has no counterpart upstream")


_WRITERS: dict[type[Block], Callable[[BlockWriter, Any], Iterable[JsonObject]]] = {
    Audio: BlockWriter._other,
    Document: BlockWriter._document,
    Foreign: BlockWriter._foreign,
    Image: BlockWriter._image,
    Media: BlockWriter._other,
    Reasoning: BlockWriter._reasoning,
    Refusal: BlockWriter._refusal,
    SearchResult: BlockWriter._search_result,
    Text: BlockWriter._text,
    ToolCall: BlockWriter._tool_use,
    ToolReference: BlockWriter._tool_reference,
    ToolResult: BlockWriter._tool_result,
    WebSearch: BlockWriter._other,
}


def is_plain(entry: JsonObject) -> bool:
    """Whether an entry is a text and nothing else, for which a string can stand."""
    return len(entry) == 2 and entry["type"] == "text" and "text" in entry


def _base64(media_type: str, data: str) -> JsonObject:
    return {"type": "base64", "media_type": media_type, "data": data}


def _text_source(text: str) -> JsonObject:
    return {"type": "text", "media_type": "text/plain", "data": text}


def _decoded_text(data: str) -> str | None:
    try:
        return base64.b64decode(data, validate=True).decode("utf-8-sig")
    except (binascii.Error, ValueError):
        return None
