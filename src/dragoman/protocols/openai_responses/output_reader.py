"""Reads output items as events, whether they come in pieces, whole, or both (types:
response_output_item.py).

A stream announces an item, sends its pieces and then the whole item; servers leave out any of
these. So what was read of an item is remembered, and the whole item completes it. In a whole answer
no piece came before.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dragoman.canonical.blocks import (
    Block,
    ForeignCitation,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
)
from dragoman.canonical.errors import Fault, FaultKind, UpstreamError
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Event,
    Opened,
    PartBreak,
    Sealed,
)
from dragoman.canonical.losses import LossKind
from dragoman.protocols.base import Inbound, to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.content_reader import read_annotation

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_LATE = "came when its item was over"
_TEXTS = {"output_text": "text", "text": "text", "refusal": "refusal"}


class OpenBlock:
    """A block in progress: its index, how much of its text was passed on (in characters), how
    many annotations, and whether token probabilities were.
    """

    __slots__ = ("cited", "closed", "index", "logged", "sent")

    def __init__(self, index: int) -> None:
        self.index = index
        self.sent = 0
        self.cited = 0
        self.logged = False
        self.closed = False


class _Item(Struct):
    """What was passed on of an output item."""

    kind: str
    done: bool = False
    phase: str | None = None
    texts: dict[int, OpenBlock] = {}
    """Text and refusal parts by content index."""
    block: OpenBlock | None = None
    """The one block of a call or of reasoning."""
    held: list[str] = []
    """Arguments that came before the call's name."""
    style: str | None = None
    part: int = 0
    reasoned: dict[int, int] = {}
    """Characters passed on of each part of the reasoning."""


