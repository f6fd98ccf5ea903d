"""Writes blocks as input parts of messages and tool outputs, and citations (types:
response_output_text_param.py)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.canonical.blocks import (
    Annotation,
    Base64,
    Block,
    CacheMark,
    Document,
    FileId,
    Foreign,
    Image,
    Nested,
    PlainText,
    Refusal,
    SearchResult,
    Text,
    ToolReference,
    Url,
    UrlCitation,
)
from dragoman.canonical.losses import LossKind
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire

_FOREIGN_FILE = "file_"
"""Prefix of the other vendor's file ids; OpenAI's begin with `file-`."""


class PartWriter(Struct, eq=False):
    """The writer of blocks as input parts; what it cannot express goes into the ledger."""

    _outbound: Outbound
    _marked: list[tuple[JsonObject, Block, CacheMark]] = []

    def of(self, blocks: Iterable[Block]) -> list[JsonObject]:
        """The parts of blocks, with the cache mark of each on the last of its parts."""
        parts: list[JsonObject] = []
        for block in blocks:
            if type(block) is Text:
                if block.annotations:
                    self._lose(block, LossKind.KNOB, "input text takes no citations")
                made = [{"type": "input_text", "text": block.text}]
            else:
                made = self._others(block)
            if made and self._outbound.unknown:
                made[0] = self._outbound.with_unknown(made[0], block.path)
            if block.cache is not None:
                self.mark(block, made)
            parts += made
        return parts

    def _others(self, block: Block) -> list[JsonObject]:
        """The parts of a block that is no text."""
        match block:
            case Image():
                return self._image(block)
            case Document():
                return self._document(block)
            case Refusal():
                self._lose(block, LossKind.CONVERTED, "a refusal of this side is plain text")
                return [_text(block.text)]
            case SearchResult():
                self._lose(block, LossKind.CONVERTED, "a search result is given as text")
                self._report_citations(block)
                return [_text(_search_text(block))]
            case ToolReference():
                self._lose(block, LossKind.CONVERTED, "a found tool is named in text")
                name = self._outbound.names.outward(block.name, block.namespace)
                return [_text(f"Tool found: {name}")]
            case Foreign():
                self._lose(block, block.loss, "only its own service can express it")
            case _:
                detail = f"{type(block).__name__.lower()} has no place in an input message"
                self._lose(block, LossKind.CONTENT, detail)
        return []

    def mark(self, block: Block, parts: list[JsonObject]) -> None:
        """Put the block's cache mark on the last of its parts."""
        mark = block.cache
        if mark is None:
            return
        if not parts or not self._outbound.capabilities.prompt_cache_breakpoints:
            self._lose_mark(block, mark, "the upstream takes no cache breakpoint here")
            return
        breakpoint_: JsonObject = {"mode": "explicit"}
        if mark.ttl in wire.CACHE_TTLS:
            breakpoint_["ttl"] = mark.ttl
        elif mark.ttl is not None:
            self._lose_mark(block, mark, "the upstream has other cache lifetimes")
        parts[-1]["prompt_cache_breakpoint"] = breakpoint_
        self._marked.append((parts[-1], block, mark))

    def finish(self) -> None:
        """Drop the cache marks beyond the upstream's limit: the last ones cover the most."""
        for part, block, mark in self._marked[: -wire.MAX_CACHE_MARKS]:
            del part["prompt_cache_breakpoint"]
            self._lose_mark(block, mark, f"only {wire.MAX_CACHE_MARKS} cache marks are taken")

    def _lose_mark(self, block: Block, mark: CacheMark, detail: str) -> None:
        self._outbound.ledger.add(f"{block.path}.{mark.member}", LossKind.KNOB, detail)

    def _lose(self, block: Block, kind: LossKind, detail: str) -> None:
        self._outbound.ledger.add(block.path, kind, detail)

    def _image(self, block: Image) -> list[JsonObject]:
        if not self._outbound.capabilities.images:
            return [_text(self._outbound.unseen(block.path))]
        part: JsonObject = {"type": "input_image", "detail": block.detail or "auto"}
        match block.source:
            case Base64(media_type, data):
                part["image_url"] = f"data:{media_type};base64,{data}"
            case Url(url):
                part["image_url"] = url
            case FileId() as file:
                if not self._has_file(block, file):
                    return []
                part["file_id"] = file.id
        return [part]

    def _has_file(self, block: Block, file: FileId) -> bool:
        vendor = file.vendor or ("another" if file.id.startswith(_FOREIGN_FILE) else wire.VENDOR)
        if vendor == wire.VENDOR:
            return True
        self._lose(block, LossKind.CONTENT, "the file is in another vendor's store")
        return False

    def _report_citations(self, block: Document | SearchResult) -> None:
        if block.citations:
            detail = "citations cannot be asked for"
            self._outbound.ledger.add(f"{block.path}.citations", LossKind.KNOB, detail)

    def _document(self, block: Document) -> list[JsonObject]:
        parts: list[JsonObject] = []
        if block.context:
            detail = "a document's context is given as text"
            self._outbound.ledger.add(f"{block.path}.context", LossKind.CONVERTED, detail)
            parts.append(_text(block.context))
        self._report_citations(block)
        match block.source:
            case Base64(media_type, data):
                parts.append(
                    {
                        "type": "input_file",
                        "filename": block.title or _file_name(media_type),
                        "file_data": f"data:{media_type};base64,{data}",
                    }
                )
            case Url(url):
                parts.append(_named({"type": "input_file", "file_url": url}, block.title))
            case FileId() as file:
                if not self._has_file(block, file):
                    return []
                parts.append(_named({"type": "input_file", "file_id": file.id}, block.title))
            case PlainText(text):
                self._lose(block, LossKind.CONVERTED, "a text document is given as text")
                parts.append(_text(_header(block) + text))
            case Nested(blocks):
                self._lose(block, LossKind.CONVERTED, "a document of parts is given as parts")
                if block.title:
                    parts.append(_text(_header(block).strip()))
                parts += self.of(blocks)
        return parts


def _text(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}


def _named(part: JsonObject, name: str | None) -> JsonObject:
    if name is not None:
        part["filename"] = name
    return part


def _header(block: Document) -> str:
    return f"Document: {block.title}\n\n" if block.title else ""


def _file_name(media_type: str) -> str:
    """The name of a file, which the service requires along with its bytes."""
    if media_type == "application/pdf":
        return "document.pdf"
    return "document.txt" if media_type.startswith("text/") else "document"


def _search_text(block: SearchResult) -> str:
    head = "\n".join(line for line in (block.title, block.source) if line)
    return "\n\n".join([head, *(text.text for text in block.content)])


def write_annotation(annotation: Annotation, offset: int, length: int) -> JsonObject | None:
    """A citation inside a part's text; None if this protocol has no form for it.

    `offset` is where the cited block begins in the part, `length` how long the block is (both
    in characters): a citation of the whole block spans it.
    """
    if not isinstance(annotation, UrlCitation):
        return annotation.raw if annotation.origin == wire.NAME else None
    start, end = annotation.start, annotation.end
    if start is None or end is None:
        start, end = 0, length
    return {
        "type": "url_citation",
        "start_index": offset + start,
        "end_index": offset + end,
        "title": annotation.title,
        "url": annotation.url,
    }
