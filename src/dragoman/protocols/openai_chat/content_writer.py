"""Writes the content of messages: text, images, files and audio (types/chat/*_content_part*)."""

from __future__ import annotations

import base64

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


class PartWriter(Struct, eq=False):
    """Writes blocks as content parts of one request.

    Cache marks are collected while parts are written; `finish` leaves the last four.
    """

    _outbound: Outbound
    _marked: list[tuple[JsonObject, str]] = []

    def parts(self, block: Block) -> list[JsonObject]:
        """The parts that express `block`; what they cannot express goes into the ledger."""
        if type(block) is Text:
            # Most blocks are.
            if block.annotations or block.logprobs or block.phase is not None:
                self.report_text(block)
            parts = [text_part(block.text)]
        else:
            parts = self._others(block)
        if self._outbound.unknown and parts:
            parts[0] = self._with_unknown(parts[0], block.path)
        if block.cache is not None:
            self.mark(parts[-1] if parts else None, block.cache, block.path)
        return parts

    def _with_unknown(self, part: JsonObject, path: str) -> JsonObject:
        kind = part["type"]
        inner = part.get(kind)
        if type(inner) is dict:
            part = {**part, kind: self._outbound.with_unknown(inner, f"{path}.{kind}")}
        return self._outbound.with_unknown(part, path)

    def mark(self, part: JsonObject | None, cache: CacheMark, path: str) -> None:
        """Put a cache mark on a part, if the upstream takes it; report it otherwise."""
        path = f"{path}.{cache.member}"
        if part is None or not self._outbound.capabilities.prompt_cache_breakpoints:
            self._lose(path, LossKind.KNOB, "the cache mark is not sent")
            return
        mark: JsonObject = {"mode": "explicit"}
        if cache.ttl in wire.CACHE_TTLS:
            mark["ttl"] = cache.ttl
        elif cache.ttl is not None:
            self._lose(path, LossKind.KNOB, "the cache lifetime is left to the upstream")
        part["prompt_cache_breakpoint"] = mark
        self._marked.append((part, path))

    def finish(self) -> None:
        """Drop the cache marks beyond the four an upstream takes, the earliest first."""
        for part, path in self._marked[: -wire.MAX_CACHE_MARKS]:
            del part["prompt_cache_breakpoint"]
            self._lose(path, LossKind.KNOB, "only the last four cache marks are sent")

    def _lose(self, path: str, kind: LossKind, detail: str) -> None:
        self._outbound.ledger.add(path, kind, detail)

    def _others(self, block: Block) -> list[JsonObject]:
        match block:
            case Refusal():
                return [text_part(block.text)]
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
                return [text_part(f"The tool {name} is now available.")]
            case Foreign() if block.text:
                self._lose(block.path, LossKind.CONVERTED, f"the text of {block.type} is sent")
                return [text_part(block.text)]
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

    def _image(self, block: Image) -> list[JsonObject]:
        if not self._outbound.capabilities.images:
            return [text_part(self._outbound.unseen(block.path))]
        source = block.source
        if isinstance(source, FileId):
            self._lose(block.path, LossKind.CONTENT, "images cannot be given by file id upstream")
            return []
        url = source.url if isinstance(source, Url) else _data_url(source)
        image: JsonObject = {"url": url}
        if block.detail is not None:
            image["detail"] = block.detail
        return [{"type": "image_url", "image_url": image}]

    def _document(self, block: Document) -> list[JsonObject]:
        if block.citations:
            self._lose(f"{block.path}.citations", LossKind.KNOB, "citations cannot be asked for")
        if block.context:
            self._lose(f"{block.path}.context", LossKind.CONVERTED, "sent as text")
        match block.source:
            case PlainText(text=text):
                body = [text_part(_with_header(block, text))]
            case Nested(blocks=inner):
                header = _with_header(block, "")
                body = [text_part(header)] if header else []
                body += [part for one in inner for part in self.parts(one)]
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
                return self._with_context(block, [_file_part({"file_id": file_id, **named})])
            case Base64() as source if self._outbound.capabilities.of(ChatCapabilities).chat_files:
                name = block.title or _file_name(source.media_type)
                file = {"filename": name, "file_data": _data_url(source)}
                return self._with_context(block, [_file_part(file)])
            case Base64() as source:
                decoded = _decoded_text(source)
                if decoded is None:
                    self._lose(block.path, LossKind.CONTENT, "the upstream takes no files")
                    return []
                body = [text_part(_with_header(block, decoded))]
        return self._as_text(block, body)

    def _as_text(self, block: Document, parts: list[JsonObject]) -> list[JsonObject]:
        self._lose(block.path, LossKind.CONVERTED, "the document is sent as text")
        return parts

    def _with_context(self, block: Document, parts: list[JsonObject]) -> list[JsonObject]:
        return [text_part(f"Context: {block.context}"), *parts] if block.context else parts

    def _search_result(self, block: SearchResult) -> list[JsonObject]:
        self._lose(block.path, LossKind.CONVERTED, "the search result is sent as text")
        if block.citations:
            self._lose(f"{block.path}.citations", LossKind.KNOB, "citations cannot be asked for")
        texts = [text.text for text in block.content]
        for text in block.content:
            self.report_text(text)
            if text.cache is not None:
                self.mark(None, text.cache, text.path)
        return [text_part("\n\n".join([f"{block.title}\n{block.source}", *texts]))]


def text_part(text: str) -> JsonObject:
    """A text part."""
    return {"type": "text", "text": text}


def _file_part(file: JsonObject) -> JsonObject:
    return {"type": "file", "file": file}


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
