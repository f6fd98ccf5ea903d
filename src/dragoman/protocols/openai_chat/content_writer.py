"""Writes the content of messages: text, images, files and audio (types/chat/*_content_part*)."""

from __future__ import annotations

import base64
from typing import TypeAlias

from msgspec import Struct

from dragoman.canonical.blocks import (
    Audio,
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
)
from dragoman.canonical.losses import LossKind
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.settings import ChatCapabilities

Piece: TypeAlias = str | JsonObject
"""A text that is nothing else, or a content part."""


class PartWriter(Struct, eq=False):
    """Writes the content of messages of one request, in pieces.

    Cache marks are collected while pieces are written; `finish` leaves the last four.
    """

    _outbound: Outbound
    _marked: list[tuple[JsonObject, str]] = []

    def text(self, block: Text) -> Piece:
        """The piece of a text block; what it cannot express goes into the ledger."""
        if block.annotations or block.logprobs or block.phase is not None:
            self.report_text(block)
        if block.cache is None and not self._outbound.unknown:
            return block.text
        return self._completed([block.text], block)[0]

    def pieces(self, block: Block) -> list[Piece]:
        """The pieces that express `block`; what they cannot express goes into the ledger."""
        if type(block) is Text:
            return [self.text(block)]
        return self._completed(self._others(block), block)

    def _completed(self, pieces: list[Piece], block: Block) -> list[Piece]:
        """The pieces of a block, with its unknown members and its cache mark."""
        if self._outbound.unknown and pieces:
            pieces[0] = self._with_unknown(pieces[0], block.path)
        if block.cache is not None:
            self.mark(pieces, block.cache, block.path)
        return pieces

    def _with_unknown(self, piece: Piece, path: str) -> Piece:
        part = as_part(piece)
        kind = part["type"]
        inner = part.get(kind)
        if type(inner) is dict:
            part = {**part, kind: self._outbound.with_unknown(inner, f"{path}.{kind}")}
        written = self._outbound.with_unknown(part, path)
        return piece if type(piece) is str and written is part else written

    def mark(self, pieces: list[Piece], cache: CacheMark, path: str) -> None:
        """Put a cache mark on the last of the pieces, if the upstream takes it; report it
        otherwise."""
        path = f"{path}.{cache.member}"
        if not pieces or not self._outbound.capabilities.prompt_cache_breakpoints:
            self._lose(path, LossKind.KNOB, "the cache mark is not sent")
            return
        mark: JsonObject = {"mode": "explicit"}
        if cache.ttl in wire.CACHE_TTLS:
            mark["ttl"] = cache.ttl
        elif cache.ttl is not None:
            self._lose(path, LossKind.KNOB, "the cache lifetime is left to the upstream")
        part = pieces[-1] = as_part(pieces[-1])
        part["prompt_cache_breakpoint"] = mark
        self._marked.append((part, path))

    def finish(self) -> None:
        """Drop the cache marks beyond the four an upstream takes, the earliest first."""
        for part, path in self._marked[: -wire.MAX_CACHE_MARKS]:
            del part["prompt_cache_breakpoint"]
            self._lose(path, LossKind.KNOB, "only the last four cache marks are sent")

    def _lose(self, path: str, kind: LossKind, detail: str) -> None:
        self._outbound.ledger.add(path, kind, detail)

    def _others(self, block: Block) -> list[Piece]:
        match block:
            case Refusal():
                return [block.text]
            case Image():
                return self._image(block)
            case Document():
                return self._document(block)
            case Audio():
                audio = {"data": block.data, "format": block.format}
                return [{"type": "input_audio", "input_audio": audio}]
            case SearchResult():
                return self._search_result(block)
            case ToolReference():
                self._lose(block.path, LossKind.CONVERTED, "a found tool is named in text")
                name = self._outbound.names.outward(block.name, block.namespace)
                return [f"The tool {name} is now available."]
            case Foreign() if block.text:
                self._lose(block.path, LossKind.CONVERTED, f"the text of {block.type} is sent")
                return [block.text]
            case Foreign():
                kind = block.loss_on(self._outbound.options)
                self._lose(block.path, kind, f"{block.type} has no counterpart upstream")
            case _:
                self._lose(block.path, LossKind.CONTENT, "has no place in this message upstream")
        return []

    def report_text(self, block: Text) -> None:
        """Report the members of a text block that Chat has no field for."""
        if block.annotations:
            # The clients' names for them differ, so the block is named.
            self._lose(block.path, LossKind.KNOB, "citations are not sent")
        if block.logprobs:
            self._lose(f"{block.path}.logprobs", LossKind.KNOB, "log probabilities are not sent")
        if block.phase is not None:
            message = block.path.partition(".content")[0]
            self._lose(f"{message}.phase", LossKind.KNOB, "has no counterpart upstream")

    def _image(self, block: Image) -> list[Piece]:
        if not self._outbound.capabilities.images:
            return [self._outbound.unseen(block.path)]
        source = block.source
        if isinstance(source, FileId):
            self._lose(block.path, LossKind.CONTENT, "images cannot be given by file id upstream")
            return []
        url = source.url if isinstance(source, Url) else _data_url(source)
        image: JsonObject = {"url": url}
        if block.detail is not None:
            image["detail"] = block.detail
        return [{"type": "image_url", "image_url": image}]

    def _document(self, block: Document) -> list[Piece]:
        if block.citations:
            self._lose(f"{block.path}.citations", LossKind.KNOB, "citations cannot be asked for")
        if block.context:
            self._lose(f"{block.path}.context", LossKind.CONVERTED, "sent as text")
        body: list[Piece]
        match block.source:
            case PlainText(text=text):
                body = [_with_header(block, text)]
            case Nested(blocks=inner):
                header = _with_header(block, "")
                body = [header] if header else []
                body += [piece for one in inner for piece in self.pieces(one)]
            case Url():
                self._lose(
                    block.path, LossKind.CONTENT, "documents cannot be given by URL upstream"
                )
                return []
            case FileId(id=file_id, vendor=vendor):
                if vendor not in ("", wire.VENDOR):
                    self._lose(
                        block.path, LossKind.CONTENT, "the file is in another vendor's store"
                    )
                    return []
                named = {"filename": block.title} if block.title else {}
                return self._with_context(block, {"file_id": file_id, **named})
            case Base64() as source if self._outbound.capabilities.of(ChatCapabilities).chat_files:
                name = block.title or _file_name(source.media_type)
                file = {"filename": name, "file_data": _data_url(source)}
                return self._with_context(block, file)
            case Base64() as source:
                decoded = _decoded_text(source)
                if decoded is None:
                    self._lose(block.path, LossKind.CONTENT, "the upstream takes no files")
                    return []
                body = [_with_header(block, decoded)]
        self._lose(block.path, LossKind.CONVERTED, "the document is sent as text")
        return body

    def _with_context(self, block: Document, file: JsonObject) -> list[Piece]:
        part = {"type": "file", "file": file}
        return [f"Context: {block.context}", part] if block.context else [part]

    def _search_result(self, block: SearchResult) -> list[Piece]:
        self._lose(block.path, LossKind.CONVERTED, "the search result is sent as text")
        if block.citations:
            self._lose(f"{block.path}.citations", LossKind.KNOB, "citations cannot be asked for")
        texts = [text.text for text in block.content]
        for text in block.content:
            self.report_text(text)
            if text.cache is not None:
                self.mark([], text.cache, text.path)
        return ["\n\n".join([f"{block.title}\n{block.source}", *texts])]


def as_part(piece: Piece) -> JsonObject:
    """A piece as a content part."""
    return {"type": "text", "text": piece} if isinstance(piece, str) else piece


def _data_url(source: Base64) -> str:
    return f"data:{source.media_type};base64,{source.data}"


def _with_header(block: Document, text: str) -> str:
    """A document's title and context before its text."""
    lines = [f"Document: {block.title}"] if block.title else []
    if block.context:
        lines.append(f"Context: {block.context}")
    return "\n\n".join(piece for piece in ("\n".join(lines), text) if piece)


def _file_name(media_type: str) -> str:
    for ending, known in wire.MEDIA_TYPES.items():
        if known == media_type:
            return f"document.{ending}"
    return "document"


def _decoded_text(source: Base64) -> str | None:
    """The text of a plain-text document; None of any other document."""
    if not source.media_type.startswith("text/"):
        return None
    try:
        return base64.b64decode(source.data).decode()
    except ValueError:
        return None
