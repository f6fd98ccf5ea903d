"""Reads the content blocks of a request."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Annotation,
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
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.anthropic_messages.web_search import Searches
from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import Field, Fields

_ROLE_OF = {
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_use": "assistant",
    "tool_result": "user",
}
"""Blocks that only one side of a conversation can have."""
_IN_SYSTEM = frozenset({"text", "tool_addition", "tool_removal"})
_IN_RESULT = frozenset(
    {"text", "image", "document", "search_result", "tool_reference", "browser_state"}
)
_IN_DOCUMENT = frozenset({"text", "image"})


class BlockReader:
    """The reader of message content as blocks; fields with no canonical counterpart go into
    `extras`.

    `added_tools` are the declarations found inside the conversation (beta mid-conversation tool
    changes), each with its path.
    """

    __slots__ = ("_extras", "_sealer", "_searches", "added_tools")

    def __init__(self, sealer: Sealer, extras: list[Extra]) -> None:
        self._sealer = sealer
        self._extras = extras
        self._searches: Searches | None = None
        self.added_tools: list[tuple[Any, str]] = []

    def message(self, value: Any, path: str, role: Role) -> tuple[Block, ...]:
        """The content of a message of `role`.

        Raises:
            InvalidRequest: naming the field.
        """
        if type(value) is str:
            return (Text(text=value, path=path),)
        allowed = _IN_SYSTEM if role == "system" else None
        blocks: list[Block] = []
        for item, at in _items(value, path):
            if type(item) is dict and len(item) == 2 and item.get("type") == "text":
                # Nearly every block is one of these.
                text = item.get("text")
                if type(text) is str:
                    blocks.append(Text(text=text, path=at))
                    continue
            kind = _kind(item, at)
            if kind in _ROLE_OF and _ROLE_OF[kind] != role:
                raise InvalidRequest.at(f"{at}.type", f"{kind} cannot stand in {role} messages")
            if allowed is not None and kind not in allowed:
                raise InvalidRequest.at(f"{at}.type", "only text can stand in system messages")
            if kind != "tool_addition" or not self._declares(item, at):
                blocks.append(self._block(kind, item, at, role))
        return tuple(blocks)

    def _declares(self, item: Any, path: str) -> bool:
        """Whether a tool_addition block declares a new tool, which then joins the others."""
        tool = item.get("tool")
        if type(tool) is not dict or tool.get("type") != "tool_definition":
            return False
        self.added_tools.append((tool.get("definition"), f"{path}.tool.definition"))
        detail = "the tool is offered from the beginning"
        self._extras.append(Extra(path, item, LossKind.CONVERTED, detail))
        return True

    def texts(self, value: Any, path: str) -> tuple[Text, ...]:
        """Text blocks, or one string."""
        if type(value) is str:
            return (Text(text=value, path=path),)
        found = []
        for item, at in _items(value, path):
            if _kind(item, at) != "text":
                raise InvalidRequest.at(f"{at}.type", "must be text")
            found.append(self._text(Fields(item, at), "system"))
        return tuple(found)

    def cache_mark(self, fields: Fields) -> CacheMark | None:
        """The field `cache_control` of any object."""
        if not fields.has("cache_control"):
            return None
        control = _need(fields, "cache_control")
        if control.need_str("type") != "ephemeral":
            control.fail("type", "must be ephemeral")
        mark = CacheMark(control.take_str("ttl"))
        control.rest(self._extras)
        return mark

    def _block(self, kind: str, item: Any, path: str, role: Role = "user") -> Block:
        match kind:
            case "text":
                return self._text(Fields(item, path), role)
            case "tool_use":
                return self._tool_use(Fields(item, path))
            case "tool_result":
                return self._tool_result(Fields(item, path))
            case "thinking":
                return self._thinking(Fields(item, path))
            case "redacted_thinking":
                return self._redacted(Fields(item, path))
            case "image":
                return self._image(Fields(item, path))
            case "document":
                return self._document(Fields(item, path))
            case "search_result":
                return self._search_result(Fields(item, path))
            case "tool_reference":
                return self._tool_reference(Fields(item, path))
        loss = wire.FOREIGN_BLOCKS.get(kind)
        if loss is None:
            raise InvalidRequest.at(f"{path}.type", "is not a known content block")
        self._searches = self._searches or Searches()
        means = self._searches.meaning(kind, item)
        return Foreign(origin=wire.NAME, type=kind, raw=item, loss=loss, means=means, path=path)

    def _finish(self, fields: Fields, table: Mapping[str, Field] = {}) -> None:
        """Account for the remaining fields of a block that was read."""
        fields.take("type")
        fields.rest(self._extras, table)

    def _text(self, fields: Fields, role: Role) -> Text:
        text = Text(
            text=fields.need_str("text"),
            # Only a model cites; elsewhere the service refuses or ignores citations.
            annotations=_citations(fields) if role == "assistant" else (),
            cache=self.cache_mark(fields),
            path=fields.path,
        )
        self._finish(fields, wire.TEXT)
        return text

    def _image(self, fields: Fields) -> Image:
        source = _need(fields, "source")
        image = Image(
            source=_media_source(source.need_str("type"), source),
            cache=self.cache_mark(fields),
            path=fields.path,
        )
        source.rest(self._extras)
        self._finish(fields, wire.IMAGE)
        return image

    def _document(self, fields: Fields) -> Document:
        source = _need(fields, "source")
        document = Document(
            source=self._document_source(source),
            title=fields.take_str("title"),
            context=fields.take_str("context"),
            citations=self._citations_enabled(fields),
            cache=self.cache_mark(fields),
            path=fields.path,
        )
        source.rest(self._extras)
        self._finish(fields)
        return document

    def _document_source(self, source: Fields) -> DocumentSource:
        kind = source.need_str("type")
        if kind == "text":
            source.take_str("media_type")
            return PlainText(source.need_str("data"))
        if kind == "content":
            path = source.at("content")
            blocks = []
            for item, at in _items(source.take("content"), path):
                inner = _kind(item, at)
                if inner not in _IN_DOCUMENT:
                    raise InvalidRequest.at(f"{at}.type", "must be text or image")
                blocks.append(self._block(inner, item, at))
            return Nested(tuple(blocks))
        return _media_source(kind, source)

    def _search_result(self, fields: Fields) -> SearchResult:
        result = SearchResult(
            source=fields.need_str("source"),
            title=fields.need_str("title"),
            content=self.texts(fields.take("content"), fields.at("content")),
            citations=self._citations_enabled(fields),
            cache=self.cache_mark(fields),
            path=fields.path,
        )
        self._finish(fields)
        return result

    def _citations_enabled(self, fields: Fields) -> bool:
        config = fields.take_fields("citations")
        if config is None:
            return False
        enabled = config.take_bool("enabled") or False
        config.rest(self._extras)
        return enabled

    def _thinking(self, fields: Fields) -> Reasoning:
        text = fields.take_str("thinking") or ""
        signature = fields.take_str("signature")
        block = Reasoning(parts=(text,) if text else (), path=fields.path)
        if signature:
            block = self._opened(block, signature)
        self._finish(fields)
        return block

    def _redacted(self, fields: Fields) -> Reasoning:
        data = fields.need_str("data")
        block = self._opened(Reasoning(redacted=True, path=fields.path), data)
        self._finish(fields)
        return block

    def _opened(self, block: Reasoning, state: str) -> Reasoning:
        """`block` with the state its signature stands for: another vendor's if the signature is
        an envelope of ours (then with the exact text it was made for), else Anthropic's own."""
        sealed = self._sealer.open(state)
        if sealed is None:
            return replace(block, opaque=Opaque(wire.NAME, state))
        if sealed.opaque is None or sealed.opaque.origin == MARKER:
            return block
        return replace(sealed, path=block.path)

    def _tool_use(self, fields: Fields) -> ToolCall:
        identifier = fields.need_str("id")
        name = fields.need_str("name")
        arguments = fields.take_object("input")
        if arguments is None:
            fields.fail("input", "is required")
        call = ToolCall(
            id=identifier,
            name=name,
            arguments=to_json_text(arguments),
            cache=self.cache_mark(fields),
            path=fields.path,
        )
        self._finish(fields, wire.TOOL_USE)
        return call

    def _tool_result(self, fields: Fields) -> ToolResult:
        value = fields.take("content")
        path = fields.at("content")
        content: list[Block] = []
        if type(value) is str:
            content = [Text(text=value, path=path)] if value else []
        elif value:
            for item, at in _items(value, path):
                kind = _kind(item, at)
                if kind not in _IN_RESULT:
                    raise InvalidRequest.at(f"{at}.type", "cannot stand in a tool result")
                content.append(self._block(kind, item, at))
        result = ToolResult(
            call_id=fields.need_str("tool_use_id"),
            content=tuple(content),
            is_error=fields.take_bool("is_error"),
            cache=self.cache_mark(fields),
            path=fields.path,
        )
        self._finish(fields, wire.TOOL_RESULT)
        return result

    def _tool_reference(self, fields: Fields) -> ToolReference:
        reference = ToolReference(
            name=fields.need_str("tool_name"), cache=self.cache_mark(fields), path=fields.path
        )
        self._finish(fields)
        return reference


