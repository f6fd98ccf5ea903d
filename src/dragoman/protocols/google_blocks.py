"""Blocks for an upstream of Google's: what each becomes in either protocol, and what is reported.

`BlockWriter` decides; a protocol renders a text, bytes and an address as its own objects.
Sources: guides "Function calling" and "Thought signatures"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    CacheMark,
    Document,
    FileId,
    Foreign,
    Image,
    Media,
    Nested,
    PlainText,
    Refusal,
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
    Url,
)
from dragoman.canonical.losses import LossKind
from dragoman.protocols import google_wire
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_capabilities import GoogleCapabilities
from dragoman.protocols.media import image_type

_IMAGES: Final = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
_BY_SUFFIX: Final = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "csv": "text/csv",
    "mp4": "video/mp4",
    "mov": "video/mov",
    "webm": "video/webm",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
}


class BlockWriter:
    """Writes the blocks of one request as the `parts` of the protocol named `origin`."""

    __slots__ = ("_outbound", "_own", "_tool_of")

    origin: ClassVar[str]

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self._own = outbound.capabilities.of(GoogleCapabilities)
        self._tool_of: dict[str, str] = {}
        """Upstream names of the tools, by the ids of their calls."""

    # --- how a protocol writes them -------------------------------------------------------------

    def text_part(self, text: str) -> JsonObject:
        """The part of a text."""
        raise NotImplementedError

    def _inline(self, block: Block, media_type: str, data: str) -> JsonObject:
        """The part of a file that is given inline."""
        raise NotImplementedError

    def _addressed(self, block: Block, media_type: str, uri: str) -> JsonObject:
        """The part of a file at an address; its media type is empty if it is not known."""
        raise NotImplementedError

    def _plain(self, block: Document, text: str) -> Iterable[JsonObject]:
        """The parts of a document of text."""
        raise NotImplementedError

    def _result(self, block: ToolResult, moved: list[JsonObject]) -> JsonObject:
        """The result of a call; media that it cannot carry go into `moved`."""
        raise NotImplementedError

    def _detail(self, block: Image) -> None:
        """Report the detail of a picture, unless the protocol has a place for it."""
        if block.detail not in (None, "auto"):
            self._lose(block, LossKind.KNOB, "image detail has no counterpart upstream")

    def _named(self, block: Document, part: JsonObject) -> None:
        """Give a file its name, or report it."""
        self._lose(block, LossKind.KNOB, "files have no names upstream")

    # --- blocks ---------------------------------------------------------------------------------

    def texts(self, blocks: Iterable[Block]) -> list[JsonObject]:
        """The texts of system instructions; anything else is lost."""
        parts: list[JsonObject] = []
        for block in blocks:
            for part in self._parts(block):
                if "text" in part:
                    parts.append(part)
                else:
                    self._cannot(block, "anything but text in system instructions")
        return parts

    def user(self, blocks: Iterable[Block]) -> list[JsonObject]:
        """The parts of a user's turn: results of tools first, then the media in them that a result
        cannot carry."""
        results: list[JsonObject] = []
        moved: list[JsonObject] = []
        others: list[JsonObject] = []
        for block in blocks:
            if type(block) is ToolResult:
                results.append(self._known(block, self._result(block, moved)))
            else:
                others += self._parts(block)
        return [*results, *moved, *others]

    def _called(self, block: ToolCall) -> str:
        """The upstream's name of the tool that is called."""
        name = self._outbound.names.outward(block.name, block.namespace)
        self._tool_of[block.id] = name
        if block.cache is not None:
            self._unmarked(block.path, block.cache)
        return name

    def _content_of(self, block: ToolResult) -> tuple[str, list[JsonObject]]:
        """The text of a result, and the media in it."""
        if block.cache is not None:
            self._unmarked(block.path, block.cache)
        texts: list[str] = []
        media: list[JsonObject] = []
        separator = ""
        for inner in block.content:
            if type(inner) is not Text:
                separator = "\n\n"
            for part in self._parts(inner):
                if "text" in part:
                    texts.append(part["text"])
                else:
                    media.append(part)
        return separator.join(texts), media

    def _lose(self, block: Block, kind: LossKind, detail: str) -> tuple[()]:
        self._outbound.ledger.add(block.path, kind, detail)
        return ()

    def _cannot(self, block: Block, what: str) -> tuple[()]:
        return self._lose(block, LossKind.CONTENT, f"{what} cannot be sent upstream")

    def _unmarked(self, path: str, mark: CacheMark) -> None:
        """Report the cache mark of the block at `path`."""
        detail = "the upstream chooses by itself what to cache"
        self._outbound.ledger.add(f"{path}.{mark.member}", LossKind.KNOB, detail)

    def _known(self, block: Block, part: JsonObject) -> JsonObject:
        """The part with the client's own members beside the known ones."""
        outbound = self._outbound
        return outbound.with_unknown(part, block.path) if outbound.unknown else part

    def _parts(self, block: Block) -> list[JsonObject]:
        if block.cache is not None:
            self._unmarked(block.path, block.cache)
        if type(block) is Text:
            if block.annotations or block.logprobs or block.phase:
                self._report_text(block)
            parts = [*self._text(block.text)]
        else:
            parts = [*self._written(block)]
        if parts and self._outbound.unknown:
            parts[0] = self._known(block, parts[0])
        return parts

    def _written(self, block: Block) -> Iterable[JsonObject]:
        match block:
            case Image():
                return self._image(block)
            case Document():
                return self._document(block)
            case Audio():
                media_type = google_wire.AUDIO_TYPES.get(block.format, f"audio/{block.format}")
                return (self._inline(block, media_type, block.data),)
            case Media():
                return self._sourced(block, block.source, block.media_type)
            case Refusal():
                self._lose(block, LossKind.CONVERTED, "the refusal became ordinary text")
                return self._text(block.text)
            case SearchResult():
                return self._search_result(block)
            case ToolReference():
                self._lose(block, LossKind.CONVERTED, "a found tool is named in text")
                name = self._outbound.names.outward(block.name, block.namespace)
                return self._text(f"The tool {name} is now available.")
            case Foreign():
                return self._foreign(block)
        return self._cannot(block, type(block).__name__.lower())

    def _text(self, text: str) -> Iterable[JsonObject]:
        """A text; the service refuses empty ones."""
        return (self.text_part(text),) if text else ()

    def _report_text(self, block: Text) -> None:
        """Report what a text has beside its text."""
        if block.annotations:
            self._lose(block, LossKind.KNOB, "citations are not sent")
        if block.logprobs:
            self._lose(block, LossKind.KNOB, "token probabilities are not sent upstream")
        if block.phase is not None:
            self._outbound.lose_phase(block.path)

    def _image(self, block: Image) -> Iterable[JsonObject]:
        if not self._outbound.capabilities.images:
            return self._text(self._outbound.unseen(block.path))
        self._detail(block)
        source = block.source
        if isinstance(source, Base64):
            media_type = image_type(source.media_type)
            if media_type not in _IMAGES:
                return self._cannot(block, f"an image of type {media_type[:40]}")
            return (self._inline(block, media_type, source.data),)
        return self._sourced(block, source, "")

    def _document(self, block: Document) -> Iterable[JsonObject]:
        if block.citations:
            self._lose(block, LossKind.KNOB, "citations cannot be asked for")
        before = self._text(f"Context: {block.context}") if block.context else ()
        if block.context:
            self._lose(block, LossKind.CONVERTED, "the context of the document is sent as text")
        source = block.source
        if isinstance(source, Nested):
            self._lose(block, LossKind.CONVERTED, "the document is sent as text")
            inner = [part for one in source.blocks for part in self._parts(one)]
            return (*before, *self._text(block.title or ""), *inner)
        if isinstance(source, PlainText):
            parts = [dict(part) for part in self._plain(block, source.text)]
        else:
            if isinstance(source, Base64):
                media_type = source.media_type.lower().partition(";")[0].strip()
                if media_type != "application/pdf" and not media_type.startswith("text/"):
                    return self._cannot(block, f"a document of type {media_type[:40]}")
            parts = [dict(part) for part in self._sourced(block, source, "")]
        if block.title and parts:
            self._named(block, parts[0])
        return (*before, *parts)

    def _sourced(
        self, block: Block, source: Base64 | Url | FileId, media_type: str
    ) -> Iterable[JsonObject]:
        """A file, given inline or by its address."""
        if isinstance(source, Base64):
            return (self._inline(block, media_type or source.media_type.lower(), source.data),)
        if isinstance(source, Url):
            if not self._own.takes_file_urls:
                return self._cannot(block, "an address that the upstream would have to fetch")
            uri = source.url
        elif source.vendor == google_wire.VENDOR:
            uri = source.id
        else:
            return self._cannot(block, "a file of another vendor's store")
        suffix = uri.partition("?")[0].rpartition(".")[2].lower()
        found = media_type or _BY_SUFFIX.get(suffix, "")
        if not found and isinstance(source, Url) and isinstance(block, Image):
            found = "image/jpeg"
        return (self._addressed(block, found, uri),)

    def _search_result(self, block: SearchResult) -> Iterable[JsonObject]:
        self._lose(block, LossKind.CONVERTED, "the search result is sent as text")
        if block.citations:
            self._lose(block, LossKind.KNOB, "citations cannot be asked for")
        for text in block.content:
            if text.cache is not None:
                self._unmarked(text.path, text.cache)
            self._report_text(text)
        texts = [text.text for text in block.content]
        return self._text("\n\n".join([f"{block.title}\n{block.source}", *texts]))

    def _foreign(self, block: Foreign) -> Iterable[JsonObject]:
        if block.origin == self.origin and type(block.raw) is dict:
            return (dict(block.raw),)
        if block.text:
            self._lose(block, LossKind.CONVERTED, f"the text of {block.type} is sent")
            return self._text(block.text)
        kind = block.loss_on(self._outbound.options)
        return self._lose(block, kind, f"{block.type} has no counterpart upstream")