class OutputReader:
    """Reads the items of one answer. `has_calls` is whether a tool was called."""

    __slots__ = ("_inbound", "_items", "_next", "has_calls")

    def __init__(self, inbound: Inbound) -> None:
        self._inbound = inbound
        self._items: dict[int, _Item] = {}
        self._next = 0
        self.has_calls = False

    def kind_of(self, number: int) -> str | None:
        """The type of an item that was announced or begun, else None."""
        item = self._items.get(number)
        return None if item is None else item.kind

    def unused(self) -> int:
        """A number that no item has."""
        return max(self._items, default=-1) + 1

    def announce(self, number: int, value: JsonObject, path: str) -> list[Event]:
        """An item begins; `value` is its head, `path` where it stands.

        Raises:
            UpstreamError: it asks for something only a client of this protocol can do.
        """
        item = self._known_item(number, value)
        phase = value.get("phase")
        item.phase = phase if isinstance(phase, str) else None
        if item.kind in wire.CLIENT_ACTIONS:
            raise _needs_client(item.kind)
        self._report_unread(item.kind, value, path)
        call_id = _text_of(value, "call_id")
        if item.kind in _CALLS and item.block is None and call_id and _text_of(value, "name"):
            return self._open_call(item, value, call_id)
        return []

    def text_block(self, number: int, part: int) -> OpenBlock | None:
        """The open block of a text part, if it is open."""
        item = self._items.get(number)
        block = None if item is None else item.texts.get(part)
        return None if block is None or block.closed else block

    def text(
        self, number: int, part: int, kind: str, piece: str, logprobs: Any = None
    ) -> list[Event]:
        """More of a text or refusal part."""
        if not piece and not logprobs:
            return []
        item = self._item(number, "message")
        events: list[Event] = []
        block = item.texts.get(part)
        if block is None:
            head: Block = Refusal(text="") if kind == "refusal" else Text(text="", phase=item.phase)
            block = item.texts[part] = self._open(head, events)
        if block.closed:
            self._lose(f"output[{number}].content[{part}]", _LATE)
            return events
        block.sent += len(piece)
        block.logged = block.logged or bool(logprobs)
        events.append(Delta(block.index, piece, tuple(logprobs) if logprobs else None))
        return events

    def part(
        self, number: int, part: int, value: JsonObject, path: str, *, over: bool
    ) -> list[Event]:
        """A text or refusal part as far as it is known; `over`: nothing more of it will come.
        `path` is where it stands.
        """
        kind = str(value.get("type"))
        if kind not in _TEXTS:
            if kind != "reasoning_text":
                self._lose(path, "content part of an unknown type")
            return []
        item = self._item(number, "message")
        block = item.texts.get(part)
        if block is not None and block.closed:
            return []
        text = _text_of(value, _TEXTS[kind])
        logprobs = value.get("logprobs")
        logprobs = logprobs if isinstance(logprobs, list) else None
        if block is not None:
            text = text[block.sent :]
            logprobs = None if block.logged else logprobs
        events = self.text(number, part, kind, text, logprobs)
        annotations = value.get("annotations")
        cited = 0 if block is None else block.cited
        for annotation in (annotations if isinstance(annotations, list) else ())[cited:]:
            events += self.annotation(number, part, annotation, f"{path}.annotations")
        block = item.texts.get(part)
        if over and block is not None:
            events += _close(block)
        return events

    def annotation(self, number: int, part: int, value: Any, path: str) -> list[Event]:
        """A citation in a text part; `path` is where it stands."""
        if not isinstance(value, dict):
            return []
        item = self._item(number, "message")
        events: list[Event] = []
        block = item.texts.get(part)
        if block is None:
            block = item.texts[part] = self._open(Text(text="", phase=item.phase), events)
        if not block.closed:
            block.cited += 1
            annotation = read_annotation(value)
            if isinstance(annotation, ForeignCitation):
                self._lose(path, "such a citation has no counterpart for the client")
            events.append(Annotated(block.index, annotation))
        return events

    def reasoning(self, number: int, style: str, part: int, piece: str) -> list[Event]:
        """More of a part of readable reasoning; `style` is summary or raw."""
        item = self._item(number, "reasoning")
        if not piece:
            return []
        if item.done:
            self._lose(f"output[{number}]", _LATE)
            return []
        events: list[Event] = []
        if item.block is None:
            head = Reasoning(style="raw" if style == "raw" else "summary")
            item.block = self._open(head, events)
            item.style, item.part = style, part
        elif style != item.style:
            self._lose(f"response.output[{number}]", "reasoning is given in one form: its first")
            return []
        elif part != item.part:
            item.part = part
            events.append(PartBreak(item.block.index))
        item.reasoned[part] = item.reasoned.get(part, 0) + len(piece)
        events.append(Delta(item.block.index, piece))
        return events

    def rest_of_reasoning(self, number: int, style: str, part: int, text: str) -> list[Event]:
        """A part of readable reasoning, whole: what is missing of it."""
        item = self._item(number, "reasoning")
        if item.block is not None and (part < item.part or style != item.style):
            return []
        return self.reasoning(number, style, part, text[item.reasoned.get(part, 0) :])

    def arguments(self, number: int, piece: str) -> list[Event]:
        """More of a call's arguments or input."""
        item = self._item(number, "function_call")
        if not piece:
            return []
        if item.done:
            self._lose(f"output[{number}]", _LATE)
            return []
        if item.block is None:
            item.held.append(piece)
            return []
        item.block.sent += len(piece)
        return [Delta(item.block.index, piece)]

    def rest_of_arguments(self, number: int, text: str) -> list[Event]:
        """A call's arguments or input, whole: what is missing of it."""
        item = self._item(number, "function_call")
        known = sum(map(len, item.held)) if item.block is None else item.block.sent
        return self.arguments(number, text[known:])

    def complete(self, number: int, value: JsonObject, path: str) -> list[Event]:
        """An item, whole: what is missing of it, and its end. `path` is where it stands, for
        what is lost of it.

        Raises:
            UpstreamError: it cannot be used, or asks for something only a client of this
                protocol can do.
        """
        item = self._known_item(number, value)
        if item.done:
            return []
        self._report_unread(item.kind, value, path)
        if item.kind == "message":
            return self._complete_message(number, item, value, path)
        if item.kind == "reasoning":
            return self._complete_reasoning(number, item, value, path)
        if item.kind in _CALLS:
            return self._complete_call(number, item, value)
        if item.kind in wire.CLIENT_ACTIONS:
            raise _needs_client(item.kind)
        item.done = True
        return []

    def close_all(self) -> list[Event]:
        """The end of whatever is still open.

        Raises:
            UpstreamError: a call's name never came.
        """
        events: list[Event] = []
        for item in self._items.values():
            if item.held:
                raise UpstreamError.unreadable("a tool call has no name")
            for block in (*item.texts.values(), item.block):
                if block is not None:
                    events += _close(block)
        return events

    def _complete_message(
        self, number: int, item: _Item, value: JsonObject, path: str
    ) -> list[Event]:
        events: list[Event] = []
        if not item.texts and isinstance(value.get("phase"), str):
            item.phase = value["phase"]
        content = value.get("content")
        if isinstance(content, str):
            content = [{"type": "output_text", "text": content}]
        for part, entry in enumerate(content if isinstance(content, list) else ()):
            if isinstance(entry, dict):
                events += self.part(number, part, entry, f"{path}.content[{part}]", over=True)
        for block in item.texts.values():
            if not block.closed:
                events += _close(block)
        item.done = True
        return events

    def _complete_reasoning(
        self, number: int, item: _Item, value: JsonObject, path: str
    ) -> list[Event]:
        texts = {"summary": _texts(value, "summary"), "raw": _texts(value, "content")}
        style = item.style or ("summary" if any(texts["summary"]) else "raw")
        other, where = ("raw", "content") if style == "summary" else ("summary", "summary")
        if any(texts[other]):
            self._lose(f"{path}.{where}", "reasoning is given in one form: its first")
        events: list[Event] = []
        for part, text in enumerate(texts[style]):
            events += self.rest_of_reasoning(number, style, part, text)
        encrypted = value.get("encrypted_content")
        if isinstance(encrypted, str) and encrypted:
            if item.block is None:
                item.block = self._open(Reasoning(), events)
            item_id = value.get("id")
            opaque = Opaque(
                wire.NAME,
                encrypted,
                item_id if isinstance(item_id, str) else None,
                self._inbound.account,
            )
            events.append(Sealed(item.block.index, opaque))
        if item.block is not None:
            events += _close(item.block)
        item.done = True
        return events

    def _complete_call(self, number: int, item: _Item, value: JsonObject) -> list[Event]:
        events: list[Event] = []
        if item.block is None:
            if not _text_of(value, "name"):
                raise UpstreamError.unreadable("a tool call has no name")
            call_id = _text_of(value, "call_id") or _text_of(value, "id") or f"call_{number}"
            events += self._open_call(item, value, call_id)
        arguments = value.get(_CALLS[item.kind])
        if isinstance(arguments, dict | list):
            arguments = to_json_text(arguments)
        if isinstance(arguments, str):
            events += self.rest_of_arguments(number, arguments)
        if item.block is not None:
            events += _close(item.block)
        item.done = True
        return events

    def _open_call(self, item: _Item, value: JsonObject, call_id: str) -> list[Event]:
        namespace = value.get("namespace")
        head = ToolCall(
            id=call_id,
            name=value["name"],
            custom=item.kind == "custom_tool_call",
            namespace=namespace if isinstance(namespace, str) and namespace else None,
        )
        events: list[Event] = []
        item.block = self._open(head, events)
        self.has_calls = True
        held, item.held = "".join(item.held), []
        if held:
            item.block.sent = len(held)
            events.append(Delta(item.block.index, held))
        return events

    def _open(self, head: Block, events: list[Event]) -> OpenBlock:
        block = OpenBlock(self._next)
        self._next += 1
        events.append(Opened(block.index, head))
        return block

    def _item(self, number: int, kind: str) -> _Item:
        item = self._items.get(number)
        if item is None:
            item = self._items[number] = _Item(kind)
        return item

    def _report_unread(self, kind: str, value: JsonObject, path: str) -> None:
        """Report what of an item nobody reads: a field, or all of it."""
        known = wire.ITEM_FIELDS.get(kind)
        if known is None:
            self._lose(path, f"{kind} items have no counterpart for the client")
            return
        if not value.keys() <= known:
            for name, content in value.items():
                if name not in known and content not in (None, False, {"type": "direct"}):
                    self._lose(f"{path}.{name}", "has no counterpart for the client")
        if value.get("phase") is not None:
            self._lose(f"{path}.phase", "messages of other protocols have no phase")

    def _known_item(self, number: int, value: JsonObject) -> _Item:
        """An item by its own word for what it is, unless something was passed on of it."""
        kind = value.get("type")
        if not isinstance(kind, str):
            raise UpstreamError.unreadable("an output item has no type")
        item = self._item(number, kind)
        if item.block is None and not item.texts:
            item.kind = kind
        return item

    def _lose(self, path: str, detail: str) -> None:
        self._inbound.ledger.add(path, LossKind.KNOB, detail)


def _close(block: OpenBlock) -> list[Event]:
    if block.closed:
        return []
    block.closed = True
    return [Closed(block.index)]


def _text_of(value: JsonObject, name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


def _texts(value: JsonObject, name: str) -> list[str]:
    parts = value.get(name)
    return [
        _text_of(part, "text")
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict)
    ]


def _needs_client(kind: str) -> UpstreamError:
    return UpstreamError(
        Fault(
            FaultKind.UPSTREAM_FAILED,
            f"The upstream asks for an action that this client cannot be asked for: {kind}.",
            code="unsupported_output",
        )
    )