def _items(value: Any, path: str) -> list[tuple[Any, str]]:
    """The blocks of a content field, each with its path. Text alone is one text block, and some
    clients give a single block without its array."""
    if type(value) is str:
        return [({"type": "text", "text": value}, path)]
    if type(value) is dict:
        return [(value, path)]
    if value is None:
        raise InvalidRequest.at(path, "is required")
    if type(value) is not list:
        raise InvalidRequest.at(path, "must be a string or an array of blocks")
    return [(item, f"{path}[{number}]") for number, item in enumerate(value)]


def _kind(item: Any, path: str) -> str:
    if type(item) is not dict:
        raise InvalidRequest.at(path, "must be an object")
    kind = item.get("type")
    if type(kind) is not str:
        raise InvalidRequest.at(f"{path}.type", "must be a string")
    return kind


def _need(fields: Fields, name: str) -> Fields:
    inner = fields.take_fields(name)
    if inner is None:
        fields.fail(name, "is required")
    return inner


def _media_source(kind: str, source: Fields) -> MediaSource:
    if kind == "base64":
        return Base64(source.need_str("media_type"), _base64(source))
    if kind == "url":
        url = source.need_str("url")
        if not url.startswith(("http://", "https://")):
            source.fail("url", "must be an http or https address")
        return Url(url)
    if kind != "file":
        source.fail("type", "is not a known kind of source")
    return FileId(source.need_str("file_id"), wire.VENDOR)


def _base64(source: Fields) -> str:
    """Base64 text, checked; line breaks in it are taken out."""
    data = source.need_str("data")
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError):
        compact = "".join(data.split())
        try:
            binascii.a2b_base64(compact, strict_mode=True)
        except (binascii.Error, ValueError):
            source.fail("data", "is not base64")
        return compact
    return data


def _citations(fields: Fields) -> tuple[Annotation, ...]:
    if not fields.has("citations"):
        return ()
    citations = fields.take_list("citations") or ()
    for number, citation in enumerate(citations):
        if type(citation) is not dict:
            raise InvalidRequest.at(f"{fields.at('citations')}[{number}]", "must be an object")
    return tuple(ForeignCitation(wire.NAME, citation) for citation in citations)
