"""Blocks as the parts of contents; what cannot be written goes into the ledger.

Source: `Part` of google-genai 3.4.0; guides "Function calling" and "Thought signatures"."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Final

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
    Opaque,
    PlainText,
    Reasoning,
    Refusal,
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
    Url,
)
from dragoman.canonical.losses import LossKind
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_generate_content import wire
from dragoman.protocols.google_generate_content.capabilities import GoogleCapabilities
from dragoman.protocols.media import image_type
from dragoman.protocols.tools import input_of

SIGNATURE: Final = "thoughtSignature"

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


class PartWriter:
    """Writes the blocks of one request."""

    __slots__ = ("_outbound", "_own", "_tool_of")

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self._own = outbound.capabilities.of(GoogleCapabilities)
        self._tool_of: dict[str, str] = {}
        """Upstream names of the tools, by the ids of their calls."""

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

    def user(self, blocks: Sequence[Block]) -> list[JsonObject]:
        """The parts of a user's turn: results of tools first, then the media in them that a result
        cannot carry."""
        parts: list[JsonObject] = []
        moved: list[JsonObject] = []
        results = [block for block in blocks if type(block) is ToolResult]
        parts += [self._known(block, self._result(block, moved)) for block in results]
        parts += moved
        for block in blocks:
            if type(block) is not ToolResult:
                parts += self._parts(block)
        return parts

    def model(self, blocks: Sequence[Block]) -> list[JsonObject]:
        """The parts of the model's turn, each with the signature that it came with."""
        parts: list[JsonObject] = []
        waiting: list[Opaque] = []
        """Signatures of calls that follow."""
        late: list[Opaque] = []
        """Signatures of texts whose place is unknown."""
        for block in blocks:
            if type(block) is Reasoning:
                self._reasoning(block, parts, waiting, late)
            elif type(block) is ToolCall:
                part = self._known(block, self._call(block))
                if waiting:
                    part[SIGNATURE] = _signature(waiting.pop(0))
                parts.append(part)
            else:
                parts += self._parts(block)
        for opaque in late:
            last = parts[-1] if parts else {}
            if last.get("text") and SIGNATURE not in last and not last.get("thought"):
                last[SIGNATURE] = _signature(opaque)
            else:
                parts.append(_signed_nothing(opaque))
        parts += map(_signed_nothing, waiting)
        return parts

    # --- reasoning ------------------------------------------------------------------------------

    def _reasoning(
        self,
        block: Reasoning,
        parts: list[JsonObject],
        waiting: list[Opaque],
        late: list[Opaque],
    ) -> None:
        opaque = block.opaque
        if opaque is None or opaque.origin != wire.NAME:
            if block.parts or opaque is not None:
                # Thoughts without a signature tell the model nothing.
                self._lose(block, LossKind.KNOB, "reasoning of another model is not sent")
        elif opaque.anchor == "next":
            waiting.append(opaque)
        elif opaque.anchor == "previous" and not parts:
            late.append(opaque)
        elif opaque.anchor == "previous" and SIGNATURE not in parts[-1]:
            parts[-1][SIGNATURE] = _signature(opaque)
        elif block.text and not opaque.anchor:
            parts.append({"text": block.text, "thought": True, SIGNATURE: _signature(opaque)})
        else:
            parts.append(_signed_nothing(opaque))

    # --- calls and results ----------------------------------------------------------------------

    def _call(self, block: ToolCall) -> JsonObject:
        name = self._outbound.names.outward(block.name, block.namespace)
        self._tool_of[block.id] = name
        self._unmarked(block)
        call: JsonObject = {"name": name, "args": input_of(block, self._outbound)}
        if self._own.takes_call_ids:
            call["id"] = block.id
        return {"functionCall": call}

    def _result(self, block: ToolResult, moved: list[JsonObject]) -> JsonObject:
        self._unmarked(block)
        name = self._tool_of.get(block.call_id) or "tool"
        texts: list[str] = []
        media: list[JsonObject] = []
        separator = ""
        for inner in block.content:
            separator = separator if type(inner) is Text else "\n\n"
            for part in self._parts(inner):
                if "text" in part:
                    texts.append(part["text"])
                else:
                    media.append(part)
        failed = block.is_error is True
        result: JsonObject = {
            "name": name,
            "response": {"error" if failed else "output": separator.join(texts)},
        }
        if self._own.takes_call_ids:
            result["id"] = block.call_id
        if media and self._own.is_signed:
            result["parts"] = media
        elif media:
            self._lose(block, LossKind.CONVERTED, "media of a tool's result are put after it")
            moved += [{"text": f"[Attached by the result of {name}:]"}, *media]
        return {"functionResponse": result}

    # --- all other blocks -----------------------------------------------------------------------

    def _lose(self, block: Block, kind: LossKind, detail: str) -> tuple[()]:
        self._outbound.ledger.add(block.path, kind, detail)
        return ()

    def _cannot(self, block: Block, what: str) -> tuple[()]:
        return self._lose(block, LossKind.CONTENT, f"{what} cannot be sent upstream")

    def _unmarked(self, block: Block) -> None:
        """Report the cache mark of a block."""
        if block.cache is not None:
            path = f"{block.path}.{block.cache.member}"
            detail = "the upstream chooses by itself what to cache"
            self._outbound.ledger.add(path, LossKind.KNOB, detail)

    def _known(self, block: Block, part: JsonObject) -> JsonObject:
        """The part with the client's own members beside the known ones."""
        return self._outbound.with_unknown(part, block.path)

    def _parts(self, block: Block) -> list[JsonObject]:
        self._unmarked(block)
        parts = list(self._written(block))
        if parts and self._outbound.unknown:
            parts[0] = self._known(block, parts[0])
        return parts

    def _written(self, block: Block) -> Iterable[JsonObject]:
        if type(block) is Text:
            if block.annotations or block.logprobs or block.phase:
                self._report_text(block)
            return self._text(block.text)
        match block:
            case Image():
                return self._image(block)
            case Document():
                return self._document(block)
            case Audio():
                media_type = wire.AUDIO_TYPES.get(block.format, f"audio/{block.format}")
                return (_inline(media_type, block.data),)
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
        """A text part; the service refuses empty ones."""
        return ({"text": text},) if text else ()

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
        if block.detail not in (None, "auto"):
            self._lose(block, LossKind.KNOB, "image detail has no counterpart upstream")
        source = block.source
        if isinstance(source, Base64):
            media_type = image_type(source.media_type)
            if media_type not in _IMAGES:
                return self._cannot(block, f"an image of type {media_type[:40]}")
            return (_inline(media_type, source.data),)
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
            data = base64.b64encode(source.text.encode("utf-8", "replace")).decode()
            source = Base64("text/plain", data)
        elif isinstance(source, Base64):
            media_type = source.media_type.lower().partition(";")[0].strip()
            if media_type != "application/pdf" and not media_type.startswith("text/"):
                return self._cannot(block, f"a document of type {media_type[:40]}")
        parts = [dict(part) for part in self._sourced(block, source, "")]
        if block.title and parts:
            self._name(block, parts[0])
        return (*before, *parts)

    def _name(self, block: Document, part: JsonObject) -> None:
        """Give a file its name, where it can have one."""
        if not self._own.google_cloud:
            self._lose(block, LossKind.KNOB, "files have no names upstream")
            return
        (inner,) = part.values()
        inner["displayName"] = block.title

    def _sourced(
        self, block: Block, source: Base64 | Url | FileId, media_type: str
    ) -> Iterable[JsonObject]:
        """A file, given inline or by its address."""
        if isinstance(source, Base64):
            return (_inline(media_type or source.media_type.lower(), source.data),)
        if isinstance(source, Url):
            if not self._own.takes_file_urls:
                return self._cannot(block, "an address that the upstream would have to fetch")
            uri = source.url
        elif source.vendor == wire.VENDOR:
            uri = source.id
        else:
            return self._cannot(block, "a file of another vendor's store")
        data: JsonObject = {"fileUri": uri}
        suffix = uri.partition("?")[0].rpartition(".")[2].lower()
        if found := media_type or _BY_SUFFIX.get(suffix, ""):
            data["mimeType"] = found
        elif isinstance(source, Url) and isinstance(block, Image):
            data["mimeType"] = "image/jpeg"
        return ({"fileData": data},)

    def _search_result(self, block: SearchResult) -> Iterable[JsonObject]:
        self._lose(block, LossKind.CONVERTED, "the search result is sent as text")
        if block.citations:
            self._lose(block, LossKind.KNOB, "citations cannot be asked for")
        for text in block.content:
            self._unmarked(text)
            self._report_text(text)
        texts = [text.text for text in block.content]
        return self._text("\n\n".join([f"{block.title}\n{block.source}", *texts]))

    def _foreign(self, block: Foreign) -> Iterable[JsonObject]:
        if block.origin == wire.NAME and type(block.raw) is dict:
            return (dict(block.raw),)
        if block.text:
            self._lose(block, LossKind.CONVERTED, f"the text of {block.type} is sent")
            return self._text(block.text)
        kind = block.loss_on(self._outbound.options)
        return self._lose(block, kind, f"{block.type} has no counterpart upstream")


def _inline(media_type: str, data: str) -> JsonObject:
    return {"inlineData": {"mimeType": media_type, "data": data.translate(wire.STANDARD)}}


def _signature(opaque: Opaque) -> str:
    """A signature in the alphabet in which the service wrote it: SDKs send it back in another."""
    return opaque.data.translate(wire.STANDARD)


def _signed_nothing(opaque: Opaque) -> JsonObject:
    """The part of a signature that stands on no other."""
    return {"text": "", SIGNATURE: _signature(opaque)}
