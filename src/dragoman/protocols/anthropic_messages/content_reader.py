"""Reads the content blocks of a request."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Base64,
    Block,
    CacheMark,
    Document,
    DocumentSource,
    FileId,
    Foreign,
    ForeignCitation,
    Image,
    MediaSource,
    Nested,
    Opaque,
    PlainText,
    Reasoning,
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
    Url,
)
from dragoman.canonical.envelope import MARKER, Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, Role
from dragoman.protocols.anthropic_messages import shapes, wire
from dragoman.protocols.anthropic_messages.web_search import Searches
from dragoman.protocols.reading import carried_object, report_lost
from dragoman.protocols.unknown_text import UNKNOWN_TYPE, text_in

_FOREIGN = {
    "user messages": frozenset(wire.FOREIGN_BLOCKS),
    "assistant messages": frozenset(wire.FOREIGN_BLOCKS),
    "system messages": frozenset({"tool_addition", "tool_removal"}),
    "a tool result": frozenset({"browser_state"}),
    "a document": frozenset[str](),
}
"""The blocks of the vendor's own, by the places where they may stand."""


class BlockReader(Struct, eq=False):
    """The reader of message content as blocks; members with no canonical counterpart go into
    `extras`.

    `added_tools` are the declarations found inside the conversation (beta mid-conversation tool
    changes), each with its path.
    """

    _sealer: Sealer
    _extras: list[Extra]
    _searches: Searches | None = None
    added_tools: list[tuple[Any, str]] = []

    def message(self, content: Any, path: str, role: Role) -> tuple[Block, ...]:
        """The content of a message of `role`.

        Raises:
            InvalidRequest: naming the field.
        """
        if type(content) is str:
            return (Text(text=content, path=path),)
        return self._blocks(content, path, f"{role} messages")

    def _blocks(self, content: Any, path: str, place: str) -> tuple[Block, ...]:
        """Blocks, or a single one without its array."""
        if type(content) is not list:
            block = self._block(content, path, place)
            return () if block is None else (block,)
        blocks: list[Block] = []
        for number, item in enumerate(content):
            block = self._block(item, f"{path}[{number}]", place)
            if block is not None:
                blocks.append(block)
        return tuple(blocks)

    def _block(self, block: Any, path: str, place: str) -> Block | None:
        """A block; None for the declaration of a tool, which joins the others."""
        read = _READERS.get(type(block))
        if read is not None:
            return read(self, block, path)
        return None if self._declares(block, path) else self._foreign(block, path, place)

    def _declares(self, block: shapes.OtherBlock, path: str) -> bool:
        """Whether a tool_addition block declares a new tool."""
        tool = block.value.get("tool") if block.kind == "tool_addition" else None
        if type(tool) is not dict or tool.get("type") != "tool_definition":
            return False
        self.added_tools.append((tool.get("definition"), f"{path}.tool.definition"))
        detail = "the tool is offered from the beginning"
        self._extras.append(Extra(path, block.value, LossKind.CONVERTED, detail))
        return True

    def _foreign(self, block: shapes.OtherBlock, path: str, place: str) -> Foreign:
        kind = block.kind
        if kind not in _FOREIGN[place]:
            if kind in _KNOWN or kind in wire.FOREIGN_BLOCKS:
                raise InvalidRequest.at(f"{path}.type", f"{kind} cannot stand in {place}")
            if place != "assistant messages":
                raise InvalidRequest.at(f"{path}.type", "is not a known content block")
            # The vendor made it, and the conversation has it for ever.
            self._extras.append(Extra(path, block.value, LossKind.KNOB, UNKNOWN_TYPE))
            text, loss = text_in(block.value), LossKind.KNOB
            return Foreign(
                origin=wire.NAME, type=kind[:64], raw=block.value, loss=loss, text=text, path=path
            )
        self._searches = self._searches or Searches(self._sealer)
        means = self._searches.meaning(kind, block.value)
        loss = wire.FOREIGN_BLOCKS[kind]
        if kind == "server_tool_use" and block.value.get("name") == "advisor":
            loss = LossKind.KNOB
        return Foreign(
            origin=wire.NAME, type=kind, raw=block.value, loss=loss, means=means, path=path
        )

    def texts(self, content: str | list[shapes.Text] | shapes.Text, path: str) -> tuple[Text, ...]:
        """Text blocks, a single one, or one string."""
        if isinstance(content, str):
            return (Text(text=content, path=path),)
        if isinstance(content, shapes.Text):
            return (self._text(content, path),)
        return tuple([self._text(text, f"{path}[{at}]") for at, text in enumerate(content)])

    def _text(self, block: shapes.Text, path: str) -> Text:
        if block.citations is not None:
            report_lost(block, path, self._extras)
        return Text(text=block.text, cache=cache_mark(block.cache_control), path=path)

    def _said_text(self, block: shapes.SaidText, path: str) -> Text:
        cited = block.citations or ()
        return Text(
            text=block.text,
            annotations=tuple([ForeignCitation(wire.NAME, citation) for citation in cited]),
            cache=cache_mark(block.cache_control),
            path=path,
        )

    def _image(self, block: shapes.Image, path: str) -> Image:
        report_lost(block, path, self._extras)
        source = _media_source(block.source, f"{path}.source")
        return Image(source=source, cache=cache_mark(block.cache_control), path=path)

    def _document(self, block: shapes.Document, path: str) -> Document:
        return Document(
            source=self._document_source(block.source, f"{path}.source"),
            title=block.title,
            context=block.context,
            citations=_is_cited(block),
            cache=cache_mark(block.cache_control),
            path=path,
        )

    def _document_source(
        self, source: shapes.MediaSource | shapes.TextSource | shapes.ContentSource, path: str
    ) -> DocumentSource:
        if isinstance(source, shapes.TextSource):
            return PlainText(source.data)
        if isinstance(source, shapes.ContentSource):
            return Nested(self._nested(source.content, f"{path}.content"))
        return _media_source(source, path)

    def _nested(self, content: Any, path: str) -> tuple[Block, ...]:
        if type(content) is str:
            return (Text(text=content, path=path),)
        return self._blocks(content, path, "a document")

    def _search_result(self, block: shapes.SearchResult, path: str) -> SearchResult:
        return SearchResult(
            source=block.source,
            title=block.title,
            content=self.texts(block.content, f"{path}.content"),
            citations=_is_cited(block),
            cache=cache_mark(block.cache_control),
            path=path,
        )

    def _thinking(self, block: shapes.Thinking, path: str) -> Reasoning:
        read = Reasoning(parts=(block.thinking,) if block.thinking else (), path=path)
        return self._opened(read, block.signature) if block.signature else read

    def _redacted(self, block: shapes.RedactedThinking, path: str) -> Reasoning:
        return self._opened(Reasoning(redacted=True, path=path), block.data)

    def _opened(self, block: Reasoning, state: str) -> Reasoning:
        """`block` with the state its signature stands for: another vendor's if the signature is
        an envelope of ours (then with the exact text it was made for), else Anthropic's own."""
        sealed = self._sealer.open(state)
        if sealed is None:
            return replace(block, opaque=Opaque(wire.NAME, state))
        if sealed.opaque is None or sealed.opaque.origin == MARKER:
            return block
        return replace(sealed, path=block.path)

    def _tool_use(self, block: shapes.ToolUse, path: str) -> ToolCall:
        if block.caller is not None or block.toolset_name is not None:
            report_lost(block, path, self._extras)
        return ToolCall(
            id=block.id,
            name=block.name,
            arguments=_arguments(block.input, f"{path}.input"),
            cache=cache_mark(block.cache_control),
            path=path,
        )

    def _tool_result(self, block: shapes.ToolResult, path: str) -> ToolResult:
        if block.toolset_name is not None:
            report_lost(block, path, self._extras)
        content, at = block.content, f"{path}.content"
        inner: tuple[Block, ...] = ()
        if type(content) is str:
            inner = (Text(text=content, path=at),) if content else ()
        elif content is not None:
            inner = self._blocks(content, at, "a tool result")
        return ToolResult(
            call_id=block.tool_use_id,
            content=inner,
            is_error=block.is_error,
            cache=cache_mark(block.cache_control),
            path=path,
        )

    def _tool_reference(self, block: shapes.ToolReference, path: str) -> ToolReference:
        return ToolReference(name=block.tool_name, cache=cache_mark(block.cache_control), path=path)


