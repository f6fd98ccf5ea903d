"""Reads the content blocks of a request."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import Any

from msgspec import Struct
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
from dragoman.canonical.requests import Extra
from dragoman.protocols.anthropic_messages import shapes, wire
from dragoman.protocols.anthropic_messages.web_search import Searches
from dragoman.protocols.reading import carried_object, report_lost
from dragoman.protocols.unknown_text import unknown_block

_FOREIGN = {
    "user": frozenset(wire.FOREIGN_BLOCKS),
    "assistant": frozenset(wire.FOREIGN_BLOCKS),
    "system": frozenset({"tool_addition", "tool_removal"}),
    "a tool result": frozenset({"browser_state"}),
    "a document": frozenset[str](),
}
"""The blocks of the vendor's own, by the places where they may stand: messages of a role, or inside
other blocks."""


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

    def blocks(self, content: Any, path: str, place: str) -> tuple[Block, ...]:
        """The member `content` of what is at `path`: one text, blocks, or a single block without
        its array. Declarations of tools in it join the others.

        Raises:
            InvalidRequest: naming the field.
        """
        if type(content) is str:
            return (Text(text=content, path=f"{path}.content"),)
        are_many = type(content) is list
        blocks: list[Block] = []
        for number, item in enumerate(content if are_many else (content,)):
            at = f"{path}.content[{number}]" if are_many else f"{path}.content"
            read = _READERS.get(type(item))
            if read is not None:
                blocks.append(read(self, item, at))
            elif not self._declares(item, at):
                blocks.append(self._foreign(item, at, place))
        return tuple(blocks)

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
                within = place if " " in place else f"{place} messages"
                raise InvalidRequest.at(f"{path}.type", f"{kind} cannot stand in {within}")
            if place != "assistant":
                raise InvalidRequest.at(f"{path}.type", "is not a known content block")
            # The vendor made it, and the conversation has it for ever.
            loss, extras = LossKind.KNOB, self._extras
            return unknown_block(wire.NAME, kind, block.value, path, extras, loss)
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
        cache = cache_mark(block.cache_control) if block.cache_control else None
        return Text(text=block.text, cache=cache, path=path)

    def _said_text(self, block: shapes.SaidText, path: str) -> Text:
        cache = cache_mark(block.cache_control) if block.cache_control else None
        if not block.citations:
            return Text(text=block.text, cache=cache, path=path)
        cited = tuple([ForeignCitation(wire.NAME, citation) for citation in block.citations])
        return Text(text=block.text, annotations=cited, cache=cache, path=path)

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
            return Nested(self.blocks(source.content, path, "a document"))
        return _media_source(source, path)

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
        arguments = carried_object(block.input, path, "input")
        if arguments is None:
            raise InvalidRequest.at(f"{path}.input", "is required")
        return ToolCall(
            id=block.id,
            name=block.name,
            arguments=str(arguments, "utf-8"),
            cache=cache_mark(block.cache_control) if block.cache_control else None,
            path=path,
        )

    def _tool_result(self, block: shapes.ToolResult, path: str) -> ToolResult:
        if block.toolset_name is not None:
            report_lost(block, path, self._extras)
        content = block.content
        return ToolResult(
            call_id=block.tool_use_id,
            content=self.blocks(content, path, "a tool result") if content else (),
            is_error=block.is_error,
            cache=cache_mark(block.cache_control) if block.cache_control else None,
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