_READERS: dict[type[Struct], Callable[[BlockReader, Any, str], Block]] = {
    shapes.Text: BlockReader._text,
    shapes.SaidText: BlockReader._said_text,
    shapes.ToolUse: BlockReader._tool_use,
    shapes.ToolResult: BlockReader._tool_result,
    shapes.Thinking: BlockReader._thinking,
    shapes.RedactedThinking: BlockReader._redacted,
    shapes.Image: BlockReader._image,
    shapes.Document: BlockReader._document,
    shapes.SearchResult: BlockReader._search_result,
    shapes.ToolReference: BlockReader._tool_reference,
}
_KNOWN = frozenset(str(block.__struct_config__.tag) for block in _READERS)


def cache_mark(control: shapes.CacheControl | None) -> CacheMark | None:
    """The member `cache_control` of any object."""
    return None if control is None else CacheMark(control.ttl)


def _arguments(value: Raw, path: str) -> str:
    """The input of a call, as it came."""
    carried = carried_object(value, path)
    if carried is None:
        raise InvalidRequest.at(path, "is required")
    return bytes(carried).decode()


def _is_cited(block: shapes.Document | shapes.SearchResult) -> bool:
    return block.citations is not None and bool(block.citations.enabled)


def _media_source(source: shapes.MediaSource, path: str) -> MediaSource:
    if isinstance(source, shapes.Base64Source):
        return Base64(source.media_type, _base64(source.data, f"{path}.data"))
    if isinstance(source, shapes.FileSource):
        return FileId(source.file_id, wire.VENDOR)
    if not source.url.startswith(("http://", "https://")):
        raise InvalidRequest.at(f"{path}.url", "must be an http or https address")
    return Url(source.url)


def _base64(data: str, path: str) -> str:
    """Base64 text, checked; line breaks in it are taken out."""
    for text in (data, "".join(data.split())):
        try:
            binascii.a2b_base64(text, strict_mode=True)
        except (binascii.Error, ValueError):
            continue
        return text
    raise InvalidRequest.at(path, "is not base64")
